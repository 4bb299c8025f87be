# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The transport's compiled C, for what happens to nearly every chunk. Without a compiler, or with SUMWIRE_NATIVE=0,
numpy does the same, at a higher price."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_double, c_int, c_int64, c_short, c_uint64, c_void_p
from enum import IntEnum
from pathlib import Path
from typing import Final

from sumwire.native import load_folder, switched_off
from sumwire.transport.fast_retransmit import REORDER_TOLERANCE
from sumwire.transport.timers import TIMEOUT_BURST_CHUNKS
from sumwire.wire.header import HEADER_BYTES
from sumwire.wire.packets import CHUNK_MASK, offset_of

# A worker with nothing else to do wakes when one in so many of its open chunks is answered. The rest keeps the switch
# busy meanwhile, and the worker is woken less often (docs/measurements.md, sending by C).
COLLECTED_PART: Final = 2


class Outcome(IntEnum):
    """Why C ended the fast path (:mod:`sumwire.transport.fast_path`)."""

    ENOUGH = 0
    TIME_OVER = 1
    OTHER_MESSAGES = 2
    RECEIVE_FAILED = 3
    OVERTAKEN = 4
    HELD = 5
    NOTHING_READY = 6
    FEW_LEFT = 7


_FOLDER: Final = Path(__file__).parent / "native"
_CONSTANTS: Final = {
    "HEADER_BYTES": HEADER_BYTES,
    "CHUNK_MASK": CHUNK_MASK,
    "CHUNK_AT": offset_of("cut_chunk"),
    "COUNT_AT": offset_of("count"),
    "CONTRIBUTORS_AT": offset_of("contributors"),
    "REORDER_TOLERANCE": REORDER_TOLERANCE,
    "TIMEOUT_BURST_CHUNKS": TIMEOUT_BURST_CHUNKS,
    "COLLECTED_PART": COLLECTED_PART,
    **{outcome.name: outcome.value for outcome in Outcome},
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


class Polled(ctypes.Structure):
    """struct pollfd."""

    _fields_ = [("fd", c_int), ("events", c_short), ("revents", c_short)]


class FastPathSocket(ctypes.Structure):
    """struct fast_path_socket."""

    _fields_ = [
        ("collect", c_void_p),
        ("arrivals", c_void_p),
        ("filled", c_void_p),
        ("marked", c_void_p),
        ("cut", c_void_p),
        ("trains", c_void_p),
        ("out", c_void_p),
        ("collect_ns", c_int64),
        ("row_bytes", c_uint64),
        ("batch", c_uint64),
        ("polled", Polled),
    ]


class FastPathState(ctypes.Structure):
    """struct fast_path."""

    _fields_ = [
        ("socket", POINTER(FastPathSocket)),
        ("messages", POINTER(RunsMessages)),
        ("run", POINTER(RunsExchange)),
        ("exchange", POINTER(SteadyExchange)),
        ("until_s", c_double),
        ("until_prefix", c_uint64),
        ("filled", c_int64),
        ("most_in_flight", c_uint64),
        ("longest_train", c_uint64),
        ("landing", SteadyLanding),
        ("answered", c_int64 * REORDER_TOLERANCE),
        ("taken", c_uint64),
        ("to", c_uint64),
        ("in_flight", c_uint64),
        ("prefix", c_uint64),
        ("longest_in", c_uint64),
        ("results", c_uint64),
        ("messages_in", c_uint64),
        ("messages_out", c_uint64),
        ("sent", c_uint64),
        ("held", c_uint64),
        ("began", c_double),
        ("now", c_double),
        ("round_trip_from", c_double),
        ("round_trips", c_uint64),
        ("drained", c_uint64),
        ("error", c_int),
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
    found.fast_path_run.argtypes = (POINTER(FastPathState),)
    found.fast_path_run.restype = c_int
    return found
