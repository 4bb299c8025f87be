# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which hooks need a thread that keeps the order of their buckets, and which parameters they cannot divide."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from sumwire.errors import UsageError
from sumwire.systems.baselines.hooks import PowerSgdMemory, TimedHook, by_gloo


class Group:
    """gloo for processors, and another backend for GPUs."""

    def __init__(self, on_gpus: str) -> None:
        self._names = {"cpu": "gloo", "cuda": on_gpus}

    def _get_backend(self, device: torch.device) -> Group:
        self._name = self._names[device.type]
        return self

    def name(self) -> str:
        return self._name


@pytest.mark.parametrize("on_gpus", ["gloo", "nccl"])
def test_gloo_leaves_the_order_open_on_gpus_too(on_gpus: str) -> None:
    group = cast(dist.ProcessGroup, Group(on_gpus))
    assert by_gloo(group, torch.device("cpu"))
    assert by_gloo(group, torch.device("cuda", 0)) == (on_gpus == "gloo")


def test_power_sgd_refuses_scalars_with_a_cure() -> None:
    parameters = [torch.ones(3), torch.tensor(1.0)]
    any_hook = cast(Any, None)
    memory = PowerSgdMemory(cast(Any, None))
    with pytest.raises(UsageError, match=r"parameter of shape \(\): Power-SGD needs at least one dimension: make it"):
        TimedHook(any_hook, None, any_hook, memory=memory).check(parameters)
    TimedHook(any_hook, None, any_hook, memory=memory).check(parameters[:1])
    TimedHook(any_hook, None, any_hook).check(parameters)
