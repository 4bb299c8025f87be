# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A thread that communicates while the caller's thread computes, and helpers that make it wait for a GPU's queued work.

All workers must make the calls of a job or process group in the same order. The thread runs calls one after the other
in the order of submission, so it is enough to submit them in the same order on all workers. Therefore all users of one
job, such as the hooks of two models, share one thread.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch.futures import Future

from sumwire.errors import ClosedError, ForkError, InterruptedJobError
from sumwire.lifecycle import Lifecycle


def queued(device: torch.device) -> torch.cuda.Event | None:
    """Return an event that completes with the work queued so far in this thread's stream of a GPU; None on other
    devices."""
    if device.type != "cuda":
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event


def on(device: torch.device | None) -> AbstractContextManager[object]:
    """Return a context manager in which a GPU is this thread's current device.

    A new thread starts with the first GPU, whatever the program has chosen. Pinned memory and collectives of NCCL
    follow no tensor, and would create a context there.
    """
    return torch.cuda.device(device) if device is not None and device.type == "cuda" else contextlib.nullcontext()


_Result = TypeVar("_Result")
# A call, the future of its result, and the device of that.
_Task = tuple[Callable[[], Any], Future[Any], torch.device | None]
_Calls = queue.SimpleQueue[_Task | None]


class Owner(Protocol):
    """The owner of a shared thread, such as a job: the thread ends with it."""

    def on_close(self, closer: Callable[[], None], /) -> None:
        """Call ``closer`` when the owner closes."""


_queues: Final[WeakKeyDictionary[Owner, _Queue]] = WeakKeyDictionary()
_lock_of_queues: Final = threading.Lock()


class CallFuture(Future[_Result]):
    """The future of a call in another thread. ``process``: the process whose thread makes the call."""

    process: int


class _Queue:
    """Calls, and the thread that runs them: it starts with the first call, and ends with the last user or the owner."""

    def __init__(self, name: str) -> None:
        self.life = Lifecycle(name, "CommThread()")
        self._users = 0
        self._calls: _Calls = queue.SimpleQueue()

    def enter(self) -> None:
        """Count one more user."""
        with self.life.between_calls():
            self._users += 1

    def put(self, task: _Task, user: Lifecycle) -> bool:
        """Queue a call. Returns False after the end, or the user's: whoever closes takes this lock after it is closed.

        Raises ForkError in a forked child.
        """
        with self.life.between_calls():
            if self.life.closed or user.closed:
                return False
            if not self.life.running:
                # Of this thread alone: one that is ending may still have calls in its own.
                self._calls = queue.SimpleQueue()
                self.life.start(partial(_work, self._calls), "sumwire", stop=partial(self._calls.put, None))
            self._calls.put(task)
            return True

    def leave(self) -> None:
        """Wait for all queued calls, and end the thread if nobody else uses it."""
        with self.life.between_calls():
            self._users -= 1
            await_thread = self.life.stop_thread() if self._users == 0 else None
        if await_thread is not None:
            await_thread()
        elif self.life.running and not self.life.in_thread:
            drained: CallFuture[None] = _future(None)
            if self.put((lambda: None, drained, None), self.life):
                wait_for(drained)


class CommThread:
    """Runs calls in the order of submission. ``name`` names the owner in errors.

    The thread starts with the first call. It is a daemon, so a program that ends without :meth:`close` does not hang.
    :meth:`of` gives all users of a job one thread. In a forked child it raises ForkError.
    """

    def __init__(self, name: str, calls: _Queue | None = None) -> None:
        self._queue = calls or _Queue(name)
        self._life = Lifecycle(name, "CommThread()")
        self._queue.enter()

    @classmethod
    def of(cls, job: Owner | None, name: str) -> Self:
        """Return a handle for one user of the thread of ``job``. The thread ends with the last user or with the job.
        ``job`` None: a separate thread.

        Calls of all users run in the order of submission. With separate threads their order could differ from that of
        the other workers.
        """
        return cls(name, None if job is None else _queue_of(job, name))

    def serve(self, job: Owner) -> None:
        """Make this the thread of a job, for all later users of :meth:`of`, if the job has none yet."""
        with _lock_of_queues:
            if job not in _queues:
                _queues[job] = self._queue
                job.on_close(self._queue.life.close)

    @property
    def alive(self) -> bool:
        """Whether the thread is running, and this user may use it."""
        return not self._life.closed and self._queue.life.running

    def check_process(self) -> None:
        """Raise ForkError in a forked child, where the thread does not exist."""
        self._life.check_process()

    def submit(
        self, call: Callable[[], _Result], device: torch.device | None = None, *, awaited: bool = False
    ) -> Future[_Result]:
        """Queue a call. Its future holds what the call returns, or raises its error; later calls run in either case.

        ``device``: the device of the result's tensors; a GPU becomes the call's current device. ``awaited``: the caller
        may wait for the call. If the thread itself submits such a call, it is made at once, because the thread cannot
        wait for a call behind its own. Raises ClosedError after :meth:`close`, and after the job's; ForkError in a
        forked child.
        """
        future: CallFuture[_Result] = _future(device)
        task = (call, future, device)
        if awaited and self._queue.life.in_thread:
            _carry_out(task)
            return future
        if not self._queue.put(task, self._life):
            raise ClosedError(f"{self._life.name} is closed; make a new one")
        return future

    def close(self) -> None:
        """Wait for all queued calls, and end the thread if no one else uses it. Closing twice is allowed."""
        self._life.close(self._queue.leave)


def _queue_of(job: Owner, name: str) -> _Queue:
    with _lock_of_queues:
        found = _queues.get(job)
        if found is None:
            found = _queues[job] = _Queue(name)
            job.on_close(found.life.close)
        return found


def _future(device: torch.device | None) -> CallFuture[Any]:
    future: CallFuture[Any] = CallFuture(devices=[device] if device is not None and device.type == "cuda" else None)
    future.process = os.getpid()
    return future


def _work(calls: _Calls) -> None:
    while (task := calls.get()) is not None:
        _carry_out(task)
        # The next call may come late, or never: until then nothing of this one is kept.
        del task


def _carry_out(task: _Task) -> None:
    call, future, device = task
    try:
        with on(device):
            result = call()
    except Exception as error:  # noqa: BLE001 - any error goes to the future, or its owner would wait for ever
        future.set_exception(error)
    except BaseException as error:  # noqa: BLE001 - torch's futures hold exceptions only
        why = f"a call in the communication thread was interrupted by {type(error).__name__}"
        future.set_exception(InterruptedJobError(f"{why}; close the job and make a new one on every worker"))
    else:
        future.set_result(result)


def wait_for(future: Future[_Result]) -> _Result:
    """Return the future's value, or raise its error. Ctrl-C ends the wait, unlike with torch's own wait.

    Raises ForkError for a call that was queued before this process was forked: only the parent has the thread.
    """
    if isinstance(future, CallFuture) and future.process != os.getpid() and not future.done():
        raise ForkError(
            "the result of a call in the communication thread: awaited in a forked child of the process that made the "
            'call; wait for it before the fork, or start processes with the method "spawn" of torch.multiprocessing'
        )
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    done.wait()
    return future.wait()
