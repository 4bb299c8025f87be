# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows cut into trains, and messages received, by C. Without a compiler, or with SUMWIRE_NATIVE=0, numpy and Python do
the same (:func:`sumwire.wire.trains.train_starts`, :meth:`sumwire.wire.batch.BatchSocket.collect`)."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Final, NamedTuple

from sumwire_protocol import constants as p4

from sumwire.native import load_folder, switched_off
from sumwire.wire.controls import ECN_BITS

_FOLDER: Final = Path(__file__).parent / "native"
CONTROLS_FOLDER: Final = _FOLDER
"""Where controls.h is."""


CONSTANTS: Final = {"ECN_BITS": ECN_BITS, "ECN_CE": p4.ECN_CE}
"""What the code takes from Python."""


class TrainsOut(ctypes.Structure):
    """struct trains_out."""

    _fields_ = [
        ("base", c_uint64),
        ("row_bytes", c_uint64),
        ("phase", c_uint64),
        ("tos", c_void_p),
        ("vectors", c_void_p),
        ("controls", c_void_p),
        ("control_bytes", c_uint64),
        ("room", c_uint64),
        ("rows", c_uint64),
    ]


class ArrivalsIn(ctypes.Structure):
    """struct arrivals_in."""

    _fields_ = [
        ("messages", c_void_p),
        ("control_bytes", c_uint64),
        ("segments", c_void_p),
        ("marks", c_void_p),
        ("room", c_uint64),
        ("filled", c_uint64),
        ("marked", c_uint64),
    ]


class Compiled(NamedTuple):
    """Addresses of functions and structures: ``arrivals_collect`` and what it works on, the number of messages that it
    has filled, and of those of them that were marked; ``trains_cut`` and what it works on, the messages of a sending
    call. ``collect_ns``: how long a receive waits."""

    collect: int
    arrivals: int
    filled: int
    marked: int
    cut: int
    trains: int
    out: int
    collect_ns: int


def compiled(library: ctypes.CDLL, arrivals: ArrivalsIn, trains: TrainsOut, out: int, collect_ns: int) -> Compiled:
    """The addresses in a loaded library. The structures must stay in place."""
    return Compiled(
        _function(library.arrivals_collect),
        ctypes.addressof(arrivals),
        ctypes.addressof(arrivals) + ArrivalsIn.filled.offset,
        ctypes.addressof(arrivals) + ArrivalsIn.marked.offset,
        _function(library.trains_cut),
        ctypes.addressof(trains),
        out,
        collect_ns,
    )


def _function(function: Any) -> int:
    return ctypes.cast(function, c_void_p).value or 0


def kernels() -> ctypes.CDLL | None:
    """The compiled code, or None if numpy has to do its work."""
    return None if switched_off() else _library()


@functools.cache
def _library() -> ctypes.CDLL | None:
    found = load_folder(
        "sumwire-wire", _FOLDER, CONSTANTS, "numpy cuts what is sent into trains, at a higher price than C"
    )
    return None if found is None else declared(found)


def declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library, whose functions now know their types."""
    library.trains_cut.argtypes = (POINTER(TrainsOut), c_void_p, c_uint64, c_uint64)
    library.trains_cut.restype = c_uint64
    library.arrivals_collect.argtypes = (POINTER(ArrivalsIn), c_int, c_uint64, c_int64)
    library.arrivals_collect.restype = c_int
    return library
