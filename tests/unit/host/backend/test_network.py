# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A group's way through its job: the modes of the caller's thread hold for its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from sumwire.backend.network import Network
from sumwire.job.job import Job
from sumwire.training.comm_thread import CommThread
from torch import Tensor


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
        gate.wait(10)
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
