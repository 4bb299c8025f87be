# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows cut into trains, and messages received, by C. Without a compiler, or with SUMWIRE_NATIVE=0, numpy and Python do
the same (:func:`sumwire.wire.trains.train_starts`, :meth:`sumwire.wire.batch.BatchSocket.collect`)."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Final

from sumwire.native import load_folder, switched_off

_FOLDER: Final = Path(__file__).parent / "native"


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
        ("controls", c_void_p),
        ("control_bytes", c_uint64),
        ("room", c_uint64),
        ("filled", c_uint64),
    ]


def kernels() -> ctypes.CDLL | None:
    """The compiled code, or None if numpy has to do its work."""
    return None if switched_off() else _library()


@functools.cache
def _library() -> ctypes.CDLL | None:
    found = load_folder("sumwire-wire", _FOLDER, {}, "numpy cuts what is sent into trains, at a higher price than C")
    return None if found is None else declared(found)


def declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library, whose functions now know their types."""
    library.trains_cut.argtypes = (POINTER(TrainsOut), c_void_p, c_uint64, c_uint64)
    library.trains_cut.restype = c_uint64
    library.arrivals_collect.argtypes = (POINTER(ArrivalsIn), c_int, c_uint64, c_int64)
    library.arrivals_collect.restype = c_int
    return library
