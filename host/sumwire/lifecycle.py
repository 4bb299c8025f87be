# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of an object that threads use: its process, its thread, its calls, and the order in which it closes.

Jobs, the control thread, the communication thread of hooks, lanes, transports, rings and aggregator children each have
a :class:`Lifecycle`. It answers the same four questions for all of them:

| what happens | what calls get |
|---|---|
| the object is used in a forked child | ForkError, and closing does nothing |
| a call is interrupted half-way | InterruptedJobError from then on |
| the object is closed twice | the second time nothing happens |
| it is closed while another thread waits in it | the call's result, or with :meth:`Lifecycle.give_up` ClosedError |
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self
from weakref import WeakSet

from sumwire.errors import (
    ClosedError,
    ForkError,
    InterruptedJobError,
    MismatchError,
    RecreateError,
    RefusedError,
    RetryError,
    UsageError,
)

# The threads of all objects.
_threads: Final[WeakSet[threading.Thread]] = WeakSet()
# After these errors the workers are no longer in step.
_BREAKING: Final = (RecreateError, RefusedError, MismatchError)
# After these nothing was sent, or all workers got the same error.
_HARMLESS: Final = (RetryError, UsageError)


def _nothing(*_: object) -> None:
    pass


class Lifecycle:
    """``name`` begins every error text, such as "job digits". ``how`` makes another object, such as "Job(config)".

    Entered as a context manager it guards one call, so that calls of several threads run one after the other. From the
    moment that the caller sets ``begun``, an error can leave the other workers waiting. Then a RecreateError,
    RefusedError or MismatchError is kept in ``broken``, and every later call raises it again. For KeyboardInterrupt and
    foreign exceptions ``broken`` becomes an InterruptedJobError, whose text contains ``doing()``, and the object gives
    up.

    ``give_up(why)`` makes calls under way end with ClosedError, and tells other workers; it does not wait. ``broke`` is
    called with the error that is kept.
    """

    def __init__(
        self,
        name: str,
        how: str,
        *,
        doing: Callable[[], str] = lambda: "a call",
        give_up: Callable[[str], object] = _nothing,
        broke: Callable[[Exception], object] = _nothing,
    ) -> None:
        self.name = name
        self.closed = False
        self.begun = False
        self.broken: Exception | None = None
        self._how = how
        self._doing, self._give_up, self._broke = doing, give_up, broke
        self._process = os.getpid()
        self._calls = threading.Lock()
        self._closing = threading.RLock()
        self._users: list[Callable[[], object]] = []
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] = _nothing
        self._at_exit: Callable[[], object] = _nothing

    # -- calls -----------------------------------------------------------------------------------------

    @property
    def forked(self) -> bool:
        """Whether this process is a forked child of the one that made the object."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise ForkError in a forked child. Call it before any wait, because what is waited for may not exist in a
        child."""
        if os.getpid() != self._process:
            raise ForkError(
                f"{self.name}: used in a forked child of the process that made it; make it in the child, or start "
                'processes with the method "spawn" of torch.multiprocessing'
            )

    def check(self) -> None:
        """Raises ForkError, ClosedError, or the error that has broken the object."""
        if os.getpid() != self._process:
            self.check_process()
        if self.closed:
            raise ClosedError(f"{self.name} is closed; make a new one: {self._how}")
        if self.broken is not None:
            raise self.broken

    def between_calls(self) -> threading.Lock:
        """Return the lock that keeps calls out. Raises ForkError in a forked child, because another thread may have
        held the lock at the fork."""
        if os.getpid() != self._process:
            self.check_process()
        return self._calls

    def __enter__(self) -> Self:
        self.between_calls().acquire()
        try:
            self.check()
        except BaseException:
            self._calls.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        begun, self.begun = self.begun, False
        try:
            if error is not None and begun:
                self._judge(error)
        finally:
            self._calls.release()

    def _judge(self, error: BaseException) -> None:
        if isinstance(error, _BREAKING):
            self.broken = error
            self._broke(error)
        elif not isinstance(error, _HARMLESS):
            self.broken = InterruptedJobError(
                f"{self.name}: {self._doing()} was interrupted by {type(error).__name__}; close it and make a new one "
                f"on every worker: {self._how}"
            )
            self._broke(self.broken)
            self.give_up()

    @property
    def why(self) -> str:
        """Why this worker leaves without the others."""
        return "it closed the job after an error" if self.broken is None else str(self.broken)

    def give_up(self) -> None:
        """End calls under way in other threads, and tell other workers. Call :meth:`close` afterwards."""
        if not self.forked:
            self._give_up(self.why)

    # -- the thread ------------------------------------------------------------------------------------

    def start(self, work: Callable[[], None], name: str, *, stop: Callable[[], object]) -> None:
        """Run ``work`` in a daemon thread. ``stop`` makes it end soon, and does not wait."""
        self._thread, self._stop = threading.Thread(target=work, name=name, daemon=True), stop
        _threads.add(self._thread)
        self._thread.start()

    def close_at_exit(self, close: Callable[[], object]) -> None:
        """Call ``close``, which must call :meth:`close`, when the interpreter ends, if the object is still open."""
        self._at_exit = close
        atexit.register(close)

    @property
    def running(self) -> bool:
        """Whether the thread runs in this process."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def in_thread(self) -> bool:
        """Whether the caller is the object's own thread."""
        return threading.current_thread() is self._thread

    def stop_thread(self) -> Callable[[], object]:
        """Tell the thread to end, and return a function that waits for it. Another thread can be started at once."""
        thread, self._thread = self._thread, None
        if thread is None or self.forked:
            return _nothing
        self._stop()
        return _nothing if thread is threading.current_thread() else thread.join

    # -- the end ---------------------------------------------------------------------------------------

    def on_close(self, closer: Callable[[], object]) -> None:
        """Register a function that :meth:`close` calls first, such as one that ends a thread using the object. The last
        registered is called first."""
        self._users.append(closer)

    def close(self, end: Callable[[], object] = _nothing) -> None:
        """End the users of the object, wait for the call under way, end the thread, and call ``end``.

        Does nothing in a forked child, or the second time. If two threads call it, the second waits for the first,
        unless the first may be waiting for the second.
        """
        waits = threading.current_thread() not in _threads
        if self.forked or not self._closing.acquire(blocking=waits):
            return
        try:
            failed = self._close_users()
            with self._calls:
                first, self.closed = not self.closed, True
                await_thread = self.stop_thread()
            if first:
                # The lock is free: the thread's last calls may use the object.
                await_thread()
                atexit.unregister(self._at_exit)
                end()
        finally:
            self._closing.release()
        if failed is not None:
            raise failed

    def _close_users(self) -> Exception | None:
        """Return the first error of a user's end. The other users end all the same."""
        failed: Exception | None = None
        while self._users:
            try:
                self._users.pop()()
            except Exception as error:  # noqa: BLE001 - raised once all are closed
                failed = failed or error
        return failed
