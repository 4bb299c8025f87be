# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The fall-back: when the switch stops answering, all workers switch to the ordinary all-reduce, or none does.

Operations of a job are counted. Let c be the number of operations that a worker has completed. With a quorum of all
workers, two workers' c differ by at most one: nobody completes operation m + 1 before everybody has sent all of it, and
a worker sends nothing of m + 1 before it has completed m.

1. A worker whose operation meets its deadline enters :meth:`Fallback.agree`.
2. The others follow. An incomplete result tells them of the first worker's deadline; or their next operation meets its
   own deadline, since it lacks that worker's packets; or they close the job, which also agrees.
3. Every worker learns every c. If some have completed operation m and others have not, one of the former hands out its
   result, so that all replicas apply the same sum. The others had sent all of m, so their residuals of m are right.
4. All further operations use the process group.

Example: the link of worker 1 fails after it has sent operation 7, before it has the results. Workers 0 and 2 complete
operation 7 (c = 8) and wait in operation 8 for worker 1, which still has c = 7. After the deadlines all agree, worker 0
hands out the result of operation 7, and operation 8 is an ordinary all-reduce.

With a quorum below the number of workers, c may differ by more. Then FallbackError ends the job.
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
    """The state of every rank when it entered the agreement, by rank: completed operations, and closing or not."""

    completed: tuple[int, ...]
    closing: tuple[bool, ...]

    @property
    def last(self) -> int:
        """Operations completed by the rank that has completed the most."""
        return max(self.completed)

    @property
    def giver(self) -> int:
        """The lowest rank with ``last`` completed operations: it hands out the result of operation ``last`` - 1."""
        return self.completed.index(self.last)

    @property
    def uneven(self) -> bool:
        """Whether some ranks have completed an operation that others have not."""
        return min(self.completed) != self.last


class Fallback:
    """The job's own gloo group, so that its collectives never mix with the caller's.

    Creating one is a collective call: all ranks of the default group create their jobs in the same order.
    ``timeout_s``: how long a worker waits in a collective for the slowest one. Raises UsageError if the default group
    has another size than the job.
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
        """Exchange standings with all ranks: ``completed`` operations, and whether this worker closes the job.

        Raises FallbackError if a rank is gone, or if ranks are more than one operation apart.
        """
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
        """The giver's tensor, on every rank. ``own`` has its shape and dtype, and is not changed."""
        tensor = own.clone()
        try:
            dist.broadcast(tensor, dist.get_global_rank(self._group, standing.giver), group=self._group)
        except RuntimeError as error:
            raise FallbackError(f"result of the last operation was not handed out: {error}") from error
        return tensor

    def mean(self, x: Tensor) -> Tensor:
        """Mean of a float32 CPU tensor over all workers, with equal bits on all of them; a new tensor."""
        return self.total(x).div_(self._workers)

    def total(self, x: Tensor) -> Tensor:
        """Sum of a CPU tensor over all workers, in its dtype; a new tensor."""
        return self._reduced(x, dist.ReduceOp.SUM)

    def largest(self, x: Tensor) -> Tensor:
        """Elementwise maximum over all workers; a new tensor."""
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
