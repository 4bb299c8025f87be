# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A lab that is left standing: the process that has made it stays behind, and the one that the user waits for ends.

Processes and namespaces of a lab end with the process that has made them. So with `--keep` a child makes the lab. When
all is done, it tells its parent the exit status, leaves the terminal, and waits for `sumwire-lab down`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

LOG: Final = "kept.log"
_FAILED: Final = 1


class Standing:
    """In the child: the way to leave the lab standing."""

    def __init__(self, told: int) -> None:
        self._told = told

    def wait(self, folder: Path) -> None:
        """Let the parent end with 0, and return when somebody asks this process to end. Output goes to `kept.log`."""
        os.setsid()
        # Before the parent ends: who waits for it may take the lab down at once.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        with (folder / LOG).open("wb") as log:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor in (1, 2):
                os.dup2(log.fileno(), descriptor)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.write(self._told, bytes([0]))
        os.close(self._told)
        signal.sigwait({signal.SIGTERM})


def behind(make: Callable[[Standing], int]) -> int:
    """Call `make` in a child; returns its exit status, or 0 as soon as it leaves its lab standing.

    Call it before there are threads.
    """
    hears, tells = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hears)
        status = _FAILED
        try:
            status = make(Standing(tells))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    os.close(tells)
    # Ctrl-C goes to the child as well, which then takes everything down.
    before: dict[int, Any] = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM)),
    }
    try:
        with os.fdopen(hears, "rb") as told:
            stands = told.read(1)
        return 0 if stands else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
