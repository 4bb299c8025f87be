# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The transport's compiled C, for what happens to nearly every chunk. Without a compiler, or with SUMWIRE_NATIVE=0,
numpy does the same, at a higher price."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_double, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Final

from sumwire.native import load_folder, switched_off
from sumwire.transport.fast_retransmit import REORDER_TOLERANCE
from sumwire.wire.header import HEADER_BYTES
from sumwire.wire.packets import CHUNK_MASK, offset_of

_FOLDER: Final = Path(__file__).parent / "native"
_CONSTANTS: Final = {
    "HEADER_BYTES": HEADER_BYTES,
    "CHUNK_MASK": CHUNK_MASK,
    "CHUNK_AT": offset_of("cut_chunk"),
    "COUNT_AT": offset_of("count"),
    "CONTRIBUTORS_AT": offset_of("contributors"),
    "REORDER_TOLERANCE": REORDER_TOLERANCE,
}


class RunsMessages(ctypes.Structure):
    """struct runs_messages."""

    _fields_ = [
        ("memory", c_void_p),
        ("message_bytes", c_uint64),
        ("lengths", c_void_p),
        ("length_bytes", c_uint64),
        ("segments", c_void_p),
        ("segment_bytes", c_uint64),
    ]


class RunsExchange(ctypes.Structure):
    """struct runs_exchange."""

    _fields_ = [
        ("expected", c_void_p),
        ("mask", c_uint64 * (HEADER_BYTES // 8)),
        ("chunks", c_uint64),
        ("payload_bytes", c_uint64),
        ("tag_bytes", c_uint64),
        ("flying", c_void_p),
        ("words", c_void_p),
        ("counts", c_void_p),
        ("contributors", c_void_p),
        ("first", c_uint64),
        ("longest", c_uint64),
    ]


class SteadyExchange(ctypes.Structure):
    """struct steady_exchange."""

    _fields_ = [
        ("chunks", c_uint64),
        ("short_step", c_uint64),
        ("long_step", c_uint64),
        ("ready", c_void_p),
        ("flying", c_void_p),
        ("landed", c_void_p),
        ("first", c_void_p),
        ("latest", c_void_p),
        ("sent_at", c_void_p),
        ("log", c_void_p),
    ]


class SteadyLanding(ctypes.Structure):
    """struct steady_landing."""

    _fields_ = [
        ("latest", c_int64 * REORDER_TOLERANCE),
        ("sent_at", c_double),
        ("sent_once", c_uint64),
        ("head", c_uint64),
        ("end", c_uint64),
    ]


def kernels() -> ctypes.CDLL | None:
    """The compiled code, or None if numpy has to do its work."""
    return None if switched_off() else _library()


@functools.cache
def _library() -> ctypes.CDLL | None:
    found = load_folder(
        "sumwire-transport", _FOLDER, _CONSTANTS, "numpy sends and takes in results, at a higher price than C"
    )
    if found is None:
        return None
    exchange = POINTER(SteadyExchange)
    found.runs_take.argtypes = (POINTER(RunsMessages), c_uint64, POINTER(RunsExchange))
    found.steady_send.argtypes = (exchange, c_uint64, c_uint64, c_int64, c_int64, c_double)
    found.steady_land.argtypes = (exchange, c_uint64, c_uint64, c_uint64, POINTER(SteadyLanding))
    for function in (found.runs_take, found.steady_send, found.steady_land):
        function.restype = c_uint64
    return found
