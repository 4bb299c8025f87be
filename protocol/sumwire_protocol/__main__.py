# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m sumwire_protocol` writes the table of ops in docs/wire-format.md to standard output."""

import sys

from sumwire_protocol.ops import as_markdown

sys.stdout.write(as_markdown())
