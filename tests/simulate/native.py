# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A host's own C for sending and receiving, compiled so that its system calls end in the simulator."""

from __future__ import annotations

import ctypes
import errno
import functools
from ctypes import c_int, c_uint, c_void_p
from typing import Any, Final

from nativelib.declarations import Native
from sumwire.wire.messages import NATIVE

from simulate.machine import Machine

_RECEIVE: Final = ctypes.CFUNCTYPE(c_int, c_int, c_void_p, c_uint, c_int, c_void_p, use_errno=True)
_CALLS: Final = """
int (*simulated)(int, void *, unsigned, int, void *);
int simulated_recvmmsg(int socket, void *messages, unsigned most, int flags, void *timeout) {
  return simulated(socket, messages, most, flags, timeout);
}
"""


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
        error, self._error = self._error, None
        if error is not None:
            raise error
        return result

    def _recvmmsg(self, number: int, address: int, most: int, flags: int, timeout: int | None) -> int:
        """No exception passes through C: :meth:`arrivals_collect` raises it."""
        try:
            return self._machine.recvmmsg(number, address, most, flags, timeout)
        except BaseException as error:  # noqa: BLE001 - KilledError above all
            self._error = error
            ctypes.set_errno(errno.EBADF)
            return -1
