# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An aggregator as a child process, here or by ssh on another machine.

It gets the job on its standard input, so no file is written. It ends with this process, also where that is killed.
"""

from __future__ import annotations

import contextlib
import json
import queue
import shlex
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

from nativelib import UntrustedError, programs
from sumwire_protocol import constants as p4
from sumwire_protocol.logs.events import Event
from sumwire_protocol.logs.forms import is_event
from sumwire_protocol.outside import shown

from sumwire.lifecycle import Lifecycle
from sumwire.start.errors import StartError

Say = Callable[[str], object]
# It may compile its kernels first.
_READY_S: Final = 120.0
_END_S: Final = 5.0
# A server that is off answers nothing, and ssh waits minutes for its TCP to give up; or for ever, once it is connected.
_CONNECT_S: Final = 10
_ALIVE_S: Final = 5
_TAIL: Final = 5
REMOTE_COMMAND: Final = "sumwire-aggregator"


def here(*options: str) -> list[str]:
    """The command that runs an aggregator in this Python's environment."""
    return programs.module("sumwire.aggregator.cli", "-", "--with-parent", *options)


def by_ssh(host: str, command: str, *options: str) -> list[str]:
    """The command that runs one on another machine. Raises StartError.

    ssh gives the words after the host to a shell there, so each is quoted.
    """
    if not host or host.startswith("-") or not host.isprintable():
        raise StartError(f"ssh = {shown(host)}: must be HOST or USER@HOST")
    words = [*shlex.split(command), "-", "--with-parent", *options]
    watchful = (f"-oConnectTimeout={_CONNECT_S}", f"-oServerAliveInterval={_ALIVE_S}", "-oServerAliveCountMax=3")
    return ["ssh", "-T", *watchful, "-o", "BatchMode=yes", "--", host, shlex.join(words)]


def check_free(address: str, otherwise: str) -> None:
    """Raises StartError if an aggregator could not listen at this address of this machine. ``otherwise``: what can be
    done if the program that has the port shall stay."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind((address, p4.SUMWIRE_PORT))
    except OSError as error:
        raise StartError(
            f"UDP port {p4.SUMWIRE_PORT} of {address}: {error.strerror or error}, mostly by another `sumwire up` or "
            f"aggregator (`ss -lunp 'sport = :{p4.SUMWIRE_PORT}'`): end that; {otherwise}"
        ) from error


class Aggregator:
    """An aggregator that was started. ``say`` gets its lines, ``changed`` is called when it is ready and when it has
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
        """Of the process that this one has started."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def is_ready(self) -> bool:
        """Whether it has become ready. Raises StartError if it has ended before, or takes too long; ForkError in a
        forked child, which hears nothing of it."""
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
        """Wait for it. Raises StartError as :meth:`is_ready`."""
        while not self.is_ready():
            with contextlib.suppress(queue.Empty):
                self._told.get(timeout=max(0.0, self._late_at - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def end(self) -> None:
        """Tell it to end: it does when its standard input ends, on another machine too."""
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
        for line in self._process.stdout:
            text = line.rstrip("\n")
            self._tail.append(text)
            # Its line comes before what others say because it is ready.
            self._say(text)
            if is_event(text, Event.READY, "ready: "):
                self._tell(self._ready)
        self._process.wait()
        self._tell(self._ended)

    def _tell(self, event: threading.Event) -> None:
        event.set()
        self._told.put(None)
        self._changed()


def started(command: Sequence[str], description: Mapping[str, Any], say: Say) -> Aggregator:
    """An aggregator that is ready. Raises StartError."""
    aggregator = Aggregator(command, description, say)
    try:
        aggregator.await_ready()
    except BaseException:
        aggregator.close()
        raise
    return aggregator
