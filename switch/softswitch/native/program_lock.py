# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The lock between the native packet loop and the threads that write to its program."""

from __future__ import annotations

import time
import weakref

from softswitch.native.ports_library import port_library


class ProgramLock:
    """A re-entrant ticket lock, used like ``threading.RLock``, that also says which program runs.

    First come, first served: when another thread waits, the packet loop releases the lock after its current packet,
    so a write waits for about one packet. ``address`` is that of C's ``struct ss_lock``. ``start_ns``: the moment of
    the monotonic clock at which P4's timestamps are 0, now unless given. Raises nativelib.NativeError.
    """

    def __init__(self, start_ns: int | None = None) -> None:
        library = port_library()
        address = library.ss_lock_new(time.monotonic_ns() if start_ns is None else start_ns)
        if not address:
            raise MemoryError
        self.address: int = address
        # Not at exit: a daemon thread may still be inside.
        weakref.finalize(self, library.ss_lock_free, address).atexit = False
        self._enter, self._leave, self._run = library.ss_lock_enter, library.ss_lock_leave, library.ss_lock_run

    def __enter__(self) -> bool:
        self._enter(self.address)  # without the GIL while it waits
        return True

    def __exit__(self, *_: object) -> None:
        self._leave(self.address)

    def run(self, machine: int | None) -> None:
        """From the next packet on the loop runs the ``struct ss_machine`` at this address; None drops every frame.

        When this returns, the machine that ran before is no longer used. The caller keeps the new one alive until then.
        """
        self._run(self.address, machine)
