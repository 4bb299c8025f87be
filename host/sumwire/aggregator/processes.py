# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The processes of an aggregator: their sockets, start and end, and the signals that stop them.

Used by `cli` and by the lab's benchmark.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import multiprocessing
import multiprocessing.popen_fork  # what start() would import, when the user may not be let into Python's folder
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.process import BaseProcess
from types import FrameType, TracebackType
from typing import Final, Self

from sumwire_protocol.events import Event

from sumwire.aggregator import sharing
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.kernels import kernels
from sumwire.aggregator.parent_link import ParentLink, wait_for_above
from sumwire.aggregator.server import Server
from sumwire.aggregator.sharing import HandOver
from sumwire.aggregator.state import Shared, State
from sumwire.config import JobConfig
from sumwire.errors import SumwireError, UsageError
from sumwire.wire.batch import enlarge_buffers
from sumwire.wire.messages import forbid_fragments

# The cure for an address or port that cannot be bound, by errno.
_CURES: Final[Mapping[int, str]] = {
    errno.EADDRINUSE: "end the program that has the port (ss -lunp 'sport = :{port}'), or give all jobs to one "
    "aggregator: sumwire-aggregator JOB.json ...",
    errno.EADDRNOTAVAIL: "no interface of this machine has the address (ip address): run sumwire-aggregator on the "
    "server that has it, or write one of this machine's addresses under `aggregator` in every worker's job file",
    errno.EACCES: "choose a port from 1024 on: sumwire-aggregator --listen {address}:PORT",
}
_OTHER_CURE: Final = "choose an address of this machine (ip address): sumwire-aggregator --listen ADDRESS"


class ListenError(UsageError):
    """The aggregator cannot listen at its address."""

    def __init__(self, address: str, port: int, error: OSError, *, named_in: str = "") -> None:
        where = f"{named_in}: " if named_in else ""
        cure = _CURES.get(error.errno or 0, _OTHER_CURE).format(address=address, port=port)
        super().__init__(f"{where}cannot listen at {address}:{port}: {error.strerror or error}: {cure}")


class ProcessError(SumwireError):
    """One of the aggregator's processes ended by itself."""


_LOG: Final = logging.getLogger("sumwire.aggregator")
_STOP: Final = frozenset({signal.SIGINT, signal.SIGTERM})
_SIGNALS: Final = _STOP | {signal.SIGHUP, signal.SIGCHLD}
# The children of a killed aggregator end a moment after it, so a port in use is tried again for 2 s.
_PORT_TRIES: Final = 40
_PORT_WAIT_S: Final = 0.05


def listen(
    address: str, port: int, processes: int, named_in: str = "", *, sleep: Callable[[float], object] = time.sleep
) -> list[socket.socket]:
    """Open one socket per process, all bound to the same port.

    ``named_in``: the job file or option that names the address, for messages. Waits up to 2 s for a port in use. Raises
    ListenError.
    """
    with contextlib.ExitStack() as opened:
        try:
            _await_free(address, port, sleep)
            sockets = [opened.enter_context(_bound(address, port, shared=processes > 1)) for _ in range(processes)]
        except OSError as error:
            raise ListenError(address, port, error, named_in=named_in) from error
        if processes > 1:
            _steer_by_slot(sockets)
        opened.pop_all()
        return sockets


def _await_free(address: str, port: int, sleep: Callable[[float], object]) -> None:
    for tries_left in reversed(range(_PORT_TRIES)):
        try:
            # A socket without SO_REUSEPORT cannot be bound to a port that is in use by another program.
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not tries_left:
                raise
            sleep(_PORT_WAIT_S)
        else:
            return


def _bound(address: str, port: int, *, shared: bool) -> socket.socket:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        enlarge_buffers(udp)
        forbid_fragments(udp)
        if shared:
            udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        udp.bind((address, port))
    except OSError:
        udp.close()
        raise
    return udp


def _steer_by_slot(sockets: Sequence[socket.socket]) -> None:
    try:
        sharing.attach(sockets[0], len(sockets))
    except OSError as error:
        _LOG.warning(
            "the kernel does not pick processes by slot (%s), which is slower: use --processes 1",
            error, extra=Event.PROCESSES_UNSTEERED(reason=str(error)),
        )  # fmt: skip


class ProcessPool:
    """The processes of an aggregator, as a context manager.

    Entering it waits for the parent aggregator, if there is one, and starts the processes. A stop signal or
    ``told_to_stop`` ends that wait. Leaving it stops the processes. ``named_in``: the job file or option that names the
    address, for messages. ``at``: this aggregator's address, needed where a job has several.
    """

    def __init__(
        self,
        jobs: Sequence[JobConfig],
        address: str,
        port: int,
        processes: int,
        *,
        named_in: str = "",
        at: str | None = None,
        told_to_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.jobs, self._told_to_stop = jobs, told_to_stop
        self._lanes = lanes_of(jobs, at)
        # Whether it was stopped before it was ready.
        self.is_stopped = False
        self.shared = Shared(self._lanes, processes)
        self._sockets = listen(address, port, processes, named_in)
        self._inboxes = [HandOver() for _ in range(processes)] if processes > 1 else []
        self._stop_reader, self._stop_writer = os.pipe()
        # Compiled here once, not in each process.
        kernels()
        # A child ends with its parent, even if that is killed: the pipe's other end is then closed.
        fork = multiprocessing.get_context("fork")
        self._processes: list[BaseProcess] = [
            fork.Process(target=self._work, args=(number,), name=f"aggregator-{number}") for number in range(processes)
        ]

    def __enter__(self) -> Self:
        wait_for_above(ParentLink(self._lanes, self.shared), self._sockets, self._is_stopped_within)
        for process in self._processes:
            process.start()
        for udp in self._sockets:
            udp.close()
        for inbox in self._inboxes:
            inbox.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._stop_writer)
        for process in self._processes:
            process.join()
        os.close(self._stop_reader)

    @property
    def pids(self) -> list[int]:
        """The process ids of the running processes."""
        return [process.pid for process in self._processes if process.pid is not None]

    def _work(self, number: int) -> None:
        """Serve, in the child process."""
        # Ctrl-C reaches the whole process group. The parent alone reacts to it.
        for one in (signal.SIGINT, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(self._stop_writer)
        for other, udp in enumerate(self._sockets):
            if other != number:
                udp.close()
        Server(self._sockets[number], State(self._lanes, self.shared, number), self._inboxes, number).run(
            self._stop_reader
        )

    def _is_stopped_within(self, seconds: float) -> bool:
        self.is_stopped = self.is_stopped or _signal_within(seconds) in _STOP or self._told_to_stop()
        return self.is_stopped

    def wait(self, tell: Callable[[], object] = lambda: None, every_s: float | None = None) -> None:
        """Wait for a stop signal, and meanwhile call ``tell`` every ``every_s`` seconds. Raises ProcessError if a child
        process ends by itself."""
        while not self.is_stopped and (caught := _signal_within(every_s)) not in _STOP:
            if caught is None:
                tell()
                continue
            ended = [process for process in self._processes if not process.is_alive()]
            if ended:
                status = f"{ended[0].name} ended with status {ended[0].exitcode}"
                raise ProcessError(f"{status}: see the log, then start sumwire-aggregator again")


def _signal_within(seconds: float | None) -> int | None:
    """The next signal; None if none comes within the time."""
    if seconds is None:
        return signal.sigwait(_SIGNALS)
    found = signal.sigtimedwait(_SIGNALS, seconds)
    return None if found is None else found.si_signo


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Block signals, so that :meth:`ProcessPool.wait` receives them. For the main thread only.

    Threads that libraries start do not block signals. One of them may get a signal while nobody waits for it; its
    handler then passes the signal on to the main thread.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    handlers = {one: signal.signal(one, _pass_on) for one in _STOP | {signal.SIGHUP}}
    try:
        yield
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _pass_on(number: int, _frame: FrameType | None) -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, number)


class ParentProcess:
    """The program that started this process. Its end is noticed even if it was killed.

    Two signs are watched, because neither suffices. Standard input stays open while another child of that program holds
    its other end. The parent's process id is of no use where the program is at the other end of an ssh connection.
    """

    def __init__(self) -> None:
        self._poll = select.poll()
        # Python has none where it was closed before the start. Its number may be a socket's by now.
        self._is_gone = sys.stdin is None
        if self._is_gone:
            return
        self._stdin = sys.stdin.fileno()
        self._poll.register(self._stdin, select.POLLIN | select.POLLHUP)
        try:
            self._poll.register(os.pidfd_open(os.getppid()), select.POLLIN)
        except ProcessLookupError:
            self._is_gone = True

    def has_ended(self, within_ms: float | None = 0.0) -> bool:
        """Wait until the program or standard input has ended, at most ``within_ms``; None waits for ever. Returns
        whether one has."""
        while not self._is_gone and (events := self._poll.poll(within_ms)):
            # Input is ignored; its end means that the parent ended.
            self._is_gone = any(one != self._stdin or not os.read(self._stdin, 4096) for one, _ in events)
        return self._is_gone

    def end_with_it(self, stop: Callable[[], object] = lambda: os.kill(os.getpid(), signal.SIGTERM)) -> None:
        """Call ``stop`` from a thread once the program has ended. By default ``stop`` sends SIGTERM to this process."""
        threading.Thread(target=lambda: self.has_ended(None) and stop(), name="parent", daemon=True).start()
