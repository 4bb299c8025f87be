# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures honest callers of every listener in this project, while crowds from another address keep it busy.

Everything runs in a separate network namespace, which `python -m sumwire_lab.experiments.crowds` prepares as its first
process. Each server is a process, and so is each crowd. A server without a guard shows that the crowds can keep callers
out.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from commonlib.http_client import get
from nativelib import programs

from sumwire_lab.errors import ProcessDiedError

ADDRESS: Final = "127.0.0.1"
STRANGER: Final = "127.0.0.2"
CONNECTS: Final = "connects"
SILENT: Final = "silent"
SLOW: Final = "slow"
# Connections a second, callers that say nothing, and callers that send a byte now and then.
AMOUNTS: Final[Mapping[str, int]] = {CONNECTS: 10_000, SILENT: 1000, SLOW: 200}
WORDS: Final[Mapping[str, str]] = {
    CONNECTS: "connects a second from another address",
    SILENT: "silent callers",
    SLOW: "slow bodies",
}
UNGUARDED: Final = "a server without a guard"
P4RUNTIME: Final = "P4Runtime"
PATHS: Final[Mapping[str, str]] = {"service": "/job", "metrics": "/metrics", "live page": "/", UNGUARDED: "/"}
LISTENERS: Final = ("service", "metrics", "live page", P4RUNTIME)

_MODULE: Final = "sumwire_lab.experiments.crowds"
# The crowd is at work before the first honest caller comes.
_BEFORE_S: Final = 1.0
_CALLS: Final = 20
_BETWEEN_S: Final = 0.1
# Who had no answer by then is counted with it.
PATIENCE_S: Final = 10.0
_ANSWER_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Siege:
    """The result for one listener and crowd. ``slowest_s``: the slowest answer to an honest caller. ``per_second``:
    connections that the crowd began."""

    listener: str
    crowd: str
    slowest_s: float
    per_second: float


def besieged(calls: int = _CALLS) -> list[Siege]:
    """Test every listener under every crowd, and the server without a guard under the first one. ``calls``: honest
    callers in each test. Needs root, for the namespace. Raises ProcessDiedError."""
    command = ["unshare", "--net", *programs.module(_MODULE, "all", str(calls))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ProcessDiedError(f"the listeners' callers ended with {done.returncode}; see what they wrote above")
    return [Siege(**each) for each in json.loads(done.stdout.splitlines()[-1])]


# -- servers ------------------------------------------------------------------------------------------


def listen(listener: str, stack: ExitStack) -> int:
    """Start a server in this process, for as long as the stack is open. Returns its port."""
    if listener == "service":
        from sumwire.start.service import serving

        return stack.enter_context(serving({"name": "crowds", "addresses": []}, ADDRESS, 0))
    if listener == "metrics":
        from commonlib.metrics import MetricsEndpoint
        from commonlib.metrics_server import Exposition

        return stack.enter_context(Exposition(MetricsEndpoint(ADDRESS))).endpoint.port
    if listener == "live page":
        from sumwire_lab.run.live import LivePage

        return urlsplit(LivePage(0).address).port or 0
    if listener == P4RUNTIME:
        from softswitch.p4runtime.server import serve
        from softswitch.switch import SoftSwitch

        server = serve(SoftSwitch(engine="python"), f"{ADDRESS}:0", 1)
        stack.callback(server.stop)
        return server.port
    plain = _Plain((ADDRESS, 0), _PlainHandler)
    threading.Thread(target=plain.serve_forever, daemon=True).start()
    stack.callback(plain.shutdown)
    return int(plain.server_address[1])


class _Plain(http.server.ThreadingHTTPServer):
    """Python's own, as it is, but for what it writes of callers that go away."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing."""


class _PlainHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


# -- crowds -------------------------------------------------------------------------------------------

_NO_PORT_YET: Final = 24  # IP_BIND_ADDRESS_NO_PORT: the port is chosen by connect, from all that are free
_RESET: Final = struct.pack("ii", 1, 0)
_KEPT: Final = 256
_TICK_S: Final = 0.01
_DRIP_S: Final = 0.1
# What is said at once: the beginning of a request whose end does not come.
_HTTP: Final = b"GET /x HTTP/1.1\r\nContent-Length: 1000000\r\nX: "
# The same for HTTP/2: the preface, settings, and the head of a frame that has 16,000 bytes and no meaning.
_HTTP2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 62, 128, 255, 0, 0, 0, 0, 0))


class Crowd:
    """Callers from one address that only take up room. ``began``: connections so far."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.began = 0

    def _connection(self) -> socket.socket:
        """One that is on its way; a reset ends it, so that it leaves nothing behind."""
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        made.setsockopt(socket.IPPROTO_IP, _NO_PORT_YET, 1)
        made.bind((STRANGER, 0))
        made.setblocking(False)
        made.connect_ex((ADDRESS, self._port))
        self.began += 1
        return made

    def connect(self, per_second: int, goes_on: Callable[[], bool]) -> None:
        """Open so many connections per second, if this processor can, and close each soon."""
        kept: deque[socket.socket] = deque()
        began = time.monotonic()
        while goes_on():
            due = int((time.monotonic() - began) * per_second) - self.began
            for _ in range(min(due, per_second)):
                kept.append(self._connection())
                if len(kept) > _KEPT:
                    kept.popleft().close()
            time.sleep(_TICK_S if due < per_second * _TICK_S else 0)

    def stay(self, count: int, said: bytes, goes_on: Callable[[], bool]) -> None:
        """Keep ``count`` connections open, and reconnect those that are closed. With ``said`` each connection sends
        that text, and then a byte now and then."""
        with selectors.DefaultSelector() as watched:
            while goes_on():
                for _ in range(count - len(watched.get_map())):
                    watched.register(self._connection(), selectors.EVENT_READ, [said])
                for key, _ in watched.select(0):
                    self._look(watched, key.fileobj)
                for key in [*watched.get_map().values()] if said else []:
                    with contextlib.suppress(OSError):
                        key.fileobj.send(key.data.pop() if key.data else b"x")  # type: ignore[union-attr]
                time.sleep(_DRIP_S)

    def _look(self, watched: selectors.BaseSelector, caller: Any) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                if caller.recv(4096):
                    return
            except ConnectionError:
                pass  # it was sent away, too
            watched.unregister(caller)
            caller.close()


def crowd(kind: str, listener: str, port: int) -> None:
    """Run the process of a crowd. It runs until SIGTERM, then writes how many connections per second it has begun."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    mob, began = Crowd(port), time.monotonic()
    _tell("ready")
    if kind == CONNECTS:
        mob.connect(AMOUNTS[kind], lambda: not ended)
    else:
        said = b"" if kind == SILENT else _HTTP2 if listener == P4RUNTIME else _HTTP
        mob.stay(AMOUNTS[kind], said, lambda: not ended)
    _tell(mob.began / (time.monotonic() - began))


# -- honest callers -----------------------------------------------------------------------------------


def answer_s(listener: str, port: int) -> float:
    """Return the seconds until an honest caller, which retries at once when refused, has its answer."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < PATIENCE_S:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if _asks(listener, port, PATIENCE_S - waited):
                return time.monotonic() - began
    return PATIENCE_S


def _asks(listener: str, port: int, within_s: float) -> bool:
    if listener != P4RUNTIME:
        return get(ADDRESS, port, PATHS[listener], within_s=within_s, bytes_most=_ANSWER_BYTES)[0] == 200
    import grpc
    from commonlib.p4runtime import load_messages

    load_messages()
    from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

    with grpc.insecure_channel(f"{ADDRESS}:{port}", options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
        try:
            stub.Capabilities(p4runtime_pb2.CapabilitiesRequest(), timeout=within_s, wait_for_ready=True)
        except grpc.RpcError:
            return False
    return True


def besiege(listener: str, kind: str, calls: int) -> Siege:
    """Open the connections of one crowd at one listener."""
    with ExitStack() as stack:
        server = stack.enter_context(_child("serve", listener))
        port = int(_told(server))
        answer_s(listener, port)
        mob = stack.enter_context(_child("crowd", kind, listener, str(port)))
        _told(mob)
        time.sleep(_BEFORE_S)
        slowest = 0.0
        for _ in range(calls):
            slowest = max(slowest, answer_s(listener, port))
            time.sleep(_BETWEEN_S)
        mob.terminate()
        return Siege(listener, kind, slowest, float(_told(mob)))


@contextmanager
def _child(*words: str) -> Iterator[subprocess.Popen[str]]:
    command = programs.module(_MODULE, *words)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _told(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise ProcessDiedError(f"a process of the crowds ended with {process.wait()}; see what it wrote above")
    return line


def _tell(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def main(words: list[str]) -> None:
    match words:
        case ["serve", listener]:
            with ExitStack() as stack:
                _tell(listen(listener, stack))
                sys.stdin.read()
        case ["crowd", kind, listener, port_text]:
            crowd(kind, listener, int(port_text))
        case ["all", calls]:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            wanted = [*((listener, kind) for listener in LISTENERS for kind in AMOUNTS), (UNGUARDED, CONNECTS)]
            _tell(json.dumps([asdict(besiege(listener, kind, int(calls))) for listener, kind in wanted]))


if __name__ == "__main__":
    main(sys.argv[1:])
