# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The collective calls that Marsit needs.

:class:`sumwire.Job` makes them through the switch, :class:`sumwire.multihop.RingSigns` and ``TorusSigns`` over
torch.distributed without a switch. :class:`Threads` makes them exactly, for several workers in one process.
"""

from __future__ import annotations

import threading
from typing import Protocol

import torch
from torch import Tensor


class Collective(Protocol):
    """All calls block until all workers have made them, in the same order. Results have equal bits on all workers."""

    def sign_merge(self, plus: Tensor, /) -> Tensor:
        """Return merged signs, bool of shape (length,), True for plus: each is drawn from the workers' signs with equal
        probability."""

    def mean(self, x: Tensor, /) -> Tensor:
        """Return the mean of the workers' flat tensors in full precision, a new tensor."""

    def all_finite(self, finite: bool, /) -> bool:
        """Return whether all workers have called with True. A collective may raise NonFiniteError on all instead."""


class Threads:
    """Workers as threads of one process, for tests and simulations: exact sums, and draws repeatable by ``seed``.

    :meth:`of` returns one worker's collective. A worker that fails calls :meth:`abort`; the others then get
    threading.BrokenBarrierError.
    """

    def __init__(self, workers: int, seed: int = 1) -> None:
        self.workers = workers
        self._generator = torch.Generator().manual_seed(seed)
        self._given: list[Tensor | None] = [None] * workers
        self._result = torch.zeros(0, dtype=torch.float32, device="cpu")
        self._merging = False
        self._barrier = threading.Barrier(workers, self._combine)

    def of(self, worker: int) -> ThreadsEnd:
        """Return the collective of one worker."""
        return ThreadsEnd(self, worker)

    def abort(self) -> None:
        """End the waiting of the other workers, with an error."""
        self._barrier.abort()

    def exchange(self, worker: int, x: Tensor, *, merging: bool) -> Tensor:
        """Make one worker's call: merge signs if ``merging``, else average."""
        self._given[worker] = x
        self._merging = merging
        self._barrier.wait()
        return self._result.clone()

    def _combine(self) -> None:
        given = torch.stack([x for x in self._given if x is not None])
        if self._merging:
            chosen = torch.randint(self.workers, (1, given.shape[1]), generator=self._generator, device="cpu")
            self._result = given.gather(0, chosen)[0]
        else:
            self._result = given.mean(0)


class ThreadsEnd:
    """One worker's end of :class:`Threads`."""

    def __init__(self, threads: Threads, worker: int) -> None:
        self._threads = threads
        self.worker = worker
        self.workers = threads.workers

    def sign_merge(self, plus: Tensor, /) -> Tensor:
        """See :class:`Collective`."""
        return self._threads.exchange(self.worker, plus, merging=True)

    def mean(self, x: Tensor, /) -> Tensor:
        """See :class:`Collective`."""
        return self._threads.exchange(self.worker, x, merging=False)

    def all_finite(self, finite: bool, /) -> bool:
        """See :class:`Collective`."""
        return bool(self.mean(torch.tensor([float(finite)], device="cpu")) == 1.0)
