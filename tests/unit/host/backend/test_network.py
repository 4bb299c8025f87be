# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A group's way through its job: the modes of the caller's thread hold for its calls."""

from __future__ import annotations

from typing import Any, cast

import torch
from sumwire.backend.network import Network
from sumwire.job.job import Job


def test_tensors_of_inference_mode_can_be_written() -> None:
    network = Network("test", lambda: cast("Job", cast("Any", None)))
    with torch.inference_mode():
        x = torch.ones(3)
        [result] = network.submit(lambda job: [x.mul_(2)], x.device).wait()
    assert result.tolist() == [2.0, 2.0, 2.0]
    y = torch.ones(3)
    network.submit(lambda job: [y.mul_(2)], y.device).wait()
    assert not y.is_inference()
    network.close()
