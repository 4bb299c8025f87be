# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A port without an interface: frames are datagrams of a Unix socket, for machines without root or veth."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from softswitch.runtime.interface import PortCounters, PortError

#: What begins the name of such a port's interface; the rest is the path.
UNIX: Final = "unix:"
_MAX_FRAME_BYTES: Final = 65536
_FULL: Final = frozenset([errno.EAGAIN, errno.ENOBUFS])
_GONE: Final = frozenset([errno.ECONNREFUSED, errno.ENOENT])


class UnixPort:
    """A bound socket of mode 0600, and the port's other end: the socket from which a datagram came last. An empty
    datagram says no more than that. Frames for a port without another end are counted as ``tx_dropped``.

    Raises PortError.
    """

    def __init__(self, number: int, interface: str) -> None:
        self.number = number
        self.counters = PortCounters()
        path = interface.removeprefix(UNIX)
        cure = "choose another: -i PORT@unix:PATH"
        if not path:
            raise PortError(f"port {number} on {interface}: a Unix socket has a path; {cure}")
        self._path = Path(path)
        self._other_end: str | None = None
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        mask = os.umask(0o177)
        try:
            self.socket.setblocking(False)
            _make_room(self._path)
            self.socket.bind(str(self._path))
        except OSError as error:
            self.socket.close()
            raise PortError(f"port {number} on {interface}: {error.strerror or error}; {cure}") from error
        finally:
            os.umask(mask)

    def receive(self) -> bytes | None:
        """Return the next frame; None if there is none. One that is too long is counted and dropped."""
        frame = b""
        while not frame:
            try:
                frame, sender = self.socket.recvfrom(_MAX_FRAME_BYTES + 1)
            except BlockingIOError:
                return None
            self._other_end = sender or self._other_end
            if len(frame) > _MAX_FRAME_BYTES:
                self.counters.rx_cut += 1
                frame = b""
        self.counters.rx_frames += 1
        self.counters.rx_bytes += len(frame)
        return frame

    def send(self, frame: bytes) -> None:
        """Send without blocking. A frame that the other end does not take is counted and dropped."""
        try:
            if self._other_end is None:
                raise FileNotFoundError(errno.ENOENT, "no other end")
            self.socket.sendto(frame, self._other_end)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                self.counters.tx_refused += 1
            elif error.errno in _FULL | _GONE:
                self.counters.tx_dropped += 1
            else:
                raise
            return
        self.counters.tx_frames += 1
        self.counters.tx_bytes += len(frame)

    def counters_now(self) -> PortCounters:
        return self.counters

    def close(self) -> None:
        if self.socket.fileno() >= 0:
            self.socket.close()
            with suppress(FileNotFoundError):
                self._path.unlink()


def _make_room(path: Path) -> None:
    """Remove a socket that no switch has any more. Raises OSError if one has it, or if it is no socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            if path.is_socket():
                path.unlink()
            return
    raise OSError(errno.EADDRINUSE, "a program has this socket, or another port of this switch")
