# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs ACP-SGD and the paper's baselines on a modelled link, to measure the gain of overlap and of fusion separately.

One worker trains a stack of equal layers, with at least ``BUFFERS`` buffers a step. An all-reduce has a start-up time
and a time per byte; both are shares of the computing time, which is real. So the time of a step shows how well the
optimizer's hooks and buffers combine the two. Time is the computing thread's CPU time plus its waits for the link, so
other work on the machine does not affect it.

All systems use the same hooks and buffers: gradients of S-SGD, Sign-SGD, Top-k and Power-SGD go through ACP-SGD's
buffers whole, and the system reduces each buffer. A system's computing for a buffer is counted when the buffer is
handed over.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Final

import torch
from sumwire.job.job import Residual
from sumwire.lowrank import AcpSgd
from sumwire.lowrank.fusion import Phase, Plan
from sumwire.systems.baselines import TopK, majority_vote
from sumwire.training.ddp import Reduce
from sumwire.training.reductions import Peers
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


class ModelledLink:
    """Collectives on a ring, one after the other. The time of an all-reduce is a number of seconds for its start, for
    the latencies, plus a number of seconds per byte."""

    def __init__(self) -> None:
        self.start_s = 0.0
        self.byte_s = 0.0
        self._waited = 0.0
        self._free = 0.0
        self._asked = 0.0

    def now(self) -> float:
        """Return seconds: this thread's CPU time, plus its waits for the link."""
        return time.thread_time() + self._waited

    def reduce(self, x: Tensor, number: int) -> tuple[Tensor, Residual]:
        """Return the result of the all-reduce of one buffer."""
        self.all_reduce(x.nbytes)
        return x.clone(), lambda: torch.zeros_like(x)

    def all_reduce(self, size: int) -> None:
        """Model an all-reduce inside a call: 2 (n - 1) hops, each with an n-th of these bytes."""
        self._asked += self.start_s + size * self.byte_s

    def all_gather(self, size: int, workers: int) -> None:
        """Model an all-gather inside a call: n - 1 hops, each with all bytes of one worker."""
        self._asked += (self.start_s + size * workers * self.byte_s) / 2

    def submit(self, call: Callable[[], None]) -> Future[None]:
        """Make a call. Its transfers begin when all earlier ones are done."""
        began, self._asked = self.now(), 0.0
        call()
        self._free = max(began, self._free) + self._asked
        return Arrival(self, self._free)

    def wait_until(self, then: float) -> None:
        """Wait, unless that time has passed."""
        self._waited += max(then - self.now(), 0.0)


class Arrival(Future[None]):
    """A transfer that ends at a time of the link."""

    def __init__(self, link: ModelledLink, then: float) -> None:
        super().__init__()
        self._link, self._then = link, then
        self.set_result(None)

    def wait(self) -> None:
        """Wait until the transfer ends."""
        self._link.wait_until(self._then)


@dataclass(frozen=True)
class Sweep:
    """Median seconds of a step by the number of buffers, the number that the search has chosen, and its seconds per
    step."""

    seconds: Mapping[int, float]
    chosen: int
    chosen_s: float

    @property
    def over_best(self) -> float:
        """Return the seconds with the chosen number of buffers over those with the sweep's best number."""
        return self.chosen_s / min(self.seconds.values())


class Plain:
    """A separate training without any synchronisation, whose steps are computing only."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.link = ModelledLink()
        self._model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
        self._optimizer: Optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-3)
        self._x = torch.randn(BATCH, WIDTH)

    def step(self) -> float:
        """Make one step, and return its seconds."""
        began = self.link.now()
        self._optimizer.zero_grad()
        self._model(self._x).square().mean().backward()
        self._optimizer.step()
        return self.link.now() - began


class AcpTraining(Plain):
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
        """Number of buffers of a step, the smaller one of P and Q."""
        return min(len(groups) for groups in self._acp.plan.groups)

    @property
    def sent_bytes(self) -> float:
        """Bytes sent in a step, the mean of P and Q."""
        return sum(self._acp.plan.sent_bytes(phase) for phase in Phase) / len(Phase)

    @property
    def seeking(self) -> bool:
        """Whether the search for the size of the buffers goes on."""
        return self._acp.seeking

    def meet(self, computing: float, fused: AcpTraining) -> None:
        """Set the link's times for a step that computes for `computing` seconds and sends as much as `fused`."""
        self.link.start_s = STARTS * computing / fused.buffers
        self.link.byte_s = TRANSFERS * computing / fused.sent_bytes


def measured(steps: int = STEPS) -> list[dict[str, float]]:
    """Return seconds of a step by variant, of computing with compression, and of computing alone; one entry for each
    turn.

    In a turn each variant makes a step. The link's times are shares of the turn's computing time, so a processor that
    slows down does not change the ratios.
    """
    with one_thread():
        return _measured(steps)


def swept(steps: int = STEPS) -> Sweep:
    """Return seconds of a step by the number of buffers, and with the number that ACP-SGD finds itself."""
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
    variants = {name: AcpTraining(given) for name, given in VARIANTS.items()}
    plain, alone = Plain(), AcpTraining(FUSED)
    turns = []
    for _ in range(WARM_UP + steps):
        turn = {COMPUTING: plain.step(), COMPRESSING: alone.step()}
        for one in variants.values():
            one.meet(turn[COMPRESSING], alone)
        turns.append(turn | {name: one.step() for name, one in variants.items()})
    return turns[WARM_UP:]


def _swept(steps: int) -> Sweep:
    alone = AcpTraining(FUSED)
    computing = median([alone.step() for _ in range(WARM_UP + steps)][WARM_UP:])
    fixed = [AcpTraining({"threshold_bytes": -(-DENSE_BYTES // buffers)}) for buffers in SWEPT]
    tuned = AcpTraining({"threshold_bytes": None})
    for one in (*fixed, tuned):
        one.meet(computing, alone)
    while tuned.seeking:
        tuned.step()
    turns = [[one.step() for one in (*fixed, tuned)] for _ in range(WARM_UP + steps)][WARM_UP:]
    *sweep, own = (median(column) for column in zip(*turns, strict=True))
    return Sweep({one.buffers: seconds for one, seconds in zip(fixed, sweep, strict=True)}, tuned.buffers, own)


WORKERS: Final = 4
SHARE: Final = 0.01
SYSTEM_STEPS: Final = 12
SSGD: Final = "S-SGD"
SIGN: Final = "Sign-SGD"
TOP_K: Final = "Top-k"
POWER: Final = "Power-SGD"
NAIVE: Final = "naive"
WFBP: Final = "+ WFBP"
FUSION_MODE: Final = "+ fusion"
MODES: Final[Mapping[str, Mapping[str, Any]]] = {
    NAIVE: {"threshold_bytes": 0, "accumulation": None},
    WFBP: {"threshold_bytes": 0},
    FUSION_MODE: {"threshold_bytes": DENSE_BYTES // BUFFERS},
}
# No matrix gains so much.
_WHOLE: Final = {"min_compression": 1e12}
Names = tuple[str, str]


class ModelledPeers(Peers):
    """The workers of a modelled link: all have the same data as this one."""

    def __init__(self) -> None:
        self.workers = WORKERS
        self.rank = 0
        self.sent_bytes = 0
        self.link = ModelledLink()

    def add_(self, x: Tensor) -> Tensor:
        """See Peers."""
        self.link.all_reduce(x.nbytes)
        return x.mul_(self.workers)

    def gather(self, x: Tensor) -> list[Tensor]:
        """See Peers."""
        self.link.all_gather(x.nbytes, self.workers)
        return [x] * self.workers


class PowerSgd:
    """Power-SGD of one buffer: an all-reduce of P, then one of Q, which needs the mean of P. Tensors of one dimension
    go with P."""

    def __init__(self, ends: ModelledPeers) -> None:
        self._ends = ends
        self._errors: dict[int, Tensor] = {}
        self._factors: dict[int, Tensor] = {}
        self.plan: Plan | None = None

    def reduce(self, x: Tensor, number: int) -> tuple[Tensor, Residual]:
        """Reduce as Reduce does; values that are left out stay here."""
        assert self.plan is not None
        members = self.plan.groups[number % 2][number // 2]
        items = {member: self.plan.items[member] for member in members}
        pieces = dict(zip(members, torch.split(x, [item.values for item in items.values()]), strict=True))
        matrices = {one: piece.view(items[one].shape) for one, piece in pieces.items() if len(items[one].shape) > 1}
        others = [one for one in members if one not in matrices]
        totals = {one: matrix + self._errors.get(one, 0.0) for one, matrix in matrices.items()}
        left = {one: total @ self._factor(one, total) for one, total in totals.items()}
        mean = self._mean([*left.values(), *(pieces[one] for one in others)])
        bases = {one: torch.linalg.qr(part)[0] for one, part in zip(left, mean, strict=False)}
        right = self._mean([totals[one].T @ basis for one, basis in bases.items()])
        self._factors |= dict(zip(bases, right, strict=True))
        found = dict(zip(others, mean[len(left) :], strict=True))
        for one, basis in bases.items():
            found[one] = basis @ self._factors[one].T
            self._errors[one] = totals[one] - found[one]
        return torch.cat([found[one].reshape(-1) for one in members]), lambda: torch.zeros_like(x)

    def _factor(self, member: int, matrix: Tensor) -> Tensor:
        if member not in self._factors:
            self._factors[member] = torch.randn(matrix.shape[1], RANK)
        return self._factors[member]

    def _mean(self, tensors: list[Tensor]) -> list[Tensor]:
        if not tensors:
            return []
        flat = self._ends.add_(torch.cat([one.reshape(-1) for one in tensors])).div_(WORKERS)
        parts = torch.split(flat, [one.numel() for one in tensors])
        return [part.view(one.shape) for part, one in zip(parts, tensors, strict=True)]


def _mean_of(ends: ModelledPeers, x: Tensor, number: int) -> tuple[Tensor, Residual]:
    return ends.add_(x.clone()).div_(WORKERS), lambda: torch.zeros_like(x)


MAKERS: Final[Mapping[str, Callable[[ModelledPeers], Reduce]]] = {
    SSGD: lambda ends: partial(_mean_of, ends),
    SIGN: lambda ends: partial(majority_vote, ends),
    TOP_K: lambda ends: TopK(ends, SHARE).reduce,
    ACP: lambda ends: partial(_mean_of, ends),
}
SYSTEMS: Final = (SSGD, SIGN, TOP_K, POWER, ACP)


def made(system: str, mode: str) -> AcpTraining:
    """Return a training of its own with a system in a mode."""
    ends = ModelledPeers()
    power = PowerSgd(ends)
    reduce = power.reduce if system == POWER else MAKERS[system](ends)
    given = {**MODES[mode], **({} if system == ACP else _WHOLE)}
    variant = AcpTraining(given, reduce)
    ends.link = variant.link
    power.plan = variant.plan
    return variant


def measured_systems(steps: int = SYSTEM_STEPS) -> dict[Names, float]:
    """Return the median seconds of a step by system and mode, which take turns. The link is that of ACP-SGD's steps."""
    with one_thread():
        variants = {(system, mode): made(system, mode) for system in SYSTEMS for mode in MODES}
        alone = AcpTraining(FUSED)
        turns = []
        for _ in range(WARM_UP + steps):
            computing = alone.step()
            for one in variants.values():
                one.meet(computing, alone)
            turns.append({name: one.step() for name, one in variants.items()})
    return {name: median(turn[name] for turn in turns[WARM_UP:]) for name in variants}
