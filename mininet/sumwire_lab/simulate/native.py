# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The packet engine, compiled from `native/*.c` when it is first used.

Its windows follow the host library's rules with the library's own constants.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import nativelib
from nativelib.declarations import Native, declare
from sumwire.native import constants_header
from sumwire.transport import congestion, retransmission, window

from sumwire_lab.errors import LabError

_FOLDER: Final = Path(__file__).parent / "native"
_FLAGS: Final = ("-O3", "-lm")
LEVELS_MOST: Final = 8
"""Queues of a link in order of levels."""
CONSTANTS: Final[Mapping[str, int | str]] = {
    "RTT_ALPHA": repr(retransmission.RTT_ALPHA),
    "RTT_BETA": repr(retransmission.RTT_BETA),
    "RTT_K": retransmission.RTT_K,
    "RTT_INITIAL_S": repr(retransmission.RTT_INITIAL_S),
    "RTT_LEAST_S": repr(retransmission.RTT_LEAST_S),
    "RTT_MOST_S": repr(retransmission.RTT_MOST_S),
    "REORDER_TOLERANCE": retransmission.REORDER_TOLERANCE,
    "TIMEOUT_BURST_CHUNKS": retransmission.TIMEOUT_BURST_CHUNKS,
    "SHORT_TIMEOUT_S": repr(retransmission.SHORT_TIMEOUT_S),
    "PATHS_ROUND_TRIPS": repr(retransmission.PATHS_ROUND_TRIPS),
    "JUDGED": retransmission.JUDGED,
    "SPREAD_ROUNDS": window.SPREAD_ROUNDS,
    "START_CHUNKS": congestion.START_CHUNKS,
    "LEAST_CHUNKS": congestion.LEAST_CHUNKS,
    "MARKS_GAIN": repr(congestion.MARKS_GAIN),
    "DELAY_FACTOR": repr(congestion.DELAY_FACTOR),
    "DELAY_TIMES": repr(congestion.DELAY_TIMES),
    "DELAY_ABOVE_S": repr(congestion.DELAY_ABOVE_S),
    "DELAY_LEAST_CHUNKS": congestion.DELAY_LEAST_CHUNKS,
    "LEVELS_MOST": LEVELS_MOST,
}
"""Those of constants.h; those of windows are the host library's."""
NONE: Final = (1 << 32) - 1
"""No link, no processor, no group."""


@functools.cache
def engine() -> Native:
    """Return the engine's functions and structures. Raises LabError without a C compiler."""
    header = constants_header(CONSTANTS)
    sources = sorted(_FOLDER.glob("*.c"))
    try:
        built = nativelib.build(
            "simulate", sources, generated={"constants.h": header}, includes=[_FOLDER], flags=_FLAGS
        )
        library = nativelib.load(built)
    except nativelib.NativeError as error:
        raise LabError(f"the packet engine is C: {error}") from error
    return declare(library, [*sorted(_FOLDER.glob("*.h")), *sources], CONSTANTS, structs=_STRUCTS)


_STRUCTS: Final = ("packet", "ring", "link", "task", "rtt", "window_limit", "window", "tree", "totals", "processor")
