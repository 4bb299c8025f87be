# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m sumwire_lab`."""

from __future__ import annotations

import sys

from sumwire_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
