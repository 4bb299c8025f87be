# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which hooks need a thread that keeps the order of their buckets."""

from __future__ import annotations

from typing import cast

import pytest
import torch
import torch.distributed as dist
from sumwire.systems.baselines.hooks import by_gloo


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
