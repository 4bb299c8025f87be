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


def end_with_it(stop: Callable[[], object] = lambda: os.kill(os.getpid(), signal.SIGTERM)) -> None:
    """Call ``stop``, by default SIGTERM to this process, once the parent process or standard input has ended."""
    parent = os.getppid()
    poll = select.poll()
    poll.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    try:
        poll.register(os.pidfd_open(parent), select.POLLIN)
    except ProcessLookupError:
        stop()
        return
    threading.Thread(target=_watch, args=(poll, sys.stdin.fileno(), stop), name="parent", daemon=True).start()


def _watch(poll: select.poll, stdin: int, stop: Callable[[], object]) -> None:
    while True:
        for descriptor, _ in poll.poll():
            # What is written there has no meaning, and its end is that of the parent.
            if descriptor != stdin or not os.read(stdin, 4096):
                stop()
                return
