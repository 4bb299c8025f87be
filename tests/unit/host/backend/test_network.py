# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A group's way through its job: the modes of the caller's thread hold for its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from sumwire.backend.inner_group import agree_on_count
from sumwire.backend.network import Network
from sumwire.backend.work import JointWork, NetworkWork
from sumwire.job.job import Job
from sumwire.training.comm_thread import CommThread
from torch import Tensor
from torch.futures import Future


class Caller(Job):
    """A job that carries out nothing."""

    def __init__(self) -> None:
        self.closers: list[Callable[[], None]] = []

    def on_close(self, closer: Callable[[], None]) -> None:
        self.closers.append(closer)

    def close(self, *, agree: bool = True) -> None:
        for closer in self.closers:
            closer()


def test_tensors_of_inference_mode_can_be_written() -> None:
    network = Network("test", Caller)
    with torch.inference_mode():
        x = torch.ones(3)
        [result] = network.submit(lambda job: [x.mul_(2)], x.device).wait()
    assert result.tolist() == [2.0, 2.0, 2.0]
    y = torch.ones(3)
    network.submit(lambda job: [y.mul_(2)], y.device).wait()
    assert not y.is_inference()
    network.close()


def test_users_of_the_groups_own_job_have_its_thread() -> None:
    job, x = Caller(), torch.ones(1)
    network = Network("test", lambda: job)
    threads = [threading.get_ident()]
    network.submit(lambda job: [threads.append(threading.get_ident()) or x], x.device).wait()
    hook = CommThread.of(job, "hook")
    hook.submit(lambda: threads.append(threading.get_ident())).wait()
    assert threads[1] == threads[2] != threads[0]
    network.close()
    assert not hook.alive


def test_calls_on_the_callers_job_are_in_one_order_with_those_of_its_hooks() -> None:
    job, gate, seen, x = Caller(), threading.Event(), [], torch.ones(1)
    network, hook = Network("test", job), CommThread.of(job, "hook")

    def call(number: int) -> list[Tensor]:
        gate.wait(60)
        seen.append(number)
        return [x]

    futures: list[Any] = []
    for number in range(20):
        of_hook = number % 2
        futures.append(
            hook.submit(partial(call, number))
            if of_hook
            else network.submit(lambda _, number=number: call(number), x.device)
        )
    gate.set()
    for future in futures:
        future.wait()
    assert seen == list(range(20))
    # A hook's callback waits for a collective.
    assert hook.submit(lambda: network.submit(lambda _: [x], x.device).wait()).wait() == [x]
    network.close()
    hook.close()


def test_what_needs_no_wait_has_no_work() -> None:
    """NCCL returns None for a call that is not asynchronous."""
    done: Future[list[torch.Tensor]] = Future()
    done.set_result([torch.ones(1)])
    joint = JointWork([None, NetworkWork(done), None])
    assert joint.wait()
    assert joint.is_completed()
    assert joint.get_future().wait() == [torch.ones(1)]
    assert JointWork([None]).wait()


@pytest.mark.parametrize(
    ("version", "told"), [("2.4.1", 1), ("2.9.1+cpu", 1), ("2.14.1", 1), ("2.15.0+cu132", 0), ("2.16.0", 0)]
)
def test_no_version_of_torch_warns_of_a_number_to_count_from(
    version: str, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    backend = Mock()
    agree_on_count(backend)
    assert backend._set_sequence_number_for_group.call_count == told
