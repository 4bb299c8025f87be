# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP server for a few callers at a time. No caller can keep the others out.

Each caller has a place, and a thread. When none is free, a new caller takes the place of a caller that has not sent a
request yet, or whose address has more places than the new caller's. A place lasts some seconds only, however slowly its
caller sends. An address that connects very often is refused before it costs a thread. The kernel then drops its packets
for a second, because a machine can open more connections than a loop in Python can accept.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import socketserver
import struct
import threading
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import Any, Final
from urllib.parse import urlsplit

_LOOPBACK_NAME: Final = "localhost"
# Connections that the kernel keeps until their turn comes.
_QUEUE: Final = 1024
# New connections of one address: so many at once, and so many a second.
_BURST: Final = 128
_CALLS_PER_S: Final = 64.0
# Addresses whose connections are counted, those that were last heard of.
_ADDRESSES_MOST: Final = 4096
# For so many seconds the kernel drops what an address sends that connects too often; and so many addresses at a time.
_SHUN_S: Final = 1.0
_SHUNNED_MOST: Final = 256
# linux/filter.h, asm-generic/socket.h
_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_LOAD_WORD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_IPV4_SOURCE: Final = 0xFFF00000 + 12
_WHOLE: Final = 0xFFFFFFFF


class _Rates:
    """How often each address may connect: a bucket of tokens for each."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, address: str, now: float) -> bool:
        tokens, before = self._buckets.pop(address, (float(_BURST), now))
        tokens = min(_BURST, tokens + (now - before) * _CALLS_PER_S)
        allowed = tokens >= 1
        self._buckets[address] = (tokens - allowed, now)
        if len(self._buckets) > _ADDRESSES_MOST:
            self._buckets.popitem(last=False)
        return allowed


class _Shunned:
    """Addresses whose packets to a listening socket the kernel drops, each for :data:`_SHUN_S`."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        # In the order in which they end.
        self._until: dict[str, float] = {}
        # A process that was killed may have left its filter at a socket that it had from another.
        with contextlib.suppress(OSError):
            self._filter()

    def add(self, address: str, now: float) -> None:
        if address not in self._until and len(self._until) < _SHUNNED_MOST:
            self._until[address] = now + _SHUN_S
            self._filter()

    def forget(self, now: float) -> None:
        over = [address for address, until in self._until.items() if until <= now]
        for address in over:
            del self._until[address]
        if over:
            self._filter()

    def _filter(self) -> None:
        """Classic BPF: no byte of a packet with one of these sources passes, all of any other."""
        if not self._until:
            self._listener.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            return
        steps = [(_LOAD_WORD, 0, 0, _IPV4_SOURCE)]
        for address in self._until:
            steps += [(_JUMP_IF_EQUAL, 0, 1, int(IPv4Address(address))), (_RETURN, 0, 0, 0)]
        steps.append((_RETURN, 0, 0, _WHOLE))
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
        self._listener.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(steps), ctypes.addressof(program))
        )


@dataclass
class _Place:
    """Of one caller. ``until``: when it ends; None once it may stay. ``asked``: whether its request has come whole."""

    request: socket.socket
    address: str
    until: float | None
    asked: bool = False


class GuardedServer(socketserver.ThreadingTCPServer):
    """The server. ``places``: how many callers at a time. ``call_s``: seconds for each of them.

    A handler that has read a request calls :meth:`heard`.
    """

    allow_reuse_address = True
    daemon_threads = True
    # A caller that stays has no part in the server's end.
    block_on_close = False
    request_queue_size = _QUEUE

    def __init__(
        self, address: tuple[str, int], handler: Any, *, places: int, call_s: float, bind_and_activate: bool = True
    ) -> None:
        self._most = places
        self._call_s = call_s
        # In the order in which they came.
        self._places: dict[int, _Place] = {}
        self._lock = threading.Lock()
        self._rates = _Rates()
        # Connections whose turn comes next.
        self._next: deque[tuple[socket.socket, Any]] = deque()
        super().__init__(address, handler, bind_and_activate)

    def server_activate(self) -> None:
        super().server_activate()
        self.socket.setblocking(False)
        self._shunned = _Shunned(self.socket)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Return a waiting connection, from the address that has the fewest. Raises BlockingIOError if none is
        waiting."""
        if not self._next:
            self._next.extend(self._allowed())
        if not self._next:
            raise BlockingIOError
        return self._next.popleft()

    def service_actions(self) -> None:
        """Do the regular work after each check for new connections."""
        now = time.monotonic()
        self._shunned.forget(now)
        with self._lock:
            over = [place for place in self._places.values() if place.until is not None and place.until <= now]
        for place in over:
            _shut(place.request)
        while self._next:
            self._handle_request_noblock()  # type: ignore[attr-defined]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread of its own, if one more thread is allowed."""
        if self._admit(request, client_address[0]):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection from its beginning to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._places.pop(id(request), None)

    def heard(self, request: Any, *, stays: bool = False) -> None:
        """Note that the caller has sent its request. ``stays``: it may keep its place without a time limit."""
        with self._lock:
            place = self._places.get(id(request))
            if place is None:
                return
            place.asked = True
            if stays:
                place.until = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a caller that disconnects, or sends something other than a request, is not an error of the
        server."""

    def _allowed(self) -> list[tuple[socket.socket, Any]]:
        """Take all connections that wait, and close those of addresses that connect too often."""
        allowed: dict[str, list[tuple[socket.socket, Any]]] = {}
        now = time.monotonic()
        for _ in range(_QUEUE):
            try:
                request, client_address = self.socket.accept()
            except OSError:
                break
            address = client_address[0]
            if self._rates.allows(address, now):
                allowed.setdefault(address, []).append((request, client_address))
            else:
                self._shunned.add(address, now)
                self.shutdown_request(request)
        return [one for crowd in sorted(allowed.values(), key=len) for one in crowd]

    def _admit(self, request: socket.socket, address: str) -> bool:
        with self._lock:
            if len(self._places) >= self._most:
                loser = self._loser(address)
                if loser is None:
                    return False
                _shut(self._places.pop(id(loser.request)).request)
            self._places[id(request)] = _Place(request, address, time.monotonic() + self._call_s)
        return True

    def _loser(self, newcomer: str) -> _Place | None:
        """Who makes room: of those whose address has the most places, the one that has been silent for longest."""
        counts = Counter(place.address for place in self._places.values())
        counts[newcomer] += 1
        most = max(counts.values())
        crowd = [place for place in self._places.values() if counts[place.address] == most]
        silent = [place for place in crowd if not place.asked]
        others = crowd if counts[newcomer] < most else []
        return next(iter([*silent, *others]), None)


def _shut(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


def is_own_name(header: str | None, address: str) -> bool:
    """Return whether a request's ``Host`` is a name of the server, which listens at ``address``.

    A script of another site can make a name of that site resolve to the loopback address of the browser's machine. It
    cannot change the ``Host`` that the browser sends. So a server at a loopback address answers only under its address,
    ``localhost`` and the machine's own name. Servers at other addresses answer under any name. A request without
    ``Host`` does not come from a browser.
    """
    if header is None or not _is_loopback(address):
        return True
    try:
        name = urlsplit(f"//{header}").hostname
    except ValueError:
        return False
    return name is not None and (name in _own_names() or _is_loopback(name))


def _own_names() -> tuple[str, ...]:
    return _LOOPBACK_NAME, socket.gethostname().lower()


def _is_loopback(text: str) -> bool:
    try:
        return IPv4Address(text).is_loopback
    except AddressValueError:
        return False
