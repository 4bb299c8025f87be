# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Workers of the lab without the seconds in which each of them imports torch: a server that has imported it forks them.

`serve` runs in a process that has loaded what workers need (helpers.gloo.ranks), and forks one for every request. What
a test starts in a host's namespace, `python preloaded.py SOCKET -m MODULE ARGUMENT...`, is a small process that hands
over its namespaces, its output, its environment and its command line, and ends as the forked process ends. If it is
killed, so is the forked process; SIGTERM is passed on. The module runs as `__main__`, as `python -m` would run it.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The small process does not load it.
    from multiprocessing.connection import Connection

READY = "ready"
TERMINATE = b"term"
NAMESPACES = ("net", "mnt")
FDS = 3 + len(NAMESPACES)
MAX_REQUEST = 1 << 18


# -- the small process ---------------------------------------------------------------------------------


def run(path: str, command: list[str]) -> None:
    """Ends this process as the forked one ended."""
    request = json.dumps({"command": command, "environ": dict(os.environ), "cwd": str(Path.cwd())}).encode()
    root = os.open("/", os.O_RDONLY)
    fds = [1, 2, root, *(os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in NAMESPACES)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST)
        server.connect(path)
        server.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        signal.signal(signal.SIGTERM, lambda *_: server.send(TERMINATE))
        answer = server.recv(4)
    status = struct.unpack("i", answer)[0] if answer else 1 << 8
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


# -- the server ----------------------------------------------------------------------------------------


def serve(path: str, caller: Connection) -> None:
    """Until the caller closes its end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(64)
        caller.send(READY)
        _Server(listener, caller.fileno()).loop()


class _Server:
    def __init__(self, listener: socket.socket, caller: int) -> None:
        self._listener = listener
        self._caller = caller
        self._poll = select.poll()
        self._connections: dict[int, tuple[socket.socket, int, int]] = {}
        self._ends: dict[int, int] = {}  # pidfd -> connection

    def loop(self) -> None:
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(self._caller, select.POLLIN)
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._caller:
                    return
                if fd == self._listener.fileno():
                    self._accept()
                elif fd in self._ends:
                    self._ended(fd)
                elif fd in self._connections:
                    self._told(fd)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        data, ancillary, _, _ = connection.recvmsg(MAX_REQUEST, socket.CMSG_SPACE(4 * FDS))
        fds = list(array.array("i", ancillary[0][2]))
        pid = os.fork()
        if pid == 0:
            _become(json.loads(data), fds)
        for fd in fds:
            os.close(fd)
        end = os.pidfd_open(pid)
        self._connections[connection.fileno()] = (connection, pid, end)
        self._ends[end] = connection.fileno()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(end, select.POLLIN)

    def _told(self, fd: int) -> None:
        """SIGTERM is passed on; without the small process there is no forked one."""
        connection, pid, _ = self._connections[fd]
        if connection.recv(len(TERMINATE)) == TERMINATE:
            os.kill(pid, signal.SIGTERM)
        else:
            os.kill(pid, signal.SIGKILL)
            self._poll.unregister(fd)

    def _ended(self, end: int) -> None:
        connection, pid, _ = self._connections.pop(self._ends.pop(end))
        _, status = os.waitpid(pid, 0)
        for fd in (end, connection.fileno()):
            with contextlib.suppress(OSError, KeyError):
                self._poll.unregister(fd)
        os.close(end)
        with contextlib.suppress(OSError, KeyError):
            connection.send(struct.pack("i", status))
        connection.close()


def _become(request: dict[str, object], fds: list[int]) -> None:
    """The forked process: never returns."""
    code = 1
    try:
        out, err, root, *namespaces = fds
        os.setsid()
        libc = ctypes.CDLL(None, use_errno=True)
        for namespace in namespaces:
            if libc.setns(namespace, 0) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        # Entering a mount namespace moves the process to that namespace's root, which a chroot hides from its parent.
        os.fchdir(root)
        os.chroot(".")
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(3, 1024)
        os.environ.clear()
        os.environ.update(request["environ"])  # type: ignore[call-overload]
        os.chdir(str(request["cwd"]))
        _, module, *arguments = request["command"]  # type: ignore[misc]
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - the process ends with it, as any would
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _, at, *rest = sys.argv
    run(at, rest)
