# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The sum of a tensor by the process group, in the tensor's own type: what has to be exact."""

from __future__ import annotations

from typing import ClassVar, Final, NoReturn

import torch
from torch import Tensor

from sumwire.config import JobConfig
from sumwire.job.fallback import Fallback
from sumwire.job.operations import Operation
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport

# Types that gloo does not add, and ones in which a sum has all of their bits.
_WIDER: Final = {
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,
}


def added_as(dtype: torch.dtype) -> torch.dtype:
    """The type in which a process group adds tensors of this one."""
    return _WIDER.get(dtype, dtype)


class GroupTotal(Operation):
    """The result has the bits of the process group's own all-reduce."""

    ops = ("max32",)
    by_group: ClassVar[bool] = True

    def __init__(self, x: Tensor, bucket: int) -> None:
        self.what = f"sum of {x.dtype} by the process group"
        self.values = x.numel()
        self.bucket = bucket
        self._x = x.detach()

    def ordinary(self, fallback: Fallback) -> Tensor:
        x = self._x
        return fallback.total(x.cpu().to(added_as(x.dtype))).to(x.device, x.dtype)

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> NoReturn:
        raise NotImplementedError("a sum by the process group takes no other way")

    def like(self) -> Tensor:
        return torch.zeros(self.values, dtype=self._x.dtype, device="cpu")
