# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What delays frames in the middle of links, on a clock of the test's own."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from sumwire_lab.network import delay

DELAY_S = 0.02


class Clock:
    """``waits``: how long each wait for a frame may last, in seconds."""

    def __init__(self) -> None:
        self.now = 5.0
        self.waits: list[float | None] = []

    def select(self, here: list[socket.socket], to: Any, errors: Any, wait_s: float | None) -> Any:
        self.waits.append(wait_s)
        return select.select(here, to, errors, 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(delay, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(delay, "select", clock)
    return clock


@pytest.fixture
def link() -> Iterator[tuple[socket.socket, socket.socket, delay.Relay]]:
    """Both ends of a link, and the relay in its middle."""
    (left, one), (right, other) = (socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    for end in (left, one, right, other):
        end.setblocking(False)
    yield left, right, delay.Relay({one: other, other: one}, DELAY_S)
    for end in (left, one, right, other):
        end.close()


def heard(end: socket.socket) -> list[bytes]:
    found = []
    while True:
        try:
            found.append(end.recv(2000))
        except BlockingIOError:
            return found


def test_frames_leave_in_order_when_their_time_is_over(
    clock: Clock, link: tuple[socket.socket, socket.socket, delay.Relay]
) -> None:
    left, right, relay = link
    left.send(b"a")
    relay.turn()
    clock.now += DELAY_S / 2
    left.send(b"b")
    right.send(b"c")
    relay.turn()
    assert clock.waits == [None, pytest.approx(DELAY_S / 2)], "until the first is due"
    assert (heard(left), heard(right)) == ([], [])
    clock.now += DELAY_S / 2
    relay.turn()
    assert (heard(left), heard(right)) == ([], [b"a"])
    clock.now += DELAY_S / 2
    relay.turn()
    assert (heard(left), heard(right)) == ([b"c"], [b"b"])
    assert (relay.frames, relay.late, relay.dropped) == (3, 0, 0)


def test_a_relay_that_does_not_keep_up_says_so(
    clock: Clock, link: tuple[socket.socket, socket.socket, delay.Relay]
) -> None:
    left, right, relay = link
    left.send(b"a")
    relay.turn()
    clock.now += DELAY_S + 2 * delay.LATE_S
    right.close()
    relay.turn()
    assert (relay.frames, relay.late, relay.dropped) == (1, 1, 1)


def test_an_interface_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert delay.main(["0.01", "no-such-if=no-such-if"]) == 1
    assert "no-such-if" in capsys.readouterr().out
