# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A host's own C, compiled so that its system calls end in the simulator: that for sending and receiving, and that
which makes whole exchanges (:class:`sumwire.transport.exchange.FastPath`)."""

from __future__ import annotations

import ctypes
import errno
import functools
from ctypes import c_int, c_uint, c_void_p
from typing import Any, Final

from nativelib.declarations import Native
from sumwire.transport import steady
from sumwire.wire.messages import NATIVE

from simulate.machine import POLLIN, Machine, Poll

_RECEIVE: Final = ctypes.CFUNCTYPE(c_int, c_int, c_void_p, c_uint, c_int, c_void_p, use_errno=True)
_CALLS: Final = """
int (*simulated)(int, void *, unsigned, int, void *);
int simulated_recvmmsg(int socket, void *messages, unsigned most, int flags, void *timeout) {
  return simulated(socket, messages, most, flags, timeout);
}
"""
# A function of C: its result, its arguments.
_FAST_CALLS: Final = {
    "sendmmsg": ctypes.CFUNCTYPE(c_int, c_int, c_void_p, c_uint, c_int, use_errno=True),
    "ppoll": ctypes.CFUNCTYPE(c_int, c_void_p, c_uint, c_void_p, c_void_p, use_errno=True),
    "clock_gettime": ctypes.CFUNCTYPE(c_int, c_int, c_void_p, use_errno=True),
}
_FAST: Final = """
int (*of_sendmmsg)(int, void *, unsigned, int);
int (*of_ppoll)(void *, unsigned, const void *, const void *);
int (*of_clock_gettime)(int, void *);
int simulated_sendmmsg(int socket, void *messages, unsigned count, int flags) {
  return of_sendmmsg(socket, messages, count, flags);
}
int simulated_ppoll(void *polled, unsigned long count, const void *timeout, const void *signals) {
  return of_ppoll(polled, (unsigned)count, timeout, signals);
}
int simulated_clock_gettime(int clock, void *now) { return of_clock_gettime(clock, now); }
"""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


@functools.cache
def _fast_library() -> Native:
    flags = ["-O1", *(f"-D{name}=simulated_{name}" for name in _FAST_CALLS)]
    return steady.NATIVE.load("sumwire-transport-simulated", flags, {"calls.c": _FAST})


@functools.cache
def _library() -> Native:
    flags = ["-O1", "-Drecvmmsg=simulated_recvmmsg"]
    return NATIVE.load("sumwire-wire-simulated", flags, {"calls.c": _CALLS})


class Kernels:
    """The compiled code of :mod:`sumwire.wire` on a simulated machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._error: BaseException | None = None
        self._library = _library()
        self.trains_out, self.arrivals_in = self._library.trains_out, self._library.arrivals_in
        self.trains_cut = self._library.trains_cut
        # Kept alive: C calls it.
        self._receive = _RECEIVE(self._recvmmsg)
        c_void_p.in_dll(self._library.library, "simulated").value = ctypes.cast(self._receive, c_void_p).value

    def arrivals_collect(self, *arguments: Any) -> int:
        result: int = self._library.arrivals_collect(*arguments)
        self.raise_error()
        return result

    def raise_error(self) -> None:
        """What was raised while C ran."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def cast(self, function: Any, kind: Any) -> Any:
        """As ctypes does, also a function that C calls without Python."""
        return ctypes.cast(self._library.arrivals_collect if function == self.arrivals_collect else function, kind)

    def _recvmmsg(self, number: int, address: int, most: int, flags: int, timeout: int | None) -> int:
        """No exception passes through C: :meth:`arrivals_collect` raises it."""
        try:
            return self._machine.recvmmsg(number, address, most, flags, timeout)
        except BaseException as error:  # noqa: BLE001 - KilledError above all
            self._error = error
            ctypes.set_errno(errno.EBADF)
            return -1


class FastKernels:
    """The compiled code of :mod:`sumwire.transport` on a simulated machine. ``results``: that C alone has taken in."""

    def __init__(self, machine: Machine, wire: Kernels) -> None:
        self.results = 0
        self._machine, self._wire = machine, wire
        self._error: BaseException | None = None
        self._library = _fast_library()
        # Kept alive: C calls them.
        self._calls = [
            kind(functools.partial(self._call, getattr(self, f"_{name}"))) for name, kind in _FAST_CALLS.items()
        ]
        for name, call in zip(_FAST_CALLS, self._calls, strict=True):
            c_void_p.in_dll(self._library.library, f"of_{name}").value = ctypes.cast(call, c_void_p).value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def fast_path_run(self, state: Any) -> int:
        outcome: int = self._library.fast_path_run(state)
        self._raise_error()
        self.results += state.results
        return outcome

    def fast_path_send(self, state: Any) -> int:
        outcome: int = self._library.fast_path_send(state)
        self._raise_error()
        return outcome

    def _raise_error(self) -> None:
        self._wire.raise_error()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _call(self, function: Any, *arguments: Any) -> int:
        try:
            result: int = function(*arguments)
        except BaseException as error:  # noqa: BLE001 - none passes through C
            self._error = error
            ctypes.set_errno(errno.EBADF)
            return -1
        return result

    def _sendmmsg(self, number: int, address: int, count: int, flags: int) -> int:
        return self._machine.sendmmsg(number, address, count, flags)

    def _ppoll(self, polled: int, count: int, timeout: int, signals: int | None) -> int:
        poll, limit = Poll(self._machine), _Timespec.from_address(timeout)
        poll.register(c_int.from_address(polled).value, POLLIN)
        return len(poll.poll(limit.seconds * 1e3 + limit.nanoseconds / 1e6))

    def _clock_gettime(self, clock: int, address: int) -> int:
        now, result = self._machine.clock(), _Timespec.from_address(address)
        result.seconds = int(now)
        result.nanoseconds = round((now - int(now)) * 1e9)
        return 0
