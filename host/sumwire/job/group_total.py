# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The sum of a tensor by the process group, in the tensor's own type: what has to be exact."""

from __future__ import annotations

from typing import ClassVar, NoReturn

import torch
from torch import Tensor

from sumwire.config import JobConfig
from sumwire.job.fallback import Fallback
from sumwire.job.operations import Operation
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport


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
        return fallback.total(self._x.cpu()).to(self._x.device)

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> NoReturn:
        raise NotImplementedError("a sum by the process group takes no other way")

    def like(self) -> Tensor:
        return torch.zeros(self.values, dtype=self._x.dtype)
