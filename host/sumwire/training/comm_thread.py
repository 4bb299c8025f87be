# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A thread that communicates while the caller's thread computes.

All workers must make the calls of a job or process group in the same order. The thread runs calls one after the other
in the order of submission, so it is enough to submit them in the same order on all workers. Whatever uses one job in
this way, as the hooks of two models, therefore shares one thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch.futures import Future

from sumwire.errors import ClosedError
from sumwire.training.streams import on

_Result = TypeVar("_Result")
# A call, the future of its result, and the device of that.
_Task = tuple[Callable[[], Any], Future[Any], torch.device | None]
_Calls = queue.SimpleQueue[_Task | None]


class Owner(Protocol):
    """What a shared thread ends with: a job."""

    def on_close(self, closer: Callable[[], None], /) -> None:
        """Call ``closer`` when it closes."""


_queues: Final[WeakKeyDictionary[Owner, _Queue]] = WeakKeyDictionary()
_lock_of_queues: Final = threading.Lock()


class _Queue:
    """Calls, and the thread that runs them: it starts with the first call, and ends with the last user or the owner."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self.closed = False
        self._users = 0
        self._calls: _Calls = queue.SimpleQueue()
        # Guards the attributes above: no call may be queued after the end.
        self._lock = threading.Lock()

    def enter(self) -> None:
        """Count one more user."""
        with self._lock:
            self._users += 1

    def put(self, task: _Task) -> bool:
        """Queue a call. Returns False after the end."""
        with self._lock:
            if self.closed:
                return False
            if self.thread is None:
                self.thread = threading.Thread(target=_work, args=(self._calls,), name="sumwire", daemon=True)
                self.thread.start()
            self._calls.put(task)
            return True

    def leave(self) -> None:
        """Wait for all queued calls, and end the thread if nobody else uses it."""
        with self._lock:
            self._users -= 1
            last, thread = self._users == 0, self.thread
            if last:
                self._end()
        if last:
            _join(thread)
        else:
            self._drain()

    def close(self) -> None:
        """End the thread after all queued calls, whoever uses it."""
        with self._lock:
            thread, self.closed = self.thread, True
            self._end()
        _join(thread)

    def _end(self) -> None:
        if self.thread is not None:
            self._calls.put(None)
        # A later user's calls have a thread of their own.
        self.thread, self._calls = None, queue.SimpleQueue()

    def _drain(self) -> None:
        ended: Future[None] = Future()
        with self._lock:
            if self.thread is None:
                return
            self._calls.put((lambda: None, ended, None))
        wait_for(ended)


class CommThread:
    """Runs calls in the order of submission. ``name`` names the owner in errors.

    The thread starts with the first call. It is a daemon, so a program that ends without :meth:`close` does not hang.
    :meth:`of` gives all users of a job one thread.
    """

    def __init__(self, name: str, calls: _Queue | None = None) -> None:
        self.name = name
        self._queue = _Queue() if calls is None else calls
        # Guards the next attribute: a user leaves once.
        self._lock = threading.Lock()
        self._closed = False
        self._queue.enter()

    @classmethod
    def of(cls, job: Owner | None, name: str) -> Self:
        """A user's part of the one thread of ``job``, which ends with the last user or with the job. None: a thread of
        the user's own.

        Calls of all users run in the order of submission. With a thread each they would come in any order, which need
        not be that of the other workers.
        """
        return cls(name, None if job is None else _queue_of(job))

    @property
    def alive(self) -> bool:
        """Whether the thread is running, and this user may use it."""
        thread = self._queue.thread
        return not self._closed and thread is not None and thread.is_alive()

    def submit(
        self, call: Callable[[], _Result], device: torch.device | None = None, *, awaited: bool = False
    ) -> Future[_Result]:
        """Queue a call. Its future holds what the call returns, or raises its error; later calls run in either case.

        ``device`` is that of the result's tensors; if it is a GPU it is the call's current one. ``awaited``: the
        caller may wait for it, so it is made at once if the thread itself submits it: it could not wait for a call
        behind its own. Raises ClosedError after :meth:`close`, and after the job's.
        """
        future: Future[_Result] = Future(devices=[device] if device is not None and device.type == "cuda" else None)
        task = (call, future, device)
        if awaited and threading.current_thread() is self._queue.thread:
            _carry_out(task)
            return future
        with self._lock:
            if self._closed or not self._queue.put(task):
                raise ClosedError(f"{self.name} is closed; make a new one")
        return future

    def close(self) -> None:
        """Wait for all queued calls, and end the thread if no one else uses it. Closing twice is allowed."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self._queue.leave()


def _queue_of(job: Owner) -> _Queue:
    with _lock_of_queues:
        found = _queues.get(job)
        if found is None:
            found = _queues[job] = _Queue()
            job.on_close(found.close)
        return found


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
    else:
        future.set_result(result)


def _join(thread: threading.Thread | None) -> None:
    if thread is not None:
        thread.join()


def wait_for(future: Future[_Result]) -> _Result:
    """The future's value, or its error. Ctrl-C ends the wait, which it would not in torch's own."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    done.wait()
    return future.wait()
