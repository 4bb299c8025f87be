# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A lower aggregator's start: it waits until the one above has told the generation of its jobs."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from sumwire.aggregator.batches import ROW_BYTES
from sumwire.aggregator.senders import packed_address
from sumwire.aggregator.upward import Upward

_LOOK_S: Final = 0.05
# Datagrams between two looks. Senders that never pause must not keep it from asking, nor from a signal to stop.
_DATAGRAMS_MOST: Final = 256


def wait_for_above(upward: Upward, sockets: Sequence[socket.socket], stopped: Callable[[float], bool]) -> None:
    """Ask through the first of the sockets, of one port, until all generations are known, or ``stopped``, which waits
    so many seconds, says so. What else comes meanwhile is dropped: its workers send it again."""
    while not upward.is_known and not stopped(_LOOK_S):
        for question in upward.questions(time.monotonic()):
            # Lost, as on the way: the next one comes soon.
            with contextlib.suppress(OSError):
                sockets[0].sendto(question.data, question.to)
        for udp in sockets:
            _take_all(upward, udp)


def _take_all(upward: Upward, udp: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
        for _ in range(_DATAGRAMS_MOST):
            data, (ip, port) = udp.recvfrom(ROW_BYTES, socket.MSG_DONTWAIT)
            upward.take(data, (packed_address(ip), port))
