# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker's state, told to all, whose tensors are on a GPU that others do not have."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sumwire.job.job import Job
from sumwire.training.telling import tell


class Alone:
    """A job of one worker: sums are what it gives."""

    workers = 1

    class config:  # noqa: N801
        worker = 0
        quorum = 1

    def max32(self, values: NDArray[np.uint32], bucket: int) -> NDArray[np.uint32]:
        return values

    def sum32(self, values: NDArray[np.int32], bucket: int) -> NDArray[np.int32]:
        return values


def test_tensors_of_a_gpu_arrive_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {"shared": torch.arange(5.0), "counters": [1, 2]}
    # As of a GPU with this number, without which torch loads nothing there.
    monkeypatch.setattr(torch.serialization, "location_tag", lambda _: "cuda:7")
    told = tell(cast(Job, Alone()), 0, state)
    assert told["shared"].device.type == "cpu"
    assert torch.equal(told["shared"], state["shared"])
    assert told["counters"] == [1, 2]
