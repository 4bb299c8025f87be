# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The entry point of programs. Called by the `__main__` of each package, which imports nothing else."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

INTERRUPTED: Final = 130


def run(load: Callable[[], Callable[[], int]]) -> int:
    """Run the function that ``load`` imports, and return its exit status.

    Ctrl-C during the imports ends the process like a signal, since there is nothing to clean up yet. A
    KeyboardInterrupt that the program does not handle gives status 130, without a traceback.
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
