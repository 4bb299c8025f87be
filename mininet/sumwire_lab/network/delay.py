# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Delays frames between pairs of interfaces, in a process in the middle of links, because many kernels lack netem.

`python -m sumwire_lab.network.delay SECONDS A=B ...` forwards each frame from A to B and from B to A, SECONDS later and
in order, until SIGTERM. It then writes how many frames it has forwarded, and how many of them were late by more than
LATE_S because it did not keep up.
"""

from __future__ import annotations

import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Final, NamedTuple

from softswitch.runtime.interface import PortError, open_interface

READY: Final = "delay: ready"
LATE_S: Final = 0.001
_FRAME_MAX: Final = 65_535
# Frames taken from one interface before others have their turn.
_BATCH: Final = 64


class _Waiting(NamedTuple):
    due: float
    to: socket.socket
    frame: bytes


class Relay:
    """The forwarder. ``across``: by incoming interface, the outgoing one. ``frames``, ``late``: counts so far.
    ``dropped``: frames that an interface did not accept."""

    def __init__(self, across: dict[socket.socket, socket.socket], delay_s: float) -> None:
        self.frames = self.late = self.dropped = 0
        self._across = across
        self._delay_s = delay_s
        # All wait equally long, so they leave in the order in which they came.
        self._waiting: deque[_Waiting] = deque()

    def turn(self) -> None:
        """Wait for a frame, or until one is due. Then receive new frames, and send those that are due."""
        wait_s = max(0.0, self._waiting[0].due - time.monotonic()) if self._waiting else None
        for here in select.select(list(self._across), [], [], wait_s)[0]:
            self._take(here)
        now = time.monotonic()
        while self._waiting and self._waiting[0].due <= now:
            one = self._waiting.popleft()
            self.frames += 1
            self.late += now - one.due > LATE_S
            try:
                one.to.send(one.frame)
            except OSError:
                self.dropped += 1

    def _take(self, here: socket.socket) -> None:
        for _ in range(_BATCH):
            try:
                frame = here.recv(_FRAME_MAX)
            except OSError:
                # Nothing more is there, or the interface is down: it is told of no other way.
                return
            self._waiting.append(_Waiting(time.monotonic() + self._delay_s, self._across[here], frame))


def main(arguments: Sequence[str]) -> int:
    """Relay until SIGTERM."""
    delay_s, *pairs = arguments
    across: dict[socket.socket, socket.socket] = {}
    ended: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        ended.append(number)

    with ExitStack() as stack:
        signal.signal(signal.SIGTERM, end)
        for number, pair in enumerate(pairs):
            try:
                one, other = (
                    stack.enter_context(open_interface(number, name, lambda _: None)) for name in pair.split("=")
                )
            except PortError as error:
                sys.stdout.write(f"{error}\n")
                return 1
            across |= {one: other, other: one}
        # A signal ends the wait for frames.
        wake = stack.enter_context(_woken_by_signals())
        across[wake] = wake
        relay = Relay(across, float(delay_s))
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        while not ended:
            relay.turn()
    sys.stdout.write(f"delay: frames {relay.frames}, late {relay.late}, dropped {relay.dropped}\n")
    return 0


def _woken_by_signals() -> socket.socket:
    """A socket that becomes readable when a signal comes."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.detach())
    reader.setblocking(False)
    return reader


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
