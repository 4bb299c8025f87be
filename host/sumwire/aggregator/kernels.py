# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The C kernel of the aggregator, compiled at first use. Without it, or with SUMWIRE_NATIVE=0, numpy does its work."""

from __future__ import annotations

import ctypes
import functools
import logging
from collections.abc import Mapping
from ctypes import POINTER, c_int, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Final

import nativelib
import numpy as np
from commonlib.events import ProgramEvent
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import OPS

from sumwire.aggregator import batches, folds
from sumwire.native import SWITCH, switched_off
from sumwire.wire.messages import NATIVE as WIRE
from sumwire.wire.packets import HEADER_BYTES, headers
from sumwire.wire.trains import TRAIN_BYTES

# The most replies of a train where the packets came one by one.
TO_SINGLES: Final = 16
_LOG: Final = logging.getLogger("sumwire.aggregator")
_FOLDER: Final = Path(__file__).parent / "native"


class StateArrays(ctypes.Structure):
    """struct aggregator_state."""

    _fields_ = [
        ("job_of", c_void_p),
        ("jobs", c_void_p),
        ("runs", c_void_p),
        ("slots", c_void_p),
        ("words", c_void_p),
        ("verdicts", c_void_p),
        ("rejects", c_void_p),
        ("seed", c_uint64),
    ]


class BatchArrays(ctypes.Structure):
    """struct aggregator_batch."""

    _fields_ = [
        ("data", c_void_p),
        ("sizes", c_void_p),
        ("size_bytes", c_uint64),
        ("sources", c_void_p),
        ("source_bytes", c_uint64),
        ("ports", c_void_p),
        ("port_bytes", c_uint64),
        ("tos", c_void_p),
        ("tos_bytes", c_uint64),
        ("count", c_uint64),
    ]


class DatagramArrays(ctypes.Structure):
    """struct aggregator_datagrams."""

    _fields_ = [
        ("room", c_uint64),
        ("control_bytes", c_uint64),
        ("data", c_void_p),
        ("heads", c_void_p),
        ("sizes", c_void_p),
        ("sources", c_void_p),
        ("ports", c_void_p),
        ("tos", c_void_p),
        ("longest", c_uint64),
    ]


class ReplyArrays(ctypes.Structure):
    """struct aggregator_replies."""

    _fields_ = [
        ("heads", c_void_p),
        ("payloads", c_void_p),
        ("payload_of", c_void_p),
        ("payload_count", c_uint64),
        ("sizes", c_void_p),
        ("places", c_void_p),
        ("tos", c_void_p),
        ("reasons", c_void_p),
    ]


class MessageArrays(ctypes.Structure):
    """struct aggregator_messages."""

    _fields_ = [
        ("messages", c_void_p),
        ("vectors", c_void_p),
        ("names", c_void_p),
        ("name_bytes", c_uint64),
        ("controls", c_void_p),
        ("control_bytes", c_uint64),
        ("place_count", c_uint64),
        ("starts", c_void_p),
        ("tos", c_void_p),
    ]


class SocketArrays(ctypes.Structure):
    """struct aggregator_socket."""

    _fields_ = [
        ("descriptor", c_int32),
        ("trains", c_uint32),
        ("messages", c_void_p),
        ("room", c_uint64),
        ("most", c_uint64),
    ]


class Served(ctypes.Structure):
    """struct aggregator_served."""

    _fields_ = [("datagrams", c_uint64), ("replies", c_uint64), ("messages", c_uint64), ("sent", c_uint64)]


def kernels() -> ctypes.CDLL | None:
    """The compiled kernel, or None if numpy has to do its work."""
    if switched_off():
        _say_switched_off()
        return None
    return _library()


@functools.cache
def _say_switched_off() -> None:
    why = f"{SWITCH}=0"
    _LOG.info(
        "%s: numpy aggregates, several times slower than the native kernel",
        why, extra=ProgramEvent.KERNELS_MISSING(reason=why),
    )  # fmt: skip


@functools.cache
def _library() -> ctypes.CDLL | None:
    try:
        library = nativelib.load(_build())
    except nativelib.NativeError as error:
        _LOG.warning(
            "numpy aggregates, several times slower than the native kernel: %s",
            error, extra=ProgramEvent.KERNELS_MISSING(reason=str(error)),
        )  # fmt: skip
        return None
    library.aggregator_process.argtypes = (POINTER(StateArrays), POINTER(BatchArrays), POINTER(ReplyArrays))
    library.aggregator_arrange.argtypes = (POINTER(ReplyArrays), c_uint64, c_uint64, POINTER(MessageArrays))
    library.aggregator_take_apart.argtypes = (c_void_p, c_uint64, POINTER(DatagramArrays))
    parts = (SocketArrays, StateArrays, DatagramArrays, BatchArrays, ReplyArrays, MessageArrays, Served)
    library.aggregator_serve.argtypes = tuple(map(POINTER, parts))
    library.aggregator_serve.restype = c_int
    for function in (library.aggregator_process, library.aggregator_arrange, library.aggregator_take_apart):
        function.restype = c_uint64
    return library


def _build() -> Path:
    # The constants of the P4 program, and the offsets of the header's fields.
    constants = {name: value for name, value in vars(p4).items() if isinstance(value, int)}
    fields: Mapping[str, Any] = headers(np.zeros((1, HEADER_BYTES), np.uint8)).dtype.fields or {}
    constants |= {f"AT_{name.upper()}": offset for name, (_, offset, *_) in fields.items()}
    lines = [f"#define {name} {value}" for name, value in constants.items()]
    lines += [f"#define {name} {getattr(folds, name):#x}u" for name in ("GOLDEN", "MIX_1", "MIX_2")]
    lines.append(f"#define PROBABILITY_BITS {folds.PROBABILITY_BITS}")
    lines.append(f"#define TRAIN_BYTES {TRAIN_BYTES}u")
    lines.append(f"#define TO_SINGLES {TO_SINGLES}u")
    lines += [f"#define TOS_{name} {getattr(batches, name)}" for name in ("PRIORITY_BITS", "ECN_BITS", "PLAIN_REPLY")]
    # A struct op_words for every op, by its code.
    words = (f"[{op.code}] = {{{op.up.words}, {op.partial.words}, {op.down.words}}}" for op in OPS)
    lines.append(f"#define OP_TABLE {{{', '.join(words)}}}")
    text = "\n".join(("#pragma once", *lines, ""))
    sources = sorted(_FOLDER.glob("*.c"))
    includes = [_FOLDER, WIRE.folder]
    return nativelib.build(
        "sumwire-aggregator", sources, generated={"constants.h": text}, includes=includes, flags=["-O3"]
    )
