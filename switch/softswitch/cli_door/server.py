# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The door for commands: a Unix socket of mode 0600, a port of 127.0.0.1, or both.

A request is a line with a JSON object, ``{"command": "register_read seen 0"}``. The answer is one too:
``{"out": ["seen[0]= 5"], "err": []}``, the lines of the output and those beside it. Anything else ends the connection,
so a web page that makes a browser send HTTP to the port does not get a command in.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from commonlib.forking import close_in_children
from commonlib.http_server import GuardedServer
from commonlib.untrusted import UntrustedInputError, json_of

from softswitch.cli_door.commands import Answer, Commander
from softswitch.cli_door.values import LINE_MOST
from softswitch.p4runtime.server import BindError, require_free

LOOPBACK: Final = "127.0.0.1"
#: Connections to a socket at a time.
CLIENTS_MOST: Final = 16
# Of a connection until its first request has come, and then without a request or with an answer that waits.
_CALL_S: Final = 5.0
_IDLE_S: Final = 60.0


class _Handler(socketserver.StreamRequestHandler):
    server: _Listener
    timeout = _IDLE_S

    def handle(self) -> None:
        while True:
            line = self.rfile.readline(LINE_MOST + 1)
            if not line:
                return
            command = _command_of(line)
            if isinstance(command, Answer):
                self._send(command)
                return
            self.server.heard(self.request, stays=True)
            self._send(self.server.commander.answer(command))

    def _send(self, answer: Answer) -> None:
        self.wfile.write(json.dumps({"out": answer.out, "err": answer.err}).encode() + b"\n")


def _command_of(line: bytes) -> str | Answer:
    """The command of a request, or the last answer of the connection."""
    if len(line) > LINE_MOST:
        return Answer([f"Error: the line is longer than {LINE_MOST >> 10} KiB"], [])
    try:
        request = json_of(line.decode())
    except (UnicodeDecodeError, UntrustedInputError) as error:
        return Answer([], [f"a request is a line with a JSON object: {str(error)[:200]!a}"])
    command = request.get("command") if isinstance(request, dict) else None
    if not isinstance(command, str):
        return Answer([], ['a request is {"command": TEXT}'])
    return command


class _Listener(GuardedServer):
    commander: Commander

    def __init__(self, address: Any) -> None:
        super().__init__(address, _Handler, places=CLIENTS_MOST, call_s=_CALL_S)

    def server_close(self) -> None:
        """End the connections, too."""
        super().server_close()
        with self._lock:
            for place in self._places.values():
                with suppress(OSError):
                    place.request.shutdown(socket.SHUT_RDWR)


class _UnixListener(_Listener):
    """All callers are one user's: none is refused for how often it connects."""

    address_family = socket.AF_UNIX

    def _allowed(self) -> list[tuple[socket.socket, Any]]:
        with suppress(OSError):
            return [(self.socket.accept()[0], ("", 0))]
        return []


class CommandDoor:
    """Listens from its creation, and answers from :meth:`open` on. Use as a context manager.

    ``path``: of the Unix socket; ``port``: of 127.0.0.1, 0 for a free one. Raises BindError.
    """

    def __init__(self, path: Path | None, port: int | None) -> None:
        self._listeners: list[_Listener] = []
        self._threads: list[threading.Thread] = []
        self.places: list[str] = []
        """Where it listens."""
        try:
            if path is not None:
                self._listeners.append(_unix(path))
                self.places.append(f"unix:{path}")
            if port is not None:
                self._listeners.append(_tcp(port))
                self.places.append(f"{LOOPBACK}:{self._listeners[-1].server_address[1]}")
        except BaseException:
            self.close()
            raise
        for listener in self._listeners:
            close_in_children(listener.socket)

    def open(self, commander: Commander) -> None:
        """Answer with what ``commander`` says."""
        for listener in self._listeners:
            listener.commander = commander
            thread = threading.Thread(
                target=listener.serve_forever, kwargs={"poll_interval": 0.1}, name="cli-door", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """End the connections and the threads that accept them."""
        for listener in self._listeners[: len(self._threads)]:
            listener.shutdown()
        for thread in self._threads:
            thread.join()
        for listener in self._listeners:
            listener.server_close()
        self._listeners, self._threads = [], []

    def __enter__(self) -> CommandDoor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unix(path: Path) -> _Listener:
    require_free(path, _CURE_PATH)
    mask = os.umask(0o177)  # the socket gets the mode 0600 when it is made
    try:
        if path.is_socket():
            path.unlink()
        return _UnixListener(str(path))
    except OSError as error:
        raise BindError(f"cannot listen on {path}: {error.strerror or error}; choose another: {_CURE_PATH}") from error
    finally:
        os.umask(mask)


def _tcp(port: int) -> _Listener:
    try:
        return _Listener((LOOPBACK, port))
    except OSError as error:
        where = f"{LOOPBACK}:{port}"
        raise BindError(f"cannot listen on {where}: {error.strerror}; choose another: --thrift-port PORT") from error


_CURE_PATH: Final = "--cli-socket PATH"
