# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The mean of a tensor by the process group, by choice: one collective and no other.

The tag of the call travels behind the tensor, so that workers that make different calls find out: the sums of a number
and of its square are n times those of this worker only if all workers have the same number.
"""

from __future__ import annotations

from typing import ClassVar, Final, NoReturn

import torch
from torch import Tensor

from sumwire.codec.memory import Recycler
from sumwire.config import JobConfig
from sumwire.errors import OrderError
from sumwire.job.fallback import Fallback
from sumwire.job.operations import Operation
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport

# Sums of 255 squares of a byte are exact in float32.
_BYTE: Final = 256
_MARKS: Final = 4


class GroupMean(Operation):
    """``codec``: the name of the one that it takes the place of. Nothing is left out of the mean."""

    by_group: ClassVar[bool] = True

    def __init__(self, codec: str, x: Tensor, *, bucket: int, memory: Recycler) -> None:
        self.what = f"mean by {codec}, by the process group"
        self.values = x.numel()
        self.bucket = bucket
        self._x = x.detach()
        self._memory = memory

    def residual(self) -> Tensor:
        """Zeros."""
        return torch.zeros_like(self._x, dtype=torch.float32)

    def ordinary(self, fallback: Fallback) -> Tensor:
        """See the module. Raises OrderError if the workers' calls differ."""
        total = self._memory.empty(self.values + _MARKS, torch.float32)
        # Divided before it is added, as DDP does it.
        _divided(self._x, fallback.ranks, out=total[: self.values])
        high, low = divmod(self.tag, _BYTE)
        marks = torch.tensor([high, low, high * high, low * low], dtype=torch.float32)
        total[self.values :] = marks
        fallback.add_(total)
        if not torch.equal(total[self.values :], marks * fallback.ranks):
            raise OrderError(
                f"the workers' calls differ: this one's is {self.what} of {self.values} values, bucket {self.bucket}; "
                "make the same calls in the same order on every worker"
            )
        return total[: self.values].to(self._x.device)

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> NoReturn:
        raise NotImplementedError("a mean by the process group takes no other way")

    def like(self) -> Tensor:
        return torch.zeros(self.values)


def _divided(x: Tensor, ranks: int, *, out: Tensor) -> None:
    """``out`` (float32) = ``x`` / ``ranks``, rounded once.

    In one pass where ``x`` is float32 itself. torch would divide half precision in half precision.
    """
    if x.dtype == torch.float32:
        torch.div(x, ranks, out=out)
    else:
        out.copy_(x).div_(ranks)
