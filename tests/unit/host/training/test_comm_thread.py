# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The thread that communicates: order, errors, end, and the GPU that is its own."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from sumwire.errors import ClosedError
from sumwire.training import comm_thread
from sumwire.training.comm_thread import CommThread
from torch.futures import Future


def test_calls_come_in_order_in_one_thread() -> None:
    thread, seen = CommThread("test"), []
    gate = threading.Event()
    assert not thread.alive

    def call(number: int) -> int:
        gate.wait(60)
        seen.append((number, threading.get_ident()))
        return number * number

    futures = [thread.submit(lambda number=number: call(number)) for number in range(20)]
    assert thread.alive
    assert not futures[0].done(), "the caller goes on"
    gate.set()
    assert [future.wait() for future in futures] == [number * number for number in range(20)]
    assert [number for number, _ in seen] == list(range(20))
    [ident] = {ident for _, ident in seen}
    assert ident != threading.get_ident()
    thread.close()


def test_error_goes_into_its_future_and_calls_behind_it_run() -> None:
    thread = CommThread("test")

    def fail() -> None:
        raise OSError("cut")

    bad, good = thread.submit(fail), thread.submit(lambda: 3)
    with pytest.raises(OSError, match="cut"):
        bad.wait()
    assert good.wait() == 3
    thread.close()


def test_close_waits_for_what_was_submitted_and_refuses_more() -> None:
    thread, gate, done = CommThread("system x"), threading.Event(), []
    for number in range(3):
        thread.submit(lambda number=number: (gate.wait(60), done.append(number)))
    threading.Timer(0.05, gate.set).start()
    thread.close()
    assert done == [0, 1, 2]
    assert not thread.alive
    thread.close()
    with pytest.raises(ClosedError, match="system x is closed"):
        thread.submit(lambda: None)
    CommThread("never used").close()


class Job:
    """What users share a thread of."""

    def __init__(self) -> None:
        self.closers: list[Callable[[], None]] = []

    def on_close(self, closer: Callable[[], None]) -> None:
        self.closers.append(closer)


def test_users_of_one_job_share_one_thread_in_the_order_of_submission() -> None:
    job, gate, seen = Job(), threading.Event(), []
    users = [CommThread.of(job, f"user {number}") for number in range(2)]
    futures = [
        users[call % 2].submit(lambda call=call: (gate.wait(60), seen.append((call, threading.get_ident()))))
        for call in range(20)
    ]
    gate.set()
    for future in futures:
        future.wait()
    assert [call for call, _ in seen] == list(range(20))
    assert len({ident for _, ident in seen}) == 1


def test_a_shared_thread_ends_with_its_last_user_or_with_the_job() -> None:
    job = Job()
    first, second = CommThread.of(job, "first"), CommThread.of(job, "second")
    assert first.submit(lambda: 1).wait() == 1
    first.close()
    first.close()
    with pytest.raises(ClosedError, match="first is closed"):
        first.submit(lambda: 1)
    assert second.alive
    assert second.submit(lambda: 2).wait() == 2
    second.close()
    assert not second.alive
    third = CommThread.of(job, "third")
    assert third.submit(lambda: 3).wait() == 3
    [close] = job.closers
    close()
    assert not third.alive
    with pytest.raises(ClosedError, match="third is closed"):
        third.submit(lambda: 3)


def test_a_job_keeps_no_user() -> None:
    job = Job()
    user = CommThread.of(job, "user")
    user.submit(lambda: 1).wait()
    kept = weakref.ref(user)
    user.close()
    del user
    gc.collect()
    assert kept() is None


def test_a_call_of_the_thread_itself_that_is_awaited_is_made_at_once() -> None:
    """As a callback of a mean's future may call the backend on the same job. It could not wait for one behind it."""
    job, seen = Job(), []
    hook, backend = CommThread.of(job, "hook"), CommThread.of(job, "backend")
    started = threading.Event()

    def within() -> None:
        started.wait(60)
        backend.submit(lambda: seen.append("inner"), awaited=True).wait()
        with pytest.raises(ZeroDivisionError):
            backend.submit(lambda: 1 / 0, awaited=True).wait()
        hook.submit(lambda: seen.append("last"))
        seen.append("outer")

    futures = [hook.submit(within), hook.submit(lambda: seen.append("next"))]
    started.set()
    for future in futures:
        future.wait()
    hook.close()
    assert seen == ["inner", "outer", "next", "last"]


_GPU = torch.device("cuda", 3)


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> threading.local:
    """The number of the current GPU, by thread, as torch has it: 0 in a new one."""
    place = threading.local()

    @contextlib.contextmanager
    def device(chosen: torch.device) -> Iterator[None]:
        before, place.number = getattr(place, "number", 0), chosen.index
        yield
        place.number = before

    monkeypatch.setattr(torch.cuda, "device", device)
    return place


def test_a_call_has_its_tensors_gpu(current: threading.local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comm_thread, "CallFuture", lambda devices=None: Future())
    thread = CommThread("test")

    def number() -> int:
        return getattr(current, "number", 0)

    found = [thread.submit(number, device).wait() for device in (_GPU, None, torch.device("cpu"))]
    thread.close()
    assert found == [3, 0, 0]


def test_nothing_is_queued_on_a_processor() -> None:
    assert comm_thread.queued(torch.device("cpu")) is None
