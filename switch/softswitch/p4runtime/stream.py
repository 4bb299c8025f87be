# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One controller's stream, seen from the server: a queue of messages to send, and how the stream ends."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from softswitch.p4runtime.errors import P4RuntimeError


class Stream:
    """Messages to one controller. Any thread may send or close; one thread iterates.

    ``packet_limit`` bounds the queue for packets only, so that a controller that does not read costs no memory;
    arbitration and error messages are few and always go in.
    """

    def __init__(self, packet_limit: int) -> None:
        self._packet_limit = packet_limit
        self._messages: deque[Any] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._error: P4RuntimeError | None = None

    def send(self, message: Any) -> None:
        """Queue a message; lost if the stream is closed."""
        with self._changed:
            if not self._closed:
                self._messages.append(message)
                self._changed.notify()

    def offer_packet(self, message: Any) -> bool:
        """Queue a message unless the queue is full or closed. Says whether it was queued."""
        with self._changed:
            if self._closed or len(self._messages) >= self._packet_limit:
                return False
            self._messages.append(message)
            self._changed.notify()
            return True

    def close(self, error: P4RuntimeError | None = None) -> None:
        """End the iteration, with ``error`` raised at its end. Only the first close counts.

        An ordinary end still delivers what is queued; an error drops it.
        """
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._error = error
            if error is not None:
                self._messages.clear()
            self._changed.notify()

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._messages or self._closed)
                if not self._messages:
                    break
                message = self._messages.popleft()
            yield message
        if self._error is not None:
            raise self._error
