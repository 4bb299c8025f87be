# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What Marsit needs of the workers together, whoever carries it.

:class:`sumwire.Job` does it through the switch; :class:`sumwire.multihop.RingSigns` and ``TorusSigns`` over
torch.distributed without a switch; :class:`Threads` exactly, for several workers in one process.
"""

from __future__ import annotations

import threading
from typing import Protocol

import torch
from torch import Tensor


class Collective(Protocol):
    """Both calls block until all workers made them, in the same order, and give equal bits on all workers."""

    def sign_merge(self, plus: Tensor, /) -> Tensor:
        """Bool tensor (length,): in every place the sign of one worker, each with the same probability."""

    def mean(self, x: Tensor, /) -> Tensor:
        """Mean of the workers' flat tensors in full precision, a new tensor."""


class Threads:
    """Workers as threads of one process: exact sums, draws repeatable from ``seed``. For tests and simulations.

    :meth:`of` gives each worker's own end. A worker that fails calls :meth:`abort`, and the others get
    threading.BrokenBarrierError.
    """

    def __init__(self, workers: int, seed: int = 1) -> None:
        self.workers = workers
        self._generator = torch.Generator().manual_seed(seed)
        self._given: list[Tensor | None] = [None] * workers
        self._result = torch.zeros(0)
        self._merging = False
        self._barrier = threading.Barrier(workers, self._combine)

    def of(self, worker: int) -> ThreadsEnd:
        """The collective of one worker."""
        return ThreadsEnd(self, worker)

    def abort(self) -> None:
        """Let go of the workers that wait."""
        self._barrier.abort()

    def exchange(self, worker: int, x: Tensor, *, merging: bool) -> Tensor:
        """One worker's part in a call."""
        self._given[worker] = x
        self._merging = merging
        self._barrier.wait()
        return self._result.clone()

    def _combine(self) -> None:
        given = torch.stack([x for x in self._given if x is not None])
        if self._merging:
            chosen = torch.randint(self.workers, (1, given.shape[1]), generator=self._generator)
            self._result = given.gather(0, chosen)[0]
        else:
            self._result = given.mean(0)


class ThreadsEnd:
    """One worker's end of :class:`Threads`."""

    def __init__(self, threads: Threads, worker: int) -> None:
        self._threads = threads
        self._worker = worker

    def sign_merge(self, plus: Tensor, /) -> Tensor:
        return self._threads.exchange(self._worker, plus, merging=True)

    def mean(self, x: Tensor, /) -> Tensor:
        return self._threads.exchange(self._worker, x, merging=False)
