# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a process of a :class:`World` finds in place of Python's threading and queue. No line here is one at which a
thread may be preempted, so nothing comes between a look and the sleep that follows."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from simulate.world import Thread, World


def _current(world: World) -> Thread:
    assert world.current is not None, "called outside of any process"
    return world.current


class Lock:
    """threading.Lock; with ``again`` threading.RLock. A thread that waits for it gives way."""

    def __init__(self, world: World, *, again: bool = False) -> None:
        self._world = world
        self._again = again
        self._owner: Thread | None = None
        self._times = 0
        self._waiters: list[Thread] = []

    def acquire(self, blocking: bool = True) -> bool:
        thread = _current(self._world)
        while self._owner is not None and not (self._again and self._owner is thread):
            if not blocking:
                return False
            self._waiters.append(thread)
            self._world.sleep()
        self._owner = thread
        self._times += 1
        return True

    def release(self) -> None:
        thread = _current(self._world)
        if thread.process.dead and self._owner is not thread:
            # It was killed while it waited for the lock.
            return
        if self._owner is None or (self._again and self._owner is not thread):
            raise RuntimeError("a lock is released that is not held")
        self._times -= 1
        if not self._times:
            self._free()

    def _free(self) -> None:
        self._owner = None
        waiters, self._waiters = self._waiters, []
        for thread in waiters:
            self._world.wake(thread)

    def give_up(self) -> int:
        """Let others have it, however often the thread has taken it. Returns how often."""
        if self._owner is not _current(self._world):
            raise RuntimeError("a condition is waited for without its lock")
        times, self._times = self._times, 0
        self._free()
        return times

    def take_back(self, times: int) -> None:
        """The opposite of :meth:`give_up`."""
        self.acquire()
        self._times = times

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class OfEachProcess:
    """Locks of a module of the product: each process has its own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._locks: dict[object, Lock] = {}

    def _own(self) -> Lock:
        return self._locks.setdefault(self._world.process, Lock(self._world))

    def __enter__(self) -> bool:
        return self._own().acquire()

    def __exit__(self, *_: object) -> None:
        self._own().release()


class Condition:
    """threading.Condition."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = Lock(world, again=True)
        self._waiters: list[Thread] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def notify_all(self) -> None:
        waiters, self._waiters = self._waiters, []
        for thread in waiters:
            self._world.wake(thread)

    def wait(self, timeout: float | None = None) -> bool:
        self._waiters.append(_current(self._world))
        times = self._lock.give_up()
        self._world.sleep(math.inf if timeout is None else self._world.now + timeout)
        self._lock.take_back(times)
        return True

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        until = math.inf if timeout is None else self._world.now + timeout
        while not (found := predicate()) and self._world.now < until:
            self.wait(until - self._world.now)
        return found


class Event:
    """threading.Event."""

    def __init__(self, world: World) -> None:
        self._condition = Condition(world)
        self._set = False

    def set(self) -> None:
        with self._condition:
            self._set = True
            self._condition.notify_all()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        with self._condition:
            return self._condition.wait_for(lambda: self._set, timeout)


class SimpleQueue:
    """queue.SimpleQueue."""

    def __init__(self, world: World) -> None:
        self._items: deque[Any] = deque()
        self._condition = Condition(world)

    def put(self, item: Any) -> None:
        with self._condition:
            self._items.append(item)
            self._condition.notify_all()

    def get(self) -> Any:
        with self._condition:
            self._condition.wait_for(lambda: bool(self._items))
            return self._items.popleft()


class WorldThread:
    """threading.Thread."""

    def __init__(self, world: World, target: Callable[[], object], name: str = "", daemon: bool = True) -> None:
        self._world, self._target, self._name = world, target, name
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = self._world.process.start(self._name, self._target)
        self._thread.handle = self

    def is_alive(self) -> bool:
        return self._thread is not None and not self._thread.over

    def join(self) -> None:
        assert self._thread is not None
        while not self._thread.over:
            self._thread.waiters.append(_current(self._world))
            self._world.sleep()


def running(world: World) -> object:
    """threading.current_thread: the thread's :class:`WorldThread`, if it has one."""
    thread = _current(world)
    return thread.handle or thread
