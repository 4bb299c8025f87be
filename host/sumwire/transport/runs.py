# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs of plain results, checked and stored by C in one pass. Without a compiler, or with SUMWIRE_NATIVE=0, numpy does
the same in several (:meth:`sumwire.transport.buffers.Buffers.plain_run`)."""

from __future__ import annotations

import ctypes
import functools
import logging
import math
import os
from ctypes import POINTER, c_uint64, c_void_p
from pathlib import Path
from typing import Final

import nativelib
import numpy as np
from numpy.typing import NDArray

from sumwire.transport.buffers import Buffers
from sumwire.wire.header import HEADER_BYTES
from sumwire.wire.messages import MessagePlaces, Run, address_of
from sumwire.wire.packets import CHUNK_MASK, offset_of

# The environment variable that, set to 0, switches to numpy, for codecs and aggregator as well.
SWITCH: Final = "SUMWIRE_NATIVE"
_LOG: Final = logging.getLogger("sumwire")
_FOLDER: Final = Path(__file__).parent / "native"


class _Messages(ctypes.Structure):
    """struct runs_messages."""

    _fields_ = [
        ("memory", c_void_p),
        ("message_bytes", c_uint64),
        ("lengths", c_void_p),
        ("length_bytes", c_uint64),
        ("segments", c_void_p),
        ("segment_bytes", c_uint64),
    ]


class _Exchange(ctypes.Structure):
    """struct runs_exchange."""

    _fields_ = [
        ("expected", c_void_p),
        ("mask", c_uint64 * (HEADER_BYTES // 8)),
        ("chunks", c_uint64),
        ("payload_bytes", c_uint64),
        ("flying", c_void_p),
        ("words", c_void_p),
        ("counts", c_void_p),
        ("contributors", c_void_p),
        ("first", c_uint64),
        ("longest", c_uint64),
    ]


class Runs:
    """The runs among the results of one exchange.

    ``messages``: where received messages lie. ``flying``: bool (chunks,), whether a chunk is in flight; read at every
    call.
    """

    def __init__(
        self, library: ctypes.CDLL, messages: MessagePlaces, buffers: Buffers, flying: NDArray[np.bool_]
    ) -> None:
        expected, results = buffers.expected, buffers.results
        # The structures only have addresses.
        self._kept = expected.heads, results, flying
        self._take = library.runs_take
        self._messages = _Messages(*messages)
        self._exchange = _Exchange(
            address_of(expected.heads),
            tuple(expected.mask.tolist()),
            buffers.chunks,
            math.prod(results.words.shape[1:]),
            address_of(flying),
            address_of(results.words),
            address_of(results.counts),
            address_of(results.contributors),
        )

    def take(self, messages: int) -> Run | None:
        """Store the results that lie in so many messages, if they are all plain ones of consecutive chunks in flight.

        Returns None, with nothing stored, if there is anything else among them.
        """
        exchange = self._exchange
        count = self._take(self._messages, messages, exchange)
        size = HEADER_BYTES + exchange.payload_bytes
        return Run(exchange.first, count, exchange.longest, size) if count else None


def library() -> ctypes.CDLL | None:
    """The compiled code, or None if numpy has to do its work."""
    return None if os.environ.get(SWITCH) == "0" else _library()


@functools.cache
def _library() -> ctypes.CDLL | None:
    try:
        found = nativelib.load(_build())
    except nativelib.NativeError as error:
        _LOG.warning("numpy takes in results, at a higher price than C: %s", error)
        return None
    found.runs_take.argtypes = (POINTER(_Messages), c_uint64, POINTER(_Exchange))
    found.runs_take.restype = c_uint64
    return found


def _build() -> Path:
    constants = {
        "HEADER_BYTES": HEADER_BYTES,
        "CHUNK_MASK": CHUNK_MASK,
        "CHUNK_AT": offset_of("cut_chunk"),
        "COUNT_AT": offset_of("count"),
        "CONTRIBUTORS_AT": offset_of("contributors"),
    }
    lines = [f"#define {name} {value}" for name, value in constants.items()]
    text = "\n".join(("#pragma once", *lines, ""))
    sources = sorted(_FOLDER.glob("*.c"))
    return nativelib.build(
        "sumwire-transport", sources, generated={"constants.h": text}, includes=[_FOLDER], flags=["-O3"]
    )
