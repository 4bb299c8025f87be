# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One controller's stream, seen from the server: a queue of messages to send, and how the stream ends."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from softswitch.p4runtime.errors import P4RuntimeError


class Stream:
    """Messages to one controller. Any thread may send, close or take.

    ``packet_limit`` bounds the queue for packets only, so that a controller that does not read costs no memory;
    arbitration and error messages are few and always go in. ``changed`` is called after each change, in the thread that
    made it.
    """

    def __init__(self, packet_limit: int, changed: Callable[[], None] = lambda: None) -> None:
        self._packet_limit = packet_limit
        self._changed = changed
        self._lock = threading.Lock()
        self._messages: deque[tuple[Any, bool]] = deque()  # with True for a packet
        self._packets = 0
        self._closed = False
        self._error: P4RuntimeError | None = None

    def send(self, message: Any) -> None:
        """Queue a message; lost if the stream is closed."""
        with self._lock:
            if self._closed:
                return
            self._messages.append((message, False))
        self._changed()

    def offer_packet(self, message: Any) -> bool:
        """Queue a message unless the queue is full or closed. Says whether it was queued."""
        with self._lock:
            if self._closed or len(self._messages) >= self._packet_limit:
                return False
            self._messages.append((message, True))
            self._packets += 1
        self._changed()
        return True

    def close(self, error: P4RuntimeError | None = None) -> None:
        """Let nothing more in. Only the first close counts.

        An ordinary end still delivers what is queued; an error drops it.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._error = error
            if error is not None:
                self._messages.clear()
                self._packets = 0
        self._changed()

    def take(self) -> Any | None:
        """The next message; None if there is none now. Raises the error that the stream was closed with."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if not self._messages:
                return None
            message, is_packet = self._messages.popleft()
            self._packets -= is_packet
            return message

    @property
    def ended(self) -> bool:
        """Closed, and everything taken."""
        with self._lock:
            return self._closed and not self._messages

    @property
    def replies(self) -> int:
        """How many messages other than packets wait to be taken."""
        with self._lock:
            return len(self._messages) - self._packets
