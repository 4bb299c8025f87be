# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The native kernels: C, compiled at first use. Without a compiler or with SUMWIRE_NATIVE=0, numpy does their work."""

from __future__ import annotations

import ctypes
import functools
import logging
import os
from ctypes import c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Final

import nativelib
from sumwire_protocol import constants as p4

# An environment variable: 0 means that numpy is used.
SWITCH: Final = "SUMWIRE_NATIVE"
_LOG: Final = logging.getLogger("sumwire")
_FOLDER: Final = Path(__file__).parent / "native"
# Of every function in blind.c; none returns anything.
_ARGUMENTS: Final = {
    "blind_add": (c_void_p, c_int64, c_uint64, c_void_p, c_int),
    "blind_to_lanes": (c_void_p, c_uint64, c_void_p, c_void_p, c_int64),
    "blind_to_planes": (c_void_p, c_int64, c_uint64, c_void_p),
}


def kernels() -> ctypes.CDLL | None:
    """Return the kernels; None where numpy has to do their work."""
    return None if os.environ.get(SWITCH) == "0" else _library()


@functools.cache
def _library() -> ctypes.CDLL | None:
    try:
        library = nativelib.load(_build())
    except nativelib.NativeError as error:
        _LOG.warning("numpy masks contributions, at a higher price than C: %s", error)
        return None
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = None
    return library


def _build() -> Path:
    constants = {
        "WORD_BYTES": p4.WORD_BYTES,
        "WORDS": p4.SLOT_WORDS,
        "INDEX_PLANES": p4.THC_INDEX_PLANES,
    }
    lines = [f"#define BLIND_{name} {value}" for name, value in constants.items()]
    text = "\n".join(("#pragma once", *lines, ""))
    return nativelib.build(
        "sumwire-blind", sorted(_FOLDER.glob("*.c")), generated={"constants.h": text}, includes=[_FOLDER], flags=["-O3"]
    )
