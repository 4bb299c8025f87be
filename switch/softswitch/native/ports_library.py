# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ctypes interface of the ports' library: the program lock, impairments, the packet loop.

It depends on no program, so it is built once.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from nativelib import build, load

FOLDER = Path(__file__).parent
SOURCES = ("program_lock.c", "impair.c", "layers.c", "cut.c", "join.c", "ring.c", "send.c", "ports.c")


class ImpairmentSpecStruct(ctypes.Structure):
    """struct ss_impair_spec"""

    _fields_ = (
        ("drop", c_double),
        ("dup", c_double),
        ("reorder", c_double),
        ("state", c_uint64),
        ("hold_ns", c_uint64),
        ("overtaken_by", c_uint32),
        ("delay_ns", c_uint64),
    )


class ImpairmentCountersStruct(ctypes.Structure):
    """struct ss_impair_counters"""

    _fields_ = (("dropped", c_uint64), ("duplicated", c_uint64), ("reordered", c_uint64))


class CounterStruct(ctypes.Structure):
    """struct ss_port_counters"""

    _fields_ = (
        ("rx_frames", c_uint64),
        ("rx_bytes", c_uint64),
        ("tx_frames", c_uint64),
        ("tx_bytes", c_uint64),
        ("tx_dropped", c_uint64),
        ("tx_refused", c_uint64),
        ("rx_dropped", c_uint64),
        ("rx_cut", c_uint64),
        ("rx_refused", c_uint64),
        ("rx_trains", c_uint64),
        ("tx_trains", c_uint64),
    )


class PortSpecStruct(ctypes.Structure):
    """struct ss_port_spec"""

    _fields_ = (
        ("mtu", c_uint32),
        ("train_bytes", c_uint32),
        ("unfinished", c_uint32),
        ("ring_bytes", c_size_t),
    )


# ss_pass_fn: context, frame, length
Pass = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint32)

# name -> result, arguments. Pointers to C's own structures are plain addresses.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ss_lock_new": (c_void_p, (c_uint64,)),
    "ss_lock_free": (None, (c_void_p,)),
    "ss_lock_enter": (None, (c_void_p,)),
    "ss_lock_leave": (None, (c_void_p,)),
    "ss_lock_run": (None, (c_void_p, c_void_p)),
    "ss_impair_new": (c_void_p, (POINTER(ImpairmentSpecStruct),)),
    "ss_impair_free": (None, (c_void_p,)),
    "ss_impair_push": (None, (c_void_p, c_char_p, c_uint32, c_uint64, Pass, c_void_p)),
    "ss_impair_poll": (None, (c_void_p, c_uint64, Pass, c_void_p)),
    "ss_impair_deadline": (c_uint64, (c_void_p,)),
    "ss_impair_read_counters": (None, (c_void_p, POINTER(ImpairmentCountersStruct))),
    "ss_ports_new": (c_void_p, (c_void_p, c_uint32, c_uint32, c_int, c_int)),
    "ss_ports_free": (None, (c_void_p,)),
    "ss_ports_add": (c_int, (c_void_p, c_uint32, c_int, POINTER(PortSpecStruct))),
    "ss_ports_impair": (c_int, (c_void_p, c_uint32, c_int, POINTER(ImpairmentSpecStruct))),
    "ss_ports_run": (c_int, (c_void_p,)),
    "ss_ports_stop": (None, (c_void_p,)),
    "ss_ports_failed": (c_uint32, (c_void_p,)),
    "ss_ports_send": (c_int, (c_void_p, c_uint32, c_char_p, c_uint32)),
    "ss_ports_read_counters": (None, (c_void_p, c_uint32, POINTER(CounterStruct))),
    "ss_ports_cpu_dropped": (c_uint64, (c_void_p,)),
}


def declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """``library`` with the types of its functions."""
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@functools.cache
def port_library() -> ctypes.CDLL:
    """The ports' library; the first call builds and loads it. Raises nativelib.NativeError."""
    flags = ["-D_GNU_SOURCE", "-pthread"]
    path = build("softswitch-ports", [FOLDER / name for name in SOURCES], includes=[FOLDER], flags=flags)
    return declared(load(path))
