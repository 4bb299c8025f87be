# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Workers that the tests of the study engine start in processes of their own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sumwire_lab.faults.cases import FaultCase
from sumwire_lab.study.workers import Rank


@dataclass(frozen=True)
class Given:
    numbers: tuple[int, ...]
    path: Path
    shares: Mapping[str, float]


def typed(given: Given) -> dict[str, Any]:
    kind = type(given.path).__name__
    return {"sum": sum(given.numbers), "path": kind, "half": given.shares["a"], "torch": "torch" in sys.modules}


def summed(most: int, rank: Rank) -> dict[str, Any]:
    import numpy as np
    import torch
    import torch.distributed as dist

    with rank.group(), rank.job(fallback="never") as job:
        total = torch.tensor([float(rank.number + 1)])
        dist.all_reduce(total)
        mine = np.full(2, most + rank.number, np.int32)
        return {"rank": rank.number, "group": float(total), "job": job.sum32(mine).tolist()}


def failing(given: None) -> None:
    raise ValueError("this one fails")


def sleeping(case: Mapping[str, float]) -> None:
    time.sleep(case["seconds"])


def meeting(case: Mapping[str, Any]) -> dict[str, bool]:
    """Waits until the other case runs too."""
    folder, deadline = Path(case["others"]), time.monotonic() + 60
    (folder / f"here{case['number']}").touch()
    other = folder / f"here{3 - case['number']}"
    while not other.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return {"met": other.exists()}


def fault(case: FaultCase, rank: Rank) -> dict[str, int]:
    """A case whose variant says what happens in it. Files in its folder tell the test how far it is."""
    if case.variant == "fails":
        raise ValueError("it went wrong")
    if case.variant.startswith("hangs"):
        # A child in a session of its own, which never ends by itself.
        with subprocess.Popen(_sleep(rank), start_new_session=True):
            (rank.folder / "here").touch()
    if case.variant.startswith("listens"):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        with socket.create_server(("127.0.0.1", 47111)):
            (rank.folder / "here").touch()
            _wait_others(rank)
    return {"value": 7}


def _sleep(rank: Rank) -> tuple[str, ...]:
    return tuple((rank.folder.parent.parent / "sleep").read_text().split())


def _wait_others(rank: Rank) -> None:
    deadline = time.monotonic() + 60
    while len(list(rank.folder.parent.glob("*/here"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
