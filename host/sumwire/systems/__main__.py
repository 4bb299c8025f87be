# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m sumwire.systems` writes the tables of docs/systems.md."""

import sys

from sumwire.systems.table import as_markdown

sys.stdout.write(as_markdown())
