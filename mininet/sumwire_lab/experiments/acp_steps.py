# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What overlap and fusion bring to ACP-SGD, one at a time, on a link that is modelled.

One worker trains a stack of equal layers, with at least ``BUFFERS`` buffers a step. An all-reduce takes a time to
start, and a time by its bytes; both are shares of the time of computing, which is real. So a step takes what the
optimizer's hooks, buffers and thread make of both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import torch
from sumwire.lowrank import AcpSgd
from sumwire.lowrank.fusion import Phase
from sumwire.training.comm_thread import CommThread
from torch import Tensor, nn

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
_DENSE_BYTES: Final = 4 * LAYERS * (WIDTH * WIDTH + WIDTH)
_FUSED: Final = {"threshold_bytes": _DENSE_BYTES // BUFFERS}
VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    ACP: _FUSED,
    LATE: {**_FUSED, "accumulation": None},
    UNFUSED: {"threshold_bytes": 0},
}


@dataclass
class Link:
    """A ring's all-reduce: seconds for its start, which are its latencies, and seconds a byte."""

    start_s: float = 0.0
    byte_s: float = 0.0

    def reduce(self, x: Tensor, number: int) -> tuple[Tensor, Callable[[], Tensor]]:
        """The all-reduce of one buffer."""
        time.sleep(self.start_s + x.nbytes * self.byte_s)
        return x.clone(), lambda: torch.zeros_like(x)


class Variant:
    """A training of its own, with these settings of ACP-SGD."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        torch.manual_seed(1)
        self.link = Link()
        self._model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
        self._thread = CommThread("modelled link")
        inner = torch.optim.SGD(self._model.parameters(), lr=1e-3)
        self._optimizer = AcpSgd(self._model, inner, self.link.reduce, rank=RANK, submit=self._thread.submit, **given)
        self._x = torch.randn(BATCH, WIDTH)

    @property
    def buffers(self) -> int:
        """Buffers of a step, the fewer of P and Q."""
        return min(len(groups) for groups in self._optimizer.plan.groups)

    @property
    def sent_bytes(self) -> float:
        """Bytes of a step, the mean of P and Q."""
        return sum(self._optimizer.plan.sent_bytes(phase) for phase in Phase) / len(Phase)

    def step(self) -> float:
        """Make one step; returns its seconds."""
        began = time.perf_counter()
        self._optimizer.zero_grad()
        self._model(self._x).square().mean().backward()
        self._optimizer.step()
        return time.perf_counter() - began

    def close(self) -> None:
        """End its thread."""
        self._optimizer.close()
        self._thread.close()


def measured(steps: int = STEPS) -> dict[str, float]:
    """Median seconds of a step by variant, which take turns; of computing alone; and the number of buffers."""
    variants = {name: Variant(given) for name, given in VARIANTS.items()}
    fused = variants[ACP]
    computing = median([fused.step() for _ in range(WARM_UP + steps)][WARM_UP:])
    link = Link(STARTS * computing / fused.buffers, TRANSFERS * computing / fused.sent_bytes)
    for one in variants.values():
        one.link.start_s, one.link.byte_s = link.start_s, link.byte_s
    turns = [{name: one.step() for name, one in variants.items()} for _ in range(WARM_UP + steps)][WARM_UP:]
    for one in variants.values():
        one.close()
    seconds = {name: median(turn[name] for turn in turns) for name in VARIANTS}
    return {"computing": computing, "buffers": float(fused.buffers), **seconds}
