# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Aggregators as child processes, here or by ssh on another machine; and their supervisor, which restarts them.

An aggregator gets the job on its standard input, so no file is written. It ends with this process, even if this process
is killed. `up` supervises the aggregators of a job; `rank_placement` starts one beside rank 0.
"""

from __future__ import annotations

import contextlib
import json
import math
import queue
import shlex
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from commonlib.events import ProgramEvent
from commonlib.logs import is_event
from commonlib.untrusted import shown
from nativelib import UntrustedError, programs
from sumwire_protocol import constants as p4

from sumwire.lifecycle import Lifecycle
from sumwire.start.errors import PortTakenError, StartError

Say = Callable[[str], object]
# An aggregator may compile its kernels first.
_READY_S: Final = 120.0
_END_S: Final = 5.0
# A server that is off answers nothing, and ssh waits minutes for its TCP to give up; or for ever, once it is connected.
_CONNECT_S: Final = 10
_ALIVE_S: Final = 5
_TAIL: Final = 5
REMOTE_COMMAND: Final = "sumwire-aggregator"
# Seconds from the end of an aggregator to its restart, after each of several successive ends. Together 9 minutes, for a
# server that is rebooted.
_WAITS_S: Final = (0.0, 1.0, 5.0, *(30.0,) * 18)
# An aggregator that has served this long resets the count.
_LASTS_S: Final = _WAITS_S[-1]
# How often an aggregator that is not ready yet is checked, and the longest wait of the main thread.
_LOOK_S: Final = 1.0


def here(*options: str) -> list[str]:
    """Return the command that runs an aggregator in this Python's environment."""
    return programs.module("sumwire.aggregator.cli", "-", "--with-parent", *options)


def by_ssh(host: str, command: str, *options: str) -> list[str]:
    """Return the command that runs an aggregator on another machine. Raises StartError."""
    return over_ssh(host, [*shlex.split(command), "-", "--with-parent", *options])


def over_ssh(host: str, words: Sequence[str]) -> list[str]:
    """Return the command that runs these words on another machine. Raises StartError.

    ssh passes the words after the host to a shell there, so each is quoted.
    """
    if not host or host.startswith("-") or not host.isprintable():
        raise StartError(f"ssh = {shown(host)}: must be HOST or USER@HOST")
    watchful = (f"-oConnectTimeout={_CONNECT_S}", f"-oServerAliveInterval={_ALIVE_S}", "-oServerAliveCountMax=3")
    return ["ssh", "-T", *watchful, "-o", "BatchMode=yes", "--", host, shlex.join(words)]


def check_free(
    address: str, otherwise: str, *, port: int = p4.SUMWIRE_PORT, holder: str = "another `sumwire up` or aggregator"
) -> None:
    """Raise PortTakenError if an aggregator cannot listen at this address of this machine, or a worker at ``port``.
    ``holder``: who most likely has the port. ``otherwise``: what to do, as the message says, if that is to stay."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind((address, port))
    except OSError as error:
        raise PortTakenError(
            f"UDP port {port} of {address}: {error.strerror or error}, mostly by {holder} "
            f"(`ss -lunp 'sport = :{port}'`): end that; {otherwise}"
        ) from error


class RunningAggregator:
    """A started aggregator. ``say`` gets its output lines; ``changed`` is called when it is ready and when it has
    ended. Raises StartError if its program cannot be started."""

    def __init__(
        self,
        command: Sequence[str],
        description: Mapping[str, Any],
        say: Say,
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self._program, self._say, self._changed = command[0], say, changed
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._late_at = time.monotonic() + _READY_S
        self._told: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ready, self._ended = threading.Event(), threading.Event()
        try:
            # This Python is what runs already; ssh is looked for.
            words = [command[0] if "/" in command[0] else programs.program(command[0]), *command[1:]]
            # In a session of its own, since Ctrl-C is for this program, which ends the other.
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace", start_new_session=True, env=programs.environment(),
            )  # fmt: skip
        except UntrustedError as error:
            raise StartError(str(error)) from error
        except OSError as error:
            raise StartError(f"{command[0]}: {error.strerror or error}: install it, or start without it") from error
        self._life = Lifecycle("the aggregator", "Aggregator(...)")
        self._life.start(self._read, "aggregator", stop=self._end_process)
        try:
            self._give(description)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the aggregator that this process has started."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def is_ready(self) -> bool:
        """Return whether it is ready. Raises StartError if it ended before, or takes too long; ForkError in a forked
        child, which cannot know."""
        self._life.check_process()
        if self._ready.is_set():
            return True
        if self.has_ended:
            last = " | ".join(self._tail) or "it said nothing"
            raise StartError(f"the aggregator has ended: {last}; mend that, then start it again")
        if time.monotonic() >= self._late_at:
            text = f"the aggregator is not ready after {_READY_S:.0f} s"
            raise StartError(f"{self._program}: {text}; start it again")
        return False

    def await_ready(self) -> None:
        """Wait until it is ready. Raises StartError like :meth:`is_ready`."""
        while not self.is_ready():
            with contextlib.suppress(queue.Empty):
                self._told.get(timeout=min(max(0.0, self._late_at - time.monotonic()), _LOOK_S))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def end(self) -> None:
        """Tell it to end, by closing its standard input. This also works on another machine."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def close(self) -> None:
        """End it, and wait for its end; closing twice is allowed. Does nothing in a forked child."""
        self._life.close()

    def _end_process(self) -> None:
        self.end()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _give(self, description: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        # If it has ended, its last lines say why.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(description) + "\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                text = line.rstrip("\n")
                self._tail.append(text)
                # Its line comes before what others say because it is ready.
                self._say(text)
                if is_event(text, ProgramEvent.READY, "ready: "):
                    self._tell(self._ready)
        self._process.wait()
        self._tell(self._ended)

    def _tell(self, event: threading.Event) -> None:
        event.set()
        self._told.put(None)
        self._changed()


def started(command: Sequence[str], description: Mapping[str, Any], say: Say) -> RunningAggregator:
    """Start an aggregator, and return it when it is ready. Raises StartError."""
    aggregator = RunningAggregator(command, description, say)
    try:
        aggregator.await_ready()
    except BaseException:
        aggregator.close()
        raise
    return aggregator


@dataclass(frozen=True)
class AggregatorCommand:
    """How to start an aggregator. ``address``: its address in a tree; "" for a single one."""

    command: Sequence[str]
    address: str = ""


def keep(programs: Sequence[AggregatorCommand], job: Mapping[str, Any], say: Say, ready: threading.Event) -> None:
    """Keep the aggregators running until the process is interrupted; then all end. ``ready`` is set while all serve.

    Workers return to an aggregator that was started again, with empty slots. Raises StartError if an aggregator ends
    many times in succession, and at once if it never becomes ready. An aggregator that has served before is retried for
    9 minutes, because its server may be rebooting.
    """
    changed: queue.SimpleQueue[None] = queue.SimpleQueue()
    kept = [_Supervised(program, job, say, changed) for program in programs]
    with _ended(kept):
        while True:
            now = time.monotonic()
            due = min(one.look(now) for one in kept)
            serving = all(one.is_serving for one in kept)
            if serving and not ready.is_set():
                ready.set()
                if len(kept) > 1:
                    say(f"all {len(kept)} aggregators are ready")
            elif not serving:
                ready.clear()
            # Never for long: a signal that another thread gets does not wake this one, which handles it when it wakes.
            with contextlib.suppress(queue.Empty):
                changed.get(timeout=min(max(0.0, due - now), _LOOK_S))


@contextlib.contextmanager
def _ended(kept: Sequence[_Supervised]) -> Iterator[None]:
    """End all running aggregators with the block."""
    try:
        yield
    finally:
        running = [one.running for one in kept if one.running is not None]
        # Side by side: each may take some time, on another machine.
        for aggregator in running:
            aggregator.end()
        for aggregator in running:
            aggregator.close()


class _Supervised:
    """One aggregator that is kept running."""

    def __init__(
        self, program: AggregatorCommand, job: Mapping[str, Any], say: Say, changed: queue.SimpleQueue[None]
    ) -> None:
        self._program, self._job, self._changed = program, job, changed
        self._say = say
        self.running: RunningAggregator | None = None
        self.is_serving = False
        self._failures = 0
        self._begins_at = -math.inf
        self._served_from = math.inf
        self._has_served = False

    def look(self, now: float) -> float:
        """Do what is due at ``now``, in seconds of the monotonic clock. Returns when the next look is due."""
        if self.running is None and now >= self._begins_at:
            self.running = RunningAggregator(
                self._program.command, self._job, self._tell, lambda: self._changed.put(None)
            )
        if self.running is None:
            return self._begins_at
        try:
            if not self.is_serving and self.running.is_ready():
                self.is_serving = self._has_served = True
                self._served_from = now
        except StartError as error:
            if not self._has_served:
                where = f"{self._program.address}: " if self._program.address else ""
                raise StartError(f"{where}{error}") from error
            # It has ended, or hangs. Its server may be starting.
            self._note_end(self.running, now)
            return now
        if self.is_serving and self.running.has_ended:
            self._note_end(self.running, now)
            return now
        return math.inf if self.is_serving else now + _LOOK_S

    def _note_end(self, ended: RunningAggregator, now: float) -> None:
        what = "has ended" if ended.has_ended else "is not ready"
        ended.close()
        self.running, self.is_serving = None, False
        lasted = now - self._served_from >= _LASTS_S
        self._served_from = math.inf
        self._failures = 0 if lasted else self._failures + 1
        if self._failures == len(_WAITS_S):
            raise StartError(f"{self._name} has ended {self._failures} times; see its lines above, then start it again")
        wait_s = _WAITS_S[self._failures]
        self._say(f"{self._name} {what}; the next one starts in {wait_s:g} s")
        self._begins_at = now + wait_s

    @property
    def _name(self) -> str:
        return f"the aggregator {self._program.address}".rstrip()

    def _tell(self, line: str) -> None:
        """Say a line of the aggregator, with its address if there are several. A line of JSON is not changed."""
        address = "" if line.startswith("{") else self._program.address
        self._say(f"{address}: {line}" if address else line)
