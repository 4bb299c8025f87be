# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The end of the program that started this one, also where it was killed.

Both signs are needed. Standard input stays open while a child of that program's still has its other end. And the
program at the other end of an ssh connection is no process of this machine.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable


class Parent:
    """The program that started this one."""

    def __init__(self) -> None:
        self._poll = select.poll()
        # Python has none where it was closed before the start. Its number may be a socket's by now.
        self._is_gone = sys.stdin is None
        if self._is_gone:
            return
        self._stdin = sys.stdin.fileno()
        self._poll.register(self._stdin, select.POLLIN | select.POLLHUP)
        try:
            self._poll.register(os.pidfd_open(os.getppid()), select.POLLIN)
        except ProcessLookupError:
            self._is_gone = True

    def has_ended(self, within_ms: float | None = 0.0) -> bool:
        """Whether it has, or standard input; within that time, None for no limit."""
        while not self._is_gone and (events := self._poll.poll(within_ms)):
            # What is written there has no meaning, and its end is that of the parent.
            self._is_gone = any(one != self._stdin or not os.read(self._stdin, 4096) for one, _ in events)
        return self._is_gone

    def end_with_it(self, stop: Callable[[], object] = lambda: os.kill(os.getpid(), signal.SIGTERM)) -> None:
        """Call ``stop``, by default SIGTERM to this process, once it has ended."""
        threading.Thread(target=lambda: self.has_ended(None) and stop(), name="parent", daemon=True).start()
