# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""``python -m softswitch`` runs the command ``softswitch``."""

import sys

from softswitch.cli import main

sys.exit(main())
