# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A barrier of the workers beside the network: a Unix socket of the run.

Where links lose packets or are full, a barrier over them would cost whatever a lost packet costs there, and would be
lost time of the system that is measured. Network namespaces do not divide Unix sockets.
"""

from __future__ import annotations

import selectors
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Final

from sumwire_lab.errors import LabError, OptionError

# Longer than any step; a dead worker shows earlier, because the meeting then ends for all.
MEET_SECONDS: Final = 120.0
_HERE: Final = b"h"
_ON: Final = b"o"


class Meeting:
    """The place: lets everybody go on as soon as all `size` have come, again and again. For the time of the block.

    Who leaves ends it for all: those who wait, or come later, are told.
    """

    def __init__(self, path: Path, size: int) -> None:
        if size < 1:
            raise OptionError(f"size={size}: a meeting has at least 1 member")
        self.path = path
        self._size = size
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._members: list[socket.socket] = []
        self._arrived = 0
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="meeting", daemon=True)

    def __enter__(self) -> Meeting:
        try:
            self._listener.bind(str(self.path))
        except OSError as error:
            raise LabError(f"meeting at {self.path}: {error}") from error
        self._listener.listen(self._size)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.close()
        self._thread.join()
        self._stopped.close()
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            going = True
            while going:
                going = False not in [self._look(selector, key.fileobj) for key, _ in selector.select()]
        for member in self._members:
            member.close()

    def _look(self, selector: selectors.BaseSelector, ready: object) -> bool:
        """Handle one socket; False where the meeting has ended."""
        if ready is self._stopped:
            return False
        if ready is self._listener:
            member, _ = self._listener.accept()
            self._members.append(member)
            selector.register(member, selectors.EVENT_READ)
            return True
        assert isinstance(ready, socket.socket)
        if not _receive(ready):
            return False
        self._arrived += 1
        if self._arrived < self._size:
            return True
        self._arrived = 0
        return False not in [_send(member) for member in self._members]


class Attendance:
    """A worker's end. Raises LabError where nobody holds the meeting."""

    def __init__(self, path: Path, seconds: float = MEET_SECONDS) -> None:
        self._path = path
        self._seconds = seconds
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(seconds)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise LabError(f"meeting at {path}: {error}") from error

    def meet(self) -> None:
        """Return when all have come here as often. Raises LabError where one has left, or does not come in time."""
        try:
            self._socket.sendall(_HERE)
            answer = _receive(self._socket)
        except TimeoutError as error:
            raise LabError(f"meeting at {self._path}: not all there after {self._seconds:g} s") from error
        except ConnectionError:
            answer = b""
        if not answer:
            raise LabError(f"meeting at {self._path}: somebody has left")

    def close(self) -> None:
        """Leave."""
        self._socket.close()


def _send(member: socket.socket) -> bool:
    """Let a member go on; False where it is gone."""
    try:
        member.sendall(_ON)
    except ConnectionError:
        return False
    return True


def _receive(member: socket.socket) -> bytes:
    """One byte; nothing where the other end is gone."""
    try:
        return member.recv(1)
    except ConnectionResetError:
        return b""
