# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker that all-reduces by gloo and by Sumwire in turn: `python -m sumwire_lab.bench.turns_worker SPEC.json RANK`.

Whatever slows the machine down for a while then slows both down.
"""

from __future__ import annotations

import sys
from typing import Any

import torch.distributed as dist

from sumwire_lab.bench import allreduce_worker, worker
from sumwire_lab.bench.allreduce_worker import AllReduce
from sumwire_lab.bench.worker import Exchange


class InTurn(Exchange):
    """gloo's exchange, then the other one's, and so on, with each size."""

    warm_up = 2

    def __init__(self, gloo: AllReduce, other: AllReduce) -> None:
        super().__init__(other.job)
        self._both = (gloo, other)
        self._turn = self._others = self._group_before = 0
        self._by_group: list[float] = []

    def begin(self, size: int) -> None:
        """See Exchange."""
        for each in self._both:
            each.begin(size)
        self._turn = self._others = 0
        self._group_before = self._group_operations()

    def prepare(self) -> None:
        """See Exchange."""
        self._both[self._turn].prepare()

    def exchange(self) -> None:
        """See Exchange."""
        self._both[self._turn].exchange()
        self._others += self._turn
        self._turn = 1 - self._turn

    def end(self) -> None:
        """See Exchange."""
        for each in self._both:
            each.end()
        self._by_group.append((self._group_operations() - self._group_before) / self._others)

    def stats(self) -> dict[str, Any]:
        """See Exchange. `by_group`: for each size, which share of the other's exchanges it left to the group."""
        return {**super().stats(), "by_group": self._by_group}

    def _group_operations(self) -> int:
        return 0 if self.job is None else self.job.stats.group_operations


def make(spec: dict[str, Any], rank: int) -> InTurn:
    """gloo, and the spec's system."""
    return InTurn(AllReduce(dist.all_reduce, rank), allreduce_worker.make(spec, rank))


if __name__ == "__main__":
    worker.run(sys.argv[1:], make)
