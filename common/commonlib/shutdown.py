# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Lets a serving program wait until it is told to stop."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from types import TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ShutdownSignal:
    """Context manager in which SIGINT, SIGTERM and :meth:`set` end :meth:`wait`. Only for the main thread.

    The kernel may deliver a signal to any thread. Python notes it there, but does not wake the main thread from a lock:
    ``threading.Event.wait`` would go on until another signal. So the main thread waits for the file to which the signal
    handler writes (:func:`signal.set_wakeup_fd`).
    """

    def __enter__(self) -> ShutdownSignal:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._file_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._handlers_before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._file_before)
        os.close(self._read)
        os.close(self._write)

    def set(self) -> None:
        """End the wait, from any thread within the block."""
        with suppress(BlockingIOError):  # it is full, so the wait has ended
            os.write(self._write, b"\0")

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until told to stop, or for ``seconds``. Returns whether it was told."""
        return bool(select.select([self._read], [], [], seconds)[0])
