# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The compiled part of the ports: gate, impairments, packet loop. It knows no program, so it is built once."""

from __future__ import annotations

import ctypes
import functools
from ctypes import c_uint64, c_void_p
from pathlib import Path
from typing import Any

from nativelib import build, load

_FOLDER = Path(__file__).parent
SOURCES = ("gate.c",)

# name -> result, arguments. Pointers to C's own structures are plain addresses.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ss_gate_new": (c_void_p, (c_uint64,)),
    "ss_gate_free": (None, (c_void_p,)),
    "ss_gate_enter": (None, (c_void_p,)),
    "ss_gate_leave": (None, (c_void_p,)),
    "ss_gate_run": (None, (c_void_p, c_void_p)),
}


@functools.cache
def port_library() -> ctypes.CDLL:
    """Built and loaded when first asked for. Raises nativelib.NativeError."""
    path = build("softswitch-ports", [_FOLDER / name for name in SOURCES], includes=[_FOLDER], flags=["-pthread"])
    library = load(path)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
