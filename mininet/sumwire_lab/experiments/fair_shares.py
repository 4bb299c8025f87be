# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Two jobs share a link whose queue marks nothing, and one of them starts late: what each gets.

The workers and an aggregator are processes in a network namespace of their own, whose one device is the link.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sumwire_lab.errors import ProcessDiedError


@dataclass(frozen=True)
class FairShares:
    """``jobs`` of two workers each begin ``apart_s`` after each other, on a link of ``mbit`` for all of their packets.
    ``settles_s`` after the last of them, what they send is counted for ``counts_s``. ``drains``: whether senders
    drain. ``values``: of each tensor, so many that no job comes to the end of one, where its queue would run empty."""

    jobs: int = 2
    mbit: float = 20.0
    apart_s: float = 5.0
    settles_s: float = 25.0
    counts_s: float = 30.0
    drains: bool = True
    values: int = 40_000_000


@dataclass(frozen=True)
class Shares:
    """``rates``: contributions a second of a worker of each job, in the order in which jobs began."""

    rates: Sequence[float]

    @property
    def fairness(self) -> float:
        """The smallest rate over the largest one."""
        return min(self.rates) / max(self.rates)


def measured(options: FairShares) -> Shares:
    """Needs root, for the namespace. Raises ProcessDiedError if a process fails."""
    command = ["unshare", "--net", sys.executable, "-m", "sumwire_lab.experiments.fair_shares_worker"]
    done = subprocess.run([*command, json.dumps(asdict(options))], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ProcessDiedError(f"jobs that share a link ended with {done.returncode}; see what they wrote above")
    return Shares(**json.loads(done.stdout.splitlines()[-1]))
