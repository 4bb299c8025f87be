# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Several collectives as one."""

from __future__ import annotations

import torch
from sumwire.backend.work import JointWork, NetworkWork
from torch.futures import Future


def test_what_needs_no_wait_has_no_work() -> None:
    """NCCL returns None for a call that is not asynchronous."""
    done: Future[list[torch.Tensor]] = Future()
    done.set_result([torch.ones(1)])
    joint = JointWork([None, NetworkWork(done), None])
    assert joint.wait()
    assert joint.is_completed()
    assert joint.get_future().wait() == [torch.ones(1)]
    assert JointWork([None]).wait()
