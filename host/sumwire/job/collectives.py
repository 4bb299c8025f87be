# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The collective calls of a job that need no codec: maxima, minima and sums of integers, and signs.

:class:`sumwire.job.job.Job` has them as methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.config import JobConfig
from sumwire.errors import SumOverflowError
from sumwire.job.fallback import GroupTotal
from sumwire.job.operations import BUCKETS, Asked, Max32, Min32, Operation, SignMerge, Sum32, Vote
from sumwire.job.rules import refuse_unless
from sumwire.job.session import check_through


class Collectives(ABC):
    """All workers make the same calls, with the same lengths, in the same order. Raises the errors of a job."""

    config: JobConfig
    _grouped: bool
    _raises: bool

    @abstractmethod
    def _run(self, make: Callable[[int], Operation], asked: Asked, empty: Tensor) -> Tensor:
        """Carry out one operation, which ``make(sequence)`` creates. ``empty``: the result for length 0."""

    def max32(self, values: NDArray[np.uint32], bucket: int = 0) -> NDArray[np.uint32]:
        """Elementwise maximum of the workers' uint32 values of shape (length,)."""
        return self._collective(Max32(values, bucket % BUCKETS)).numpy().astype(np.uint32)

    def min32(self, values: NDArray[np.uint32], bucket: int = 0) -> NDArray[np.uint32]:
        """Elementwise minimum of the workers' uint32 values of shape (length,)."""
        return self._collective(Min32(values, bucket % BUCKETS)).numpy().astype(np.uint32)

    def sum32(self, values: NDArray[np.int32], bucket: int = 0) -> NDArray[np.int32]:
        """Exact sum of the workers' int32 values of shape (length,).

        Raises SumOverflowError on all workers if a partial or whole sum leaves int32. The job stays usable.
        """
        sums = self._collective(Sum32(values, bucket % BUCKETS)).numpy()
        if len(values) and sums[-1]:
            raise SumOverflowError(
                f"job {self.config.name}: a sum of {self.config.workers} workers leaves int32; give smaller values"
            )
        return sums[: len(values)]

    def total(self, x: Tensor, bucket: int = 0) -> Tensor:
        """Sum of the workers' flat tensors in their own dtype, by the process group: with the bits of its all-reduce.

        Raises ConfigError without a process group, or with a quorum below the workers.
        """
        check_through(self.config, "group", grouped=self._grouped)
        return self._collective(GroupTotal(x, bucket % BUCKETS))

    def sign_merge(self, plus: Tensor, bucket: int = 0) -> Tensor:
        """For every value the sign of one worker, drawn with equal probabilities: bool (length,), True for plus.

        Equal on all workers. The expectation of a value is the share of plus among the workers. Any device.
        """
        return self._run(
            lambda sequence: SignMerge(plus, bucket % BUCKETS, job=self.config.job, sequence=sequence),
            Asked(SignMerge.ops, SignMerge.what, len(plus), bucket),
            plus,
        ).to(plus.device, torch.bool)

    def all_finite(self, finite: bool) -> bool:
        """Whether all workers have called with True, by MAX32. With ``nonfinite="raise"`` NonFiniteError if not."""
        found = bool(self.max32(np.array([not finite], np.uint32))[0] == 0)
        if self._raises:
            refuse_unless(found)
        return found

    def vote(self, plus: Tensor, bucket: int = 0) -> Tensor:
        """Majority of the workers' signs, bool (length,), True for plus. A tie is plus."""
        return self._collective(Vote(plus, bucket % BUCKETS)).to(plus.device, torch.bool)

    def _collective(self, operation: Operation) -> Tensor:
        asked = Asked(operation.ops, operation.what, operation.values, operation.bucket)
        return self._run(lambda _: operation, asked, operation.like())
