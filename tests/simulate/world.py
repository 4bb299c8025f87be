# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Virtual time, processes that live in it, and their threads, of which one runs at a time.

A thread of a process is a thread of Python that holds the baton. It gives the baton away only where a real one would
sleep: in :meth:`World.sleep`. Time moves on only when all threads sleep, to the next event. So the same seed plays the
same, and an hour of waiting takes no time. Whoever gives the baton away finds out who is next: most often that is the
same thread, and nothing is switched.
"""

from __future__ import annotations

import heapq
import math
import random
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, Final

# Turns without any time passing after which something spins, and looks at the clock or for packets in one turn.
# Before violations that concern sums, also in the record of `simulate --json`.
WRONG_SUM: Final = "wrong sum: "
_TURNS_MOST: Final = 20_000
_LOOKS_MOST: Final = 50_000


class KilledError(BaseException):
    """Ends a thread of a process that was killed, wherever it is. No handler of the product's may catch it."""


class Process:
    """One worker's process. ``skew_s``: what its clock is ahead of the world's.

    ``sends_left``: how many more datagrams it sends before it is killed; None for any number.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.paused = False
        self.skew_s = 0.0
        self.sends_left: int | None = None
        # Of the job's run that it is in.
        self.token = 0
        self.threads: list[Thread] = []
        self.files: list[Any] = []
        self.on_death: list[Callable[[], None]] = []
        # Threads that are held until another one has run, and how often that was so. And for how long any were held.
        self.behind: list[Thread] = []
        self.overtaken = 0
        self.held_s = 0.0
        world.processes.append(self)

    def start(self, name: str, work: Callable[[], object]) -> Thread:
        """A new thread."""
        thread = Thread(self, f"{self.name}: {name}", work)
        self.threads.append(thread)
        self.world.wake(thread)
        return thread

    def kill(self) -> None:
        """End all threads at once. Nothing that they still try has an effect."""
        if self.dead:
            return
        self.dead, self.paused = True, False
        for tell in self.on_death:
            tell()
        for thread in self.threads:
            self.world.wake(thread)

    def pause(self) -> None:
        """Stop all threads, as SIGSTOP does."""
        self.paused = not self.dead

    def resume(self) -> None:
        self.paused = False
        for thread in self.threads:
            if thread.held:
                self.world.wake(thread)


class Thread:
    """One thread of a process. ``error``: what it ended with, unless it was killed."""

    def __init__(self, process: Process, name: str, work: Callable[[], object]) -> None:
        self.process = process
        self.name = name
        self.over = False
        self.error: BaseException | None = None
        self.where = ""
        # Whether it sleeps, is queued to run, and was woken while its process was stopped.
        self.sleeps, self.queued, self.held = True, False, False
        self.naps = 0
        self.waiters: list[Thread] = []
        # What the product knows it by, if it was started by it.
        self.handle: object | None = None
        # Calls under way whose lines :mod:`simulate.preempt` does not count.
        self.quiet = 0
        self.baton = threading.Lock()
        self.baton.acquire()
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def stack(self) -> str:
        """Where it is now."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)[-8:]) if frame else ""

    def _run(self) -> None:
        self.baton.acquire()
        try:
            if not self.process.dead:
                self._traced(self._work)
        except KilledError:
            pass
        except BaseException as error:  # noqa: BLE001 - shown as a violation
            if not self.process.dead:
                self.error = error
        self.over = True
        for waiter in self.waiters:
            self.process.world.wake(waiter)
        self.process.world.pass_on(self)

    def _traced(self, work: Callable[[], object]) -> None:
        tracer = self.process.world.tracer
        if tracer is None:
            work()
            return
        sys.settrace(tracer)
        try:
            work()
        finally:
            sys.settrace(None)

    def join_real(self) -> None:
        self._thread.join()


class World:
    """``rng``: for what the network and the processes draw while they run. ``trace``: all that happened, if asked."""

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.processes: list[Process] = []
        self.current: Thread | None = None
        self.baton = threading.Lock()
        self.baton.acquire()
        self.violations: list[str] = []
        self.trace: list[str] | None = [] if traced else None
        # For sys.settrace in every thread (:mod:`simulate.preempt`).
        self.tracer: Any = None
        self.turns = 0
        self._turns_now = self._looks = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._ready: deque[Thread] = deque()
        self._until = math.inf
        self._finished: Callable[[], bool] = lambda: False
        self._ending = False
        self._failure: Exception | None = None

    @property
    def process(self) -> Process:
        """The one whose thread runs now."""
        assert self.current is not None, "called outside of any process"
        return self.current.process

    def note(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now:.6f} {text}")

    def violate(self, text: str, *, of_sums: bool = False) -> None:
        """Note that something has happened that must not happen. The schedule ends soon. ``of_sums``: what workers have
        given is lost, or counts twice, or workers have different results."""
        text = WRONG_SUM + text if of_sums else text
        self.violations.append(f"at {self.now:.3f} s: {text}")
        self.note(f"VIOLATION {text}")

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Let something happen."""
        self._order += 1
        heapq.heappush(self._events, (max(time, self.now), self._order, action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + seconds, action)

    def wake(self, thread: Thread) -> None:
        """Let a thread that sleeps run, once its process does."""
        if thread.over or thread.queued or not thread.sleeps:
            return
        if thread.process.paused:
            thread.held = True
            return
        thread.queued, thread.held = True, False
        self._ready.append(thread)

    def look(self) -> None:
        """The running thread looks at something, instead of waiting for it."""
        self._looks += 1
        if self._looks > _LOOKS_MOST:
            self._end_spinning()

    def clock(self) -> float:
        """The monotonic clock of the machine of the process that asks."""
        self._looks += 1
        if self._looks > _LOOKS_MOST:
            self._end_spinning()
        assert self.current is not None
        return self.now + self.current.process.skew_s

    def _end_spinning(self) -> None:
        thread = self.current
        assert thread is not None
        if not thread.process.dead:
            self.violate(f"{thread.name} spins in\n{thread.stack}")
            thread.process.dead = True
        raise KilledError

    def sleep(self, until: float = math.inf) -> None:
        """The running thread sleeps until somebody wakes it, or the time is over. It may also wake for no reason."""
        thread = self.current
        assert thread is not None
        if thread.process.dead:
            raise KilledError
        thread.sleeps = True
        thread.naps += 1
        if until < math.inf:
            nap = thread.naps
            self.at(until, lambda: self.wake(thread) if thread.naps == nap else None)
        self.pass_on(thread)
        if thread.process.dead:
            raise KilledError

    def stand_back(self, seconds: float) -> None:
        """The running thread sleeps until another one of its process has run, at most so long."""
        thread = self.current
        assert thread is not None
        thread.process.behind.append(thread)
        self.sleep(self.now + seconds)
        thread.process.behind.remove(thread)

    def run(self, until: float, finished: Callable[[], bool]) -> None:
        """Play until all is finished or something is violated."""
        self._until, self._finished = until, finished
        self._begin()

    def pass_on(self, thread: Thread) -> None:
        """This thread sleeps, or is over: the next one runs. Returns when its turn has come again."""
        self._judge(thread)
        if thread.process.behind:
            self._let_go(thread)
        tracer = sys.gettrace() if self.tracer is not None else None
        if tracer is not None:
            sys.settrace(None)
        self._switch(thread)
        if tracer is not None and not thread.over:
            sys.settrace(tracer)

    def _let_go(self, thread: Thread) -> None:
        """A thread has run: those of its process that were held until then may go on."""
        for other in thread.process.behind:
            if other is not thread:
                self.wake(other)

    def _switch(self, thread: Thread) -> None:
        following = self._next()
        if following is thread:
            return
        (self.baton if following is None else following.baton).release()
        if not thread.over:
            thread.baton.acquire()

    def _begin(self) -> None:
        """Let threads run until none is next."""
        thread = self._next()
        if thread is not None:
            thread.baton.release()
            self.baton.acquire()
        if self._failure is not None:
            raise self._failure

    def _next(self) -> Thread | None:
        """The thread whose turn it is, after all that happens before. None: it is over."""
        self.current = None
        try:
            while self._ending or not (self.violations or self._finished()):
                if self._ready:
                    thread = self._ready.popleft()
                    thread.queued = False
                    if self._may_run(thread):
                        return thread
                elif self._ending or not self._advance():
                    break
        except Exception as error:  # noqa: BLE001 - raised by whoever plays the world, in whose name this is done
            self._failure = error
        return None

    def _may_run(self, thread: Thread) -> bool:
        """If so, it is its turn."""
        if thread.over:
            return False
        if thread.process.paused:
            thread.held = True
            return False
        thread.sleeps = False
        self._looks = 0
        self.turns += 1
        self._turns_now += 1
        self.current = thread
        return True

    def _advance(self) -> bool:
        """The next event. False if there is none, or not in time."""
        if not self._events:
            self.violate(f"nothing more can happen: {self.sleepers()}")
            return False
        time, _, action = heapq.heappop(self._events)
        if time > self._until:
            self.violate(f"hangs: {self.sleepers()}")
            return False
        if time > self.now:
            self.now, self._turns_now = time, 0
        action()
        return True

    def _judge(self, thread: Thread) -> None:
        """What a thread has done in its turn."""
        if self._turns_now > _TURNS_MOST:
            self.violate(f"{thread.name} spins")
            self._turns_now = 0
        if thread.error is not None:
            lines = "".join(traceback.format_exception(thread.error))
            self.violate(f"{thread.name} ended with {lines}")
            thread.error = None

    def sleepers(self) -> str:
        living = [thread for process in self.processes for thread in process.threads if not thread.over]
        return "; ".join(f"{thread.name} in\n{thread.stack}" for thread in living)

    def end(self) -> None:
        """Kill all that is left."""
        self._ending = True
        for process in self.processes:
            process.kill()
        self._begin()
        for process in self.processes:
            for thread in process.threads:
                thread.join_real()
