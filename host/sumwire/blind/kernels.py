# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The native kernels: C, compiled at first use. Without a compiler or with SUMWIRE_NATIVE=0, numpy does their work."""

from __future__ import annotations

import ctypes
import functools
from ctypes import c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Final

from sumwire_protocol import constants as p4

from sumwire.native import load_folder, switched_off

_CONSTANTS: Final = {
    "BLIND_WORD_BYTES": p4.WORD_BYTES,
    "BLIND_WORDS": p4.SLOT_WORDS,
    "BLIND_INDEX_PLANES": p4.THC_INDEX_PLANES,
}
# Of every function in blind.c; none returns anything.
_ARGUMENTS: Final = {
    "blind_add": (c_void_p, c_int64, c_uint64, c_void_p, c_int),
    "blind_to_lanes": (c_void_p, c_uint64, c_void_p, c_void_p, c_int64),
    "blind_to_planes": (c_void_p, c_int64, c_uint64, c_void_p),
}


def kernels() -> ctypes.CDLL | None:
    """Return the kernels; None where numpy has to do their work."""
    return None if switched_off() else _library()


@functools.cache
def _library() -> ctypes.CDLL | None:
    without = "numpy masks contributions, at a higher price than C"
    library = load_folder("sumwire-blind", Path(__file__).parent / "native", _CONSTANTS, without)
    if library is not None:
        for name, arguments in _ARGUMENTS.items():
            function = getattr(library, name)
            function.argtypes = arguments
            function.restype = None
    return library
