# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ledgers of unfinished runs of the lab, by process: tests of other processes may have runs of their own under way."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from sumwire_lab.system import leftovers


def kept() -> list[Path]:
    """Ledgers of labs that are left standing."""
    return [path for path in leftovers.LEDGER_DIR.glob("*.json") if json.loads(path.read_text()).get("kept")]


def of_process(pid: int) -> list[Path]:
    """Ledgers of runs that a process began, and has not cleaned up."""
    mine = []
    for path in leftovers.LEDGER_DIR.glob("*.json"):
        # Another process's may go meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if json.loads(path.read_text())["owner"] == pid:
                mine.append(path)
    return mine


def of_this_process() -> list[Path]:
    """Ledgers of runs that this process began, and has not cleaned up."""
    return of_process(os.getpid())
