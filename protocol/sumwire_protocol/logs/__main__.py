# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m sumwire_protocol.logs` writes the table of events in docs/watch.md to standard output."""

import sys

from sumwire_protocol.logs.events import as_markdown

sys.stdout.writelines(f"{line}\n" for line in as_markdown())
