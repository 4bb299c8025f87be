# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What overlap and fusion bring to ACP-SGD, one at a time, on a link that is modelled.

One worker trains a stack of equal layers, with at least ``BUFFERS`` buffers a step. An all-reduce takes a time to
start, and a time by its bytes; both are shares of the time of computing, which is real. So a step takes what the
optimizer's hooks and buffers make of both.

Time is that of the computing thread's processor, and its waits for the link. So other work on the machine, which takes
the processor away, changes nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import torch
from sumwire.job.job import Residual
from sumwire.lowrank import AcpSgd
from sumwire.lowrank.fusion import Phase, Plan
from sumwire.training.ddp import Reduce
from torch import Tensor, nn
from torch.futures import Future
from torch.optim import Optimizer

LAYERS: Final = 24
WIDTH: Final = 256
BATCH: Final = 256
RANK: Final = 8
BUFFERS: Final = 8
STEPS: Final = 24
WARM_UP: Final = 4
# Shares of the time of computing: all transfers, and the starts of all buffers.
TRANSFERS: Final = 0.6
STARTS: Final = 0.1
ACP: Final = "ACP-SGD"
LATE: Final = "without overlap"
UNFUSED: Final = "without fusion"
COMPUTING: Final = "computing"
COMPRESSING: Final = "computing and compression"
# Numbers of buffers a step: all in one, and up to a tensor in each.
SWEPT: Final = (1, 2, 4, 8, 16, 48)
DENSE_BYTES: Final = 4 * LAYERS * (WIDTH * WIDTH + WIDTH)
FUSED: Final = {"threshold_bytes": DENSE_BYTES // BUFFERS}
VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    ACP: FUSED,
    LATE: {**FUSED, "accumulation": None},
    UNFUSED: {"threshold_bytes": 0},
}


class Link:
    """A ring's collectives, one after the other. Of an all-reduce: seconds for its start, which are its latencies, and
    seconds a byte."""

    def __init__(self) -> None:
        self.start_s = 0.0
        self.byte_s = 0.0
        self._waited = 0.0
        self._free = 0.0
        self._asked = 0.0

    def now(self) -> float:
        """Seconds of this thread's processor, and of its waits for the link."""
        return time.thread_time() + self._waited

    def reduce(self, x: Tensor, number: int) -> tuple[Tensor, Residual]:
        """The all-reduce of one buffer."""
        self.all_reduce(x.nbytes)
        return x.clone(), lambda: torch.zeros_like(x)

    def all_reduce(self, size: int) -> None:
        """A part of a call: 2 (n - 1) hops, each with an n-th of these bytes."""
        self._asked += self.start_s + size * self.byte_s

    def all_gather(self, size: int, workers: int) -> None:
        """A part of a call: n - 1 hops, each with all bytes of one worker."""
        self._asked += (self.start_s + size * workers * self.byte_s) / 2

    def submit(self, call: Callable[[], None]) -> Future[None]:
        """Make a call, whose transfers begin when those before them are done."""
        began, self._asked = self.now(), 0.0
        call()
        self._free = max(began, self._free) + self._asked
        return Arrival(self, self._free)

    def wait_until(self, then: float) -> None:
        """Wait, unless that time has passed."""
        self._waited += max(then - self.now(), 0.0)


class Arrival(Future[None]):
    """A transfer that ends at a time of the link."""

    def __init__(self, link: Link, then: float) -> None:
        super().__init__()
        self._link, self._then = link, then
        self.set_result(None)

    def wait(self) -> None:
        """Let the time pass."""
        self._link.wait_until(self._then)


@dataclass(frozen=True)
class Sweep:
    """Median seconds of a step by buffers a step; how many buffers the search has chosen, and what a step takes so."""

    seconds: Mapping[int, float]
    chosen: int
    chosen_s: float

    @property
    def over_best(self) -> float:
        """The chosen one's seconds over those of the best number of the sweep."""
        return self.chosen_s / min(self.seconds.values())


class Plain:
    """A training of its own without any synchronisation: a step is computing alone."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.link = Link()
        self._model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
        self._optimizer: Optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-3)
        self._x = torch.randn(BATCH, WIDTH)

    def step(self) -> float:
        """Make one step; returns its seconds."""
        began = self.link.now()
        self._optimizer.zero_grad()
        self._model(self._x).square().mean().backward()
        self._optimizer.step()
        return self.link.now() - began


class Variant(Plain):
    """A training with these settings of ACP-SGD."""

    def __init__(self, given: Mapping[str, Any], reduce: Reduce | None = None) -> None:
        super().__init__()
        inner, link = self._optimizer, self.link
        self._acp = AcpSgd(self._model, inner, reduce or link.reduce, rank=RANK, submit=link.submit, **given)
        self._optimizer = self._acp
        if self._acp.search is not None:
            self._acp.search.clock = link.now

    @property
    def plan(self) -> Plan:
        """Which tensors share a buffer."""
        return self._acp.plan

    @property
    def buffers(self) -> int:
        """Buffers of a step, the fewer of P and Q."""
        return min(len(groups) for groups in self._acp.plan.groups)

    @property
    def sent_bytes(self) -> float:
        """Bytes of a step, the mean of P and Q."""
        return sum(self._acp.plan.sent_bytes(phase) for phase in Phase) / len(Phase)

    @property
    def seeking(self) -> bool:
        """Whether the size of its buffers is still being searched for."""
        return self._acp.seeking

    def meet(self, computing: float, fused: Variant) -> None:
        """Set the link for a step that computes for so many seconds and sends what `fused` does."""
        self.link.start_s = STARTS * computing / fused.buffers
        self.link.byte_s = TRANSFERS * computing / fused.sent_bytes


def measured(steps: int = STEPS) -> list[dict[str, float]]:
    """Seconds of a step by variant, of computing with compression, and of computing alone; one entry for each turn.

    In a turn each makes a step. The link follows the computing of the turn, so that a processor that slows down leaves
    the shares as they are.
    """
    with one_thread():
        return _measured(steps)


def swept(steps: int = STEPS) -> Sweep:
    """Seconds of a step by buffers a step, and with the number that ACP-SGD has found by itself."""
    with one_thread():
        return _swept(steps)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute in the calling thread alone, whose time is measured."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _measured(steps: int) -> list[dict[str, float]]:
    variants = {name: Variant(given) for name, given in VARIANTS.items()}
    plain, alone = Plain(), Variant(FUSED)
    turns = []
    for _ in range(WARM_UP + steps):
        turn = {COMPUTING: plain.step(), COMPRESSING: alone.step()}
        for one in variants.values():
            one.meet(turn[COMPRESSING], alone)
        turns.append(turn | {name: one.step() for name, one in variants.items()})
    return turns[WARM_UP:]


def _swept(steps: int) -> Sweep:
    alone = Variant(FUSED)
    computing = median([alone.step() for _ in range(WARM_UP + steps)][WARM_UP:])
    fixed = [Variant({"threshold_bytes": -(-DENSE_BYTES // buffers)}) for buffers in SWEPT]
    tuned = Variant({"threshold_bytes": None})
    for one in (*fixed, tuned):
        one.meet(computing, alone)
    while tuned.seeking:
        tuned.step()
    turns = [[one.step() for one in (*fixed, tuned)] for _ in range(WARM_UP + steps)][WARM_UP:]
    *sweep, own = (median(column) for column in zip(*turns, strict=True))
    return Sweep({one.buffers: seconds for one, seconds in zip(fixed, sweep, strict=True)}, tuned.buffers, own)
