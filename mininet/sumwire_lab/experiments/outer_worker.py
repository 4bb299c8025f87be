# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker that makes outer steps by gloo, by an int8 ring and by Sumwire in turn: `outer_worker SPEC.json RANK`.

The local steps take no time: a step is the exchange of a whole pseudo-gradient, and the outer optimizer's step. Each
size has a congestion control of its own for gloo's connections.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import sumwire
import torch
from sumwire.optim import Outer
from sumwire.training.reductions import through_group
from torch import Tensor, nn

from sumwire_lab.bench import worker
from sumwire_lab.bench.worker import Exchange
from sumwire_lab.experiments.int8_ring import ring_mean
from sumwire_lab.system import congestion_control

SYSTEMS: Final = ("gloo", "int8 ring", "4bit")


def _by_ring(x: Tensor, number: int) -> tuple[Tensor, Callable[[], Tensor]]:
    return ring_mean(x), lambda: torch.zeros_like(x)


class OuterSteps(Exchange):
    """One outer step of each system, then the next one of each."""

    warm_up = len(SYSTEMS)

    def __init__(self, job: sumwire.Job, rank: int, controls: Sequence[str]) -> None:
        super().__init__(job)
        self._rank = rank
        self._controls = iter(controls)
        self._control = ""
        self._turn = 0
        self._outers: list[Outer] = []
        self._digests: list[str] = []

    def begin(self, size: int) -> None:
        """See Exchange."""
        self._control = next(self._controls)
        self._turn = 0
        self._outers.clear()
        draws = torch.Generator().manual_seed(self._rank)
        for system in SYSTEMS:
            weight = nn.Parameter(torch.zeros(size))
            # The local step: a move that differs from worker to worker.
            weight.grad = torch.randn(size, generator=draws)
            inner = torch.optim.SGD([weight], lr=0.01)
            if system == "4bit":
                self._outers.append(Outer(inner, self.job, every=1))
            else:
                reduce = through_group() if system == "gloo" else _by_ring
                self._outers.append(Outer(inner, None, every=1, reduce=reduce))

    def prepare(self) -> None:
        """Choose before each step: a group of gloo's makes its connections late, and those have the machine's kind."""
        congestion_control.choose(self._control)

    def exchange(self) -> None:
        """See Exchange."""
        self._outers[self._turn].step()
        self._turn = (self._turn + 1) % len(SYSTEMS)

    def end(self) -> None:
        """See Exchange."""
        self._digests += [hashlib.sha256(outer.shared.numpy().tobytes()).hexdigest() for outer in self._outers]

    def stats(self) -> dict[str, Any]:
        """See Exchange. `digests`: of the shared parameters, by system."""
        return {**super().stats(), "digests": self._digests}


def make(spec: dict[str, Any], rank: int) -> OuterSteps:
    """All three, over the spec's job and the default process group."""
    return OuterSteps(sumwire.Job(sumwire.load_job(spec["job_file"], worker=rank)), rank, spec["controls"])


if __name__ == "__main__":
    worker.run(sys.argv[1:], make)
