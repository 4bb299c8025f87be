# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which process groups can carry hops."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from sumwire.multihop.distributed import RingSigns
from sumwire.multihop.schedule import ScheduleError


class Group:
    """One of NCCL."""

    _device_types = (torch.device("cuda"),)


def test_hops_need_a_group_for_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda _: 2)
    monkeypatch.setattr(dist, "get_rank", lambda _: 0)
    with pytest.raises(
        ScheduleError, match=r"for cuda alone: hops need .*: init_process_group\(.cpu:gloo,cuda:nccl.\)"
    ):
        RingSigns(Group())  # type: ignore[arg-type]
