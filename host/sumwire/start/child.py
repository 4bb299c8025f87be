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
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

from sumwire_protocol import constants as p4
from sumwire_protocol.logs.events import Event
from sumwire_protocol.logs.forms import is_event
from sumwire_protocol.outside import shown

from sumwire.start.errors import StartError

Say = Callable[[str], object]
# It may compile its kernels first.
_READY_S: Final = 120.0
_END_S: Final = 5.0
_TAIL: Final = 5
REMOTE_COMMAND: Final = "sumwire-aggregator"


def here(*options: str) -> list[str]:
    """The command that runs an aggregator in this Python's environment."""
    return [sys.executable, "-m", "sumwire.aggregator.cli", "-", "--with-parent", *options]


def by_ssh(host: str, command: str, *options: str) -> list[str]:
    """The command that runs one on another machine. Raises StartError.

    ssh gives the words after the host to a shell there, so each is quoted.
    """
    if not host or host.startswith("-") or not host.isprintable():
        raise StartError(f"ssh = {shown(host)}: must be HOST or USER@HOST")
    words = [*shlex.split(command), "-", "--with-parent", *options]
    return ["ssh", "-T", "-o", "BatchMode=yes", "--", host, shlex.join(words)]


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
    """A running aggregator. ``say`` gets its lines. Raises StartError if it does not become ready."""

    def __init__(self, command: Sequence[str], description: Mapping[str, Any], say: Say) -> None:
        self._say = say
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._ready: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.ended = threading.Event()
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace",
            )  # fmt: skip
        except OSError as error:
            raise StartError(f"{command[0]}: {error.strerror or error}: install it, or start without it") from error
        self._thread = threading.Thread(target=self._read, name="aggregator", daemon=True)
        self._thread.start()
        try:
            self._give(description)
            self._await_ready(command[0])
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Of the process that this one has started."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it; closing twice is allowed."""
        assert self._process.stdin is not None
        # It ends when its standard input does, on another machine too.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()

    def _give(self, description: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        # If it has ended, its last lines say why.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(description) + "\n")
            self._process.stdin.flush()

    def _await_ready(self, program: str) -> None:
        try:
            ready = self._ready.get(timeout=_READY_S)
        except queue.Empty:
            raise StartError(f"{program}: the aggregator is not ready after {_READY_S:.0f} s; start it again") from None
        if not ready:
            last = " | ".join(self._tail) or "it said nothing"
            raise StartError(f"the aggregator has ended: {last}; mend that, then start it again")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.rstrip("\n")
            self._tail.append(text)
            if is_event(text, Event.READY, "ready: "):
                self._ready.put(True)
            self._say(text)
        self._process.wait()
        self._ready.put(False)
        self.ended.set()
