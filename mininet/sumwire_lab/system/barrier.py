# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A barrier for processes in different network namespaces, over a Unix socket instead of the emulated links.

On links that lose packets or are full, a barrier over the network would take part of the time that is measured. Unix
sockets work across network namespaces.
"""

from __future__ import annotations

import selectors
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Final

from sumwire_lab.errors import LabError, OptionError

# Longer than any step. A dead worker is noticed earlier: its closed socket ends the barrier for all.
WAIT_SECONDS: Final = 120.0
_HERE: Final = b"h"
_ON: Final = b"o"


class Barrier:
    """The serving side: releases all `size` participants whenever all of them wait. A context manager.

    When one participant disconnects, the barrier ends: `Participant.wait` raises LabError for all others.
    """

    def __init__(self, path: Path, size: int) -> None:
        if size < 1:
            raise OptionError(f"size={size}: a barrier has at least 1 participant")
        self.path = path
        self._size = size
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connections: list[socket.socket] = []
        self._arrived = 0
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="barrier", daemon=True)

    def __enter__(self) -> Barrier:
        try:
            self._listener.bind(str(self.path))
        except OSError as error:
            raise LabError(f"barrier at {self.path}: {error}") from error
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
        for connection in self._connections:
            connection.close()

    def _look(self, selector: selectors.BaseSelector, ready: object) -> bool:
        """Handle one socket; False when the barrier has ended."""
        if ready is self._stopped:
            return False
        if ready is self._listener:
            connection, _ = self._listener.accept()
            self._connections.append(connection)
            selector.register(connection, selectors.EVENT_READ)
            return True
        assert isinstance(ready, socket.socket)
        if not _receive(ready):
            return False
        self._arrived += 1
        if self._arrived < self._size:
            return True
        self._arrived = 0
        return False not in [_send(connection) for connection in self._connections]


class Participant:
    """A process that waits at a barrier. Raises LabError if no barrier is open at `path`."""

    def __init__(self, path: Path, seconds: float = WAIT_SECONDS) -> None:
        self._path = path
        self._seconds = seconds
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(seconds)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise LabError(f"barrier at {path}: {error}") from error

    def wait(self) -> None:
        """Wait until every participant has called `wait` as often as this one.

        Raises LabError if a participant has disconnected, or after `seconds`.
        """
        try:
            self._socket.sendall(_HERE)
            answer = _receive(self._socket)
        except TimeoutError as error:
            raise LabError(f"barrier at {self._path}: not all there after {self._seconds:g} s") from error
        except ConnectionError:
            answer = b""
        if not answer:
            raise LabError(f"barrier at {self._path}: a participant has left")

    def close(self) -> None:
        """Disconnect, which ends the barrier for all."""
        self._socket.close()


def _send(connection: socket.socket) -> bool:
    """Release one participant; False if it has disconnected."""
    try:
        connection.sendall(_ON)
    except ConnectionError:
        return False
    return True


def _receive(connection: socket.socket) -> bytes:
    """One byte, or none if the other end has disconnected."""
    try:
        return connection.recv(1)
    except ConnectionResetError:
        return b""
