# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ledgers of unfinished runs of the lab, by process: tests of other processes may have runs of their own under way."""

from __future__ import annotations

import json
import os
from pathlib import Path

from sumwire_lab.system import leftovers


def kept() -> list[Path]:
    """Ledgers of labs that are left standing."""
    return [path for path, text in leftovers.texts() if json.loads(text).get("kept")]


def of_process(pid: int) -> list[Path]:
    """Ledgers of runs that a process began, and has not cleaned up."""
    return [path for path, text in leftovers.texts() if json.loads(text)["owner"] == pid]


def of_this_process() -> list[Path]:
    """Ledgers of runs that this process began, and has not cleaned up."""
    return of_process(os.getpid())
