# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ACP-SGD and the paper's baselines by the same hooks and buffers over the same modelled link (:mod:`acp_steps`).

Gradients of S-SGD, Sign-SGD, Top-k and Power-SGD go through ACP-SGD's buffers whole, and each buffer is reduced by the
system. So all of them begin as early, and share buffers alike. What a system computes for a buffer counts where the
buffer is handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any, Final

import torch
from sumwire.job.job import Residual
from sumwire.lowrank.fusion import Plan
from sumwire.systems.baselines.sign import majority_vote
from sumwire.systems.baselines.topk import TopK
from sumwire.training.ddp import Reduce
from sumwire.training.reductions import Peers
from torch import Tensor

from sumwire_lab.experiments.acp_steps import (
    ACP,
    BUFFERS,
    DENSE_BYTES,
    FUSED,
    RANK,
    WARM_UP,
    Link,
    Variant,
    one_thread,
)

WORKERS: Final = 4
SHARE: Final = 0.01
STEPS: Final = 12
SSGD: Final = "S-SGD"
SIGN: Final = "Sign-SGD"
TOP_K: Final = "Top-k"
POWER: Final = "Power-SGD"
NAIVE: Final = "naive"
WFBP: Final = "+ WFBP"
FUSION: Final = "+ fusion"
MODES: Final[Mapping[str, Mapping[str, Any]]] = {
    NAIVE: {"threshold_bytes": 0, "accumulation": None},
    WFBP: {"threshold_bytes": 0},
    FUSION: {"threshold_bytes": DENSE_BYTES // BUFFERS},
}
# No matrix gains so much.
_WHOLE: Final = {"min_compression": 1e12}
Names = tuple[str, str]


class Ends(Peers):
    """The workers of a modelled link: all have what this one has."""

    def __init__(self) -> None:
        self.workers = WORKERS
        self.rank = 0
        self.sent_bytes = 0
        self.link = Link()

    def add_(self, x: Tensor) -> Tensor:
        """See Peers."""
        self.link.all_reduce(x.nbytes)
        return x.mul_(self.workers)

    def gather(self, x: Tensor) -> list[Tensor]:
        """See Peers."""
        self.link.all_gather(x.nbytes, self.workers)
        return [x] * self.workers


class PowerSgd:
    """Power-SGD of one buffer: an all-reduce of P, and then, since it needs the mean of P, one of Q. Tensors of one
    dimension go with P."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._errors: dict[int, Tensor] = {}
        self._factors: dict[int, Tensor] = {}
        self.plan: Plan | None = None

    def reduce(self, x: Tensor, number: int) -> tuple[Tensor, Residual]:
        """See Reduce. What is left out stays here."""
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


def _mean_of(ends: Ends, x: Tensor, number: int) -> tuple[Tensor, Residual]:
    return ends.add_(x.clone()).div_(WORKERS), lambda: torch.zeros_like(x)


MAKERS: Final[Mapping[str, Callable[[Ends], Reduce]]] = {
    SSGD: lambda ends: partial(_mean_of, ends),
    SIGN: lambda ends: partial(majority_vote, ends),
    TOP_K: lambda ends: TopK(ends, SHARE).reduce,
    ACP: lambda ends: partial(_mean_of, ends),
}
SYSTEMS: Final = (SSGD, SIGN, TOP_K, POWER, ACP)


def made(system: str, mode: str) -> Variant:
    """A training of its own with a system in a mode."""
    ends = Ends()
    power = PowerSgd(ends)
    reduce = power.reduce if system == POWER else MAKERS[system](ends)
    given = {**MODES[mode], **({} if system == ACP else _WHOLE)}
    variant = Variant(given, reduce)
    ends.link = variant.link
    power.plan = variant.plan
    return variant


def measured(steps: int = STEPS) -> dict[Names, float]:
    """Median seconds of a step by system and mode, which take turns. The link is that of ACP-SGD's steps."""
    with one_thread():
        variants = {(system, mode): made(system, mode) for system in SYSTEMS for mode in MODES}
        alone = Variant(FUSED)
        turns = []
        for _ in range(WARM_UP + steps):
            computing = alone.step()
            for one in variants.values():
                one.meet(computing, alone)
            turns.append({name: one.step() for name, one in variants.items()})
    return {name: median(turn[name] for turn in turns[WARM_UP:]) for name in variants}
