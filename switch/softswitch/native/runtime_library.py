# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ctypes interface of the run-time library: machines, tables, single packets. It depends on no program: built once."""

from __future__ import annotations

import ctypes
import functools
from ctypes import c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from nativelib import build, load

FOLDER = Path(__file__).parent  # the C sources
_SOURCES = ("runtime.c", "tables.c")


class FrameStruct(ctypes.Structure):
    """``struct ss_frame`` of engine.h."""

    _fields_ = (("port", c_uint32), ("length", c_uint32), ("data", c_void_p))


class FieldStruct(ctypes.Structure):
    """``struct ss_field`` of runtime.h."""

    _fields_ = (("limbs", c_uint32), ("range", c_uint32))


class ReplicaStruct(ctypes.Structure):
    """``struct ss_replica`` of engine.h."""

    _fields_ = (("port", c_uint32), ("instance", c_uint32))


# void log(machine, number of the message, its values)
LogFunction = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p)

# name -> result, arguments. Structures that only C reads are plain addresses; arrays of limbs are bytes.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ss_row_new": (c_void_p, (c_uint32, c_uint32, c_char_p, c_size_t, c_char_p, c_size_t, c_int, c_int)),
    "ss_rows_new": (
        c_int,
        (c_uint32, c_char_p, c_size_t, c_char_p, c_size_t, c_int, c_int, c_size_t, c_void_p),
    ),
    "ss_row_free": (None, (c_void_p,)),
    "ss_row_cell": (ctypes.POINTER(c_uint64), (c_void_p,)),
    "ss_row_set_meter": (c_int, (c_void_p, c_double, c_uint64, c_double, c_uint64, c_uint64, c_uint32)),
    "ss_table_new": (c_void_p, (ctypes.POINTER(FieldStruct), c_uint32, c_uint32, c_void_p, c_size_t, c_void_p)),
    "ss_table_change": (c_int, (c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p)),
    "ss_machine_new": (c_void_p, (c_void_p, c_void_p, LogFunction)),
    "ss_machine_free": (None, (c_void_p,)),
    "ss_machine_publish": (c_int, (c_void_p, c_uint32, c_void_p)),
    "ss_machine_register": (c_void_p, (c_void_p, c_uint32, c_uint64)),
    "ss_machine_counter": (c_void_p, (c_void_p, c_uint32, c_uint64)),
    "ss_machine_set_group": (c_int, (c_void_p, c_uint32, ctypes.POINTER(ReplicaStruct), c_uint32)),
    "ss_machine_set_session": (
        c_int,
        (c_void_p, c_uint32, ctypes.POINTER(ReplicaStruct), c_uint32, c_uint32, c_uint32),
    ),
    "ss_machine_set_values": (c_int, (c_void_p, c_uint32, c_char_p, c_uint32, c_uint32)),
    "ss_machine_set_meter": (
        c_int,
        (c_void_p, c_uint32, c_uint32, c_double, c_uint64, c_double, c_uint64, c_uint64, c_uint32),
    ),
    "ss_machine_lost_passes": (c_uint64, (c_void_p,)),
    "ss_collector_new": (c_void_p, ()),
    "ss_collector_free": (None, (c_void_p,)),
    "ss_collect": (c_int64, (c_void_p, c_uint32, c_char_p, c_uint32, c_uint64, c_void_p)),
    "ss_collected": (ctypes.POINTER(FrameStruct), (c_void_p,)),
}


@functools.cache
def headers() -> dict[str, str]:
    """Texts of the headers that emitted programs include, by name. Read once: a switch that has given up root's rights
    may not be let into the folder again."""
    return {path.name: path.read_text() for path in FOLDER.glob("*.h")}


@functools.cache
def runtime() -> ctypes.CDLL:
    """The run-time library; the first call builds and loads it. Raises nativelib.NativeError."""
    library = load(build("softswitch-runtime", [FOLDER / name for name in _SOURCES], includes=[FOLDER]))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def present(address: int | None) -> int:
    """Return the address that a C function returned. Raises MemoryError for NULL."""
    if not address:
        raise MemoryError("the native engine ran out of memory")
    return address
