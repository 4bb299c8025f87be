# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where a program begins. Called by the `__main__` of each package, which imports nothing else."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

INTERRUPTED: Final = 130


def run(load: Callable[[], Callable[[], int]]) -> int:
    """Run what ``load`` imports, and return its exit status.

    While modules are imported there is nothing to clean up, so a Ctrl-C ends the process as a signal does. One that the
    program lets through is the status 130, without a traceback.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        main = load()
        signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        main = load()
    try:
        return main()
    except KeyboardInterrupt:
        return INTERRUPTED
