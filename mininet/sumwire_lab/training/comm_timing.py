# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures communication of any system: the time in DDP's hook, and the bytes on the host's link."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

Hook = Callable[[Any, GradBucket], "torch.futures.Future[torch.Tensor]"]


@dataclass
class HookTimer:
    """Wraps a DDP communication hook and times the communication of each step.

    Communication begins when the step's first bucket is handed over, and ends when the last of its futures is done.
    DDP's `backward` returns only after that, so both times are known when the step ends.
    """

    inner: Hook
    inner_state: Any
    keep: bool = False
    """Whether to copy the step's gradients and results, which are then compared with the true mean."""
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    results: dict[int, torch.Tensor] = field(default_factory=dict)
    _began: float | None = None
    _ended: float = 0.0
    _tensors: list[dict[str, Any]] = field(default_factory=list)

    def begin_step(self, keep: bool) -> None:
        """Discard what is known of the previous step."""
        self.keep = keep
        self._began = None
        self.gradients.clear()
        self.results.clear()

    def seconds(self) -> float:
        """Communication time of the step; 0 if no bucket was handed over."""
        return 0.0 if self._began is None else self._ended - self._began

    def take_tensors(self) -> list[dict[str, Any]]:
        """Records of the buckets completed since the last call: number, values, hand-over by the machine's clock, and
        seconds from it to the result."""
        taken, self._tensors = self._tensors, []
        return taken

    def hand_over(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        handed_over = time.perf_counter()
        if self._began is None:
            self._began = handed_over
        index = bucket.index()
        if self.keep:
            self.gradients[index] = bucket.buffer().clone()
        return self.inner(self.inner_state, bucket).then(lambda done: self._done(index, handed_over, done))

    def _done(self, index: int, handed_over: float, future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
        result = future.value()
        self._ended = time.perf_counter()
        seconds = self._ended - handed_over
        self._tensors.append({"bucket": index, "values": result.numel(), "at_s": handed_over, "seconds": seconds})
        if self.keep:
            self.results[index] = result.clone()
        return result


def aggregate_error(gradients: dict[int, torch.Tensor], results: dict[int, torch.Tensor], workers: int) -> float:
    """NMSE of an aggregated gradient: |result - mean|^2 / |mean|^2 over all buckets of a step.

    The true mean comes from an ordinary all-reduce of the gradients, outside all measured times. Collective: every
    worker calls it at the same step.
    """
    error = energy = 0.0
    for index in sorted(gradients):
        mean = gradients[index].clone()
        dist.all_reduce(mean)
        mean /= workers
        error += float((results[index] - mean).double().square().sum())
        energy += float(mean.double().square().sum())
    return error / energy if energy > 0 else 0.0
