# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of clients that wait or run, and the messages that the switch sends on a client's stream."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, TypeVar

from softswitch.p4runtime.errors import P4RuntimeError, ResourceExhaustedError


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
        """Queue a message unless the queue is full or closed. Returns whether it was queued."""
        with self._lock:
            if self._closed or len(self._messages) >= self._packet_limit:
                return False
            self._messages.append((message, True))
            self._packets += 1
        self._changed()
        return True

    def close(self, error: P4RuntimeError | None = None) -> None:
        """Accept no further messages. Only the first close counts.

        An ordinary end still delivers queued messages; an error drops them.
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
        """Return the next message; None if there is none now. Raises the error that the stream was closed with."""
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
        """Whether the stream is closed and every message taken."""
        with self._lock:
            return self._closed and not self._messages

    @property
    def replies(self) -> int:
        """Number of messages other than packets that wait to be taken."""
        with self._lock:
            return len(self._messages) - self._packets


T = TypeVar("T")


class Call:
    """An RPC in progress; made in the task that handles it."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self.reason: P4RuntimeError | None = None

    def end(self, reason: P4RuntimeError) -> None:
        """Cancel the task. Only the first reason counts."""
        if self.reason is None and self._task is not None:
            self.reason = reason
            self._task.cancel()


class WaitingCalls:
    """The calls that wait for their client: for its first message, or until it reads. At most ``limit``."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls: dict[Call, None] = {}  # the oldest first

    async def until(self, call: Call, done: Awaitable[T]) -> T:
        self._calls[call] = None
        if len(self._calls) > self._limit:
            oldest = next(iter(self._calls))
            del self._calls[oldest]
            rule = f"more than {self._limit} calls wait for their callers, and this one was the oldest"
            oldest.end(ResourceExhaustedError(f"{rule}: begin each call with its message, and read what it answers"))
        try:
            return await done
        finally:
            self._calls.pop(call, None)


class Answers:
    """Long answers that clients have not read yet. Their total is limited to a number of bytes, or to one answer.

    An answer stays in memory until its client reads it or disconnects, and ending the call does not free it. So a
    further answer is refused before it is sent. Answers of up to SHORT_BYTES do not count, so that they are always
    possible.
    """

    SHORT_BYTES: Final = 128 << 10

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Context manager that counts an answer of this size as unread. Raises ResourceExhaustedError."""
        size = 0 if size <= self.SHORT_BYTES else size
        if size and self._held and self._held + size > self._limit:
            rule = f"more than {self._limit} bytes of answers wait for their callers to read them"
            raise ResourceExhaustedError(f"{rule}: ask again, or for less (P4INFO_AND_COOKIE)")
        self._held += size
        try:
            yield
        finally:
            self._held -= size


class Turns:
    """Runs the work of many calls in pieces, one at a time. A call that has had n pieces lets n pieces of others go
    first.

    So a short call is answered soon, however many long ones there are, and a long one makes progress, however many
    short ones come. At most ``limit`` calls take part: one more ends the one that has had the most pieces.
    """

    def __init__(self, executor: Executor, limit: int) -> None:
        self._executor = executor
        self._limit = limit
        self._served: dict[Call, int] = {}
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()
        self._given = 0
        self._busy = False

    @contextmanager
    def taking_part(self, call: Call, had: int = 0) -> Iterator[None]:
        """Context manager in which a call takes part. ``had``: the extra cost of its first piece, in pieces."""
        self._served[call] = had
        if len(self._served) > self._limit:
            longest = max(self._served, key=self._served.__getitem__)
            rule = f"more than {self._limit} reads are in progress, and this one was the longest"
            longest.end(ResourceExhaustedError(f"{rule}: read again, or less at a time"))
            del self._served[longest]
        try:
            yield
        finally:
            self._served.pop(call, None)

    async def run(self, call: Call, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread of the executor when it is the call's turn, and return its result."""
        await self._turn(self._given + self._served.get(call, 0))
        self._given += 1
        try:
            if call in self._served:
                self._served[call] += 1
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._pass_on()

    async def _turn(self, number: int) -> None:
        if not self._busy:
            self._busy = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (number, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()  # the turn had come already
            raise

    def _pass_on(self) -> None:
        while self._queue:
            turn = heapq.heappop(self._queue)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._busy = False
