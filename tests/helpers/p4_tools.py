# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The scripts of p4src/tools, which are no package, as modules."""

from __future__ import annotations

import sys

from helpers.paths import ROOT

sys.path.insert(0, str(ROOT / "p4src/tools"))

import build
import constants
import tna

__all__ = ["build", "constants", "tna"]
