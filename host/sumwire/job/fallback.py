# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The agreed way out when the switch stops answering: the ordinary all-reduce, on all workers or on none.

Operations of a job are counted. Let c be the number a worker has completed. Two workers' c differ by at most one:
the quorum is all workers, so nobody completes operation m + 1 before everybody has sent all of it, and a worker
sends nothing of m + 1 before it has completed m.

A worker whose operation meets its deadline enters :meth:`Fallback.agree`. The others follow: a PARTIAL result tells
them that it gave up, or without its packets their next operation meets its deadline too, or they close the job, which
agrees as well. Everybody learns
everybody's c. If some have completed operation m and others not, one of the former hands out its result, so that
all replicas apply the same sum; the others had sent all of m, so their residuals of m stand. All operations after
that go over the process group. With a quorum below the workers they may be further apart: then FallbackError ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from sumwire.errors import FallbackError, UsageError


@dataclass(frozen=True)
class Standing:
    """What every rank said when it entered the agreement, by rank in the group."""

    completed: tuple[int, ...]
    closing: tuple[bool, ...]

    @property
    def last(self) -> int:
        """Operations completed by the one who is furthest."""
        return max(self.completed)

    @property
    def giver(self) -> int:
        """The lowest rank that is furthest: it hands out the result of operation ``last`` - 1."""
        return self.completed.index(self.last)

    @property
    def uneven(self) -> bool:
        return min(self.completed) != self.last


class Fallback:
    """A gloo group of the job's own, so that its collectives never mix with the caller's.

    Making one is a collective call: every rank of the default group makes its jobs in the same order.
    ``timeout_s``: how long one worker waits in a collective for the slowest.
    """

    def __init__(self, workers: int, timeout_s: float) -> None:
        if dist.get_world_size() != workers:
            raise UsageError(f"process group of {dist.get_world_size()} ranks for a job of {workers} workers")
        self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout_s))
        self._workers = workers

    @staticmethod
    def available() -> bool:
        """Whether this process has a default process group."""
        return dist.is_available() and dist.is_initialized()

    def agree(self, completed: int, *, closing: bool) -> Standing:
        """Tell all ranks this one's standing and learn theirs. Raises FallbackError if a rank is gone."""
        own = torch.tensor([completed, int(closing)], dtype=torch.int64)
        everyone = [torch.empty_like(own) for _ in range(self._workers)]
        try:
            dist.all_gather(everyone, own, group=self._group)
        except RuntimeError as error:
            raise FallbackError(f"no agreement on the fall-back, a worker is gone: {error}") from error
        rows = [row.tolist() for row in everyone]
        standing = Standing(tuple(row[0] for row in rows), tuple(bool(row[1]) for row in rows))
        if standing.last - min(standing.completed) > 1:
            raise FallbackError(f"completed operations {standing.completed}: workers may be one apart, not more")
        return standing

    def hand_out(self, standing: Standing, own: Tensor) -> Tensor:
        """The giver's tensor on every rank; ``own`` gives shape and dtype and is left unchanged elsewhere."""
        tensor = own.clone()
        try:
            dist.broadcast(tensor, dist.get_global_rank(self._group, standing.giver), group=self._group)
        except RuntimeError as error:
            raise FallbackError(f"result of the last operation was not handed out: {error}") from error
        return tensor

    def mean(self, x: Tensor) -> Tensor:
        """Mean of a float32 CPU tensor over all workers, equal bits on each; a new tensor."""
        return self.total(x).div_(self._workers)

    def total(self, x: Tensor) -> Tensor:
        """Sum of a CPU tensor over all workers, in its dtype; a new tensor."""
        return self._reduced(x, dist.ReduceOp.SUM)

    def largest(self, x: Tensor) -> Tensor:
        """Maximum over all workers, in every place; a new tensor."""
        return self._reduced(x, dist.ReduceOp.MAX)

    def gather(self, x: Tensor) -> list[Tensor]:
        """The tensors of all workers, by rank."""
        everyone = [torch.empty_like(x) for _ in range(self._workers)]
        try:
            dist.all_gather(everyone, x, group=self._group)
        except RuntimeError as error:
            raise FallbackError(f"ordinary all-gather failed: {error}") from error
        return everyone

    def _reduced(self, x: Tensor, op: dist.ReduceOp.RedOpType) -> Tensor:
        result = x.clone()
        try:
            dist.all_reduce(result, op, group=self._group)
        except RuntimeError as error:
            raise FallbackError(f"ordinary all-reduce failed: {error}") from error
        return result
