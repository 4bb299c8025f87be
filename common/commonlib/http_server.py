# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP server for a few callers at a time, of whom none can keep the others out.

Each caller has a place, and a thread. When none is free, a newcomer gets that of a caller who has not said yet what it
wants, or of one whose address has more places than the newcomer's. A place is for some seconds only, however slowly
its caller sends. An address that connects very often is refused before it costs a thread.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from collections import Counter, OrderedDict
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


@dataclass
class _Place:
    """Of one caller. ``timer``: ends it; None once it may stay. ``asked``: whether its request has come whole."""

    request: socket.socket
    address: str
    timer: threading.Timer | None
    asked: bool = False

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        _shut(self.request)


class GuardedServer(socketserver.ThreadingTCPServer):
    """``places``: callers at a time. ``call_s``: seconds for each of them.

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
        super().__init__(address, handler, bind_and_activate)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, if there is room for one more."""
        address = client_address[0]
        if self._rates.allows(address, time.monotonic()) and self._admit(request, address):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The whole of one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                place = self._places.pop(id(request), None)
            if place is not None and place.timer is not None:
                place.timer.cancel()

    def heard(self, request: Any, *, stays: bool = False) -> None:
        """The caller has said what it wants. ``stays``: it may have its place for as long as it likes."""
        with self._lock:
            place = self._places.get(id(request))
            if place is None:
                return
            place.asked = True
            if stays and place.timer is not None:
                place.timer.cancel()
                place.timer = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a caller that goes away, or sends what is no request, is no error of the server's."""

    def _admit(self, request: socket.socket, address: str) -> bool:
        timer = threading.Timer(self._call_s, _shut, (request,))
        timer.daemon = True
        with self._lock:
            if len(self._places) >= self._most:
                loser = self._loser(address)
                if loser is None:
                    return False
                self._places.pop(id(loser.request)).end()
            self._places[id(request)] = _Place(request, address, timer)
        timer.start()
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
    """Whether a request's ``Host`` is a name of the server, which listens at ``address``.

    A script of another site can make a name of that site point at the loopback address of the browser's machine. It
    cannot change what the browser writes into ``Host``. So a server at a loopback address answers under its address,
    ``localhost`` and the machine's own name alone. Others are for whoever reaches them, by any name. A request without
    ``Host`` is no browser's.
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
