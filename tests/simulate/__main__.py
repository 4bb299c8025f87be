# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""``python -m simulate``."""

import sys

from simulate.cli import main

if __name__ == "__main__":
    sys.exit(main())
