# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The thread that communicates: order, errors, end."""

from __future__ import annotations

import threading

import pytest
from sumwire.errors import ClosedError
from sumwire.training.comm_thread import CommThread


def test_calls_come_in_order_in_one_thread() -> None:
    thread, seen = CommThread("test"), []
    gate = threading.Event()
    assert not thread.alive

    def call(number: int) -> int:
        gate.wait(10)
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
        thread.submit(lambda number=number: (gate.wait(10), done.append(number)))
    threading.Timer(0.05, gate.set).start()
    thread.close()
    assert done == [0, 1, 2]
    assert not thread.alive
    thread.close()
    with pytest.raises(ClosedError, match="system x is closed"):
        thread.submit(lambda: None)
    CommThread("never used").close()
