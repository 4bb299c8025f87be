# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The native kernels: C, compiled at first use. Without a compiler or with SUMWIRE_NATIVE=0, torch is used instead."""

from __future__ import annotations

import ctypes
import functools
import logging
import os
from ctypes import POINTER, c_double, c_float, c_int, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Final

import nativelib
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.logs.events import Event
from sumwire_protocol.ops import SUM32
from torch import Tensor

from sumwire.codec import layout, planes, rotation, seeds, values
from sumwire.errors import UsageError
from sumwire.native import SWITCH, switched_off

# An environment variable: how many threads share the work.
THREADS: Final = "SUMWIRE_THREADS"
# The most threads that are used unless more are asked for, and that can be.
THREADS_USUAL: Final = 4
THREADS_MAX: Final = 64
# torchrun's variable: ranks of the job on this machine.
LOCAL_RANKS: Final = "LOCAL_WORLD_SIZE"
# The least number of entries in the tables that the kernels look values up in.
LOOK_UP: Final = 128

_log = logging.getLogger("sumwire")
_FOLDER: Final = Path(__file__).parent / "native"
# The C files have these constants by the same names after CODEC_.
_CONSTANTS: Final = {
    "GOLDEN": seeds.GOLDEN,
    "MIX_1": seeds.MIX_1,
    "MIX_2": seeds.MIX_2,
    "PASS_VALUES": rotation.PASS_VALUES,
    "CHUNK_VALUES": layout.CHUNK_VALUES,
    "WORD_BYTES": p4.WORD_BYTES,
    "INDEX_PLANES": planes.INDEX_PLANES,
    "SUM_PLANES": planes.SUM_PLANES,
    "LOOK_UP": LOOK_UP,
    "SUM32_VALUES": SUM32.values,
    "NOT_FINITE": values.NOT_FINITE,
}


class Blocks(ctypes.Structure):
    """struct codec_blocks. ``kept``: what ``work`` points to."""

    kept: Tensor

    _fields_ = [
        ("sign_key", c_uint64),
        ("first_block", c_uint64),
        ("blocks", c_uint64),
        ("block_values", c_uint64),
        ("threads", c_uint64),
        ("tensor_values", c_uint64),
        ("work", c_void_p),
    ]


class Table(ctypes.Structure):
    """struct codec_table."""

    _fields_ = [
        ("granularity", c_float),
        ("middle", c_float),
        ("slope", c_void_p),
        ("offset", c_void_p),
        ("levels", c_void_p),
    ]


_FLAGS: Final = ("-O3", "-Wno-psabi", "-pthread")
# Of every function in codec.h.
_ARGUMENTS: Final[dict[str, tuple[Any, ...]]] = {
    "codec_square_sums": (c_void_p, c_uint64, c_void_p, c_uint64),
    "codec_add_square_sums": (c_void_p, c_void_p, c_uint64, c_void_p, c_void_p, c_uint64),
    "codec_wide_square_sums": (c_void_p, c_uint64, c_void_p),
    "codec_magnitude_sums": (c_void_p, c_uint64, c_void_p),
    "codec_thc_encode": (
        *(POINTER(Blocks), POINTER(Table), c_uint64, c_uint64, c_void_p, c_uint64),
        *(c_void_p, c_void_p, c_int64, c_void_p, c_void_p),
    ),
    "codec_thc_norms": (c_void_p, c_uint64, c_void_p, c_uint64, c_double, c_double, c_void_p),
    "codec_thc_scales": (
        *(c_void_p, c_void_p, c_uint64, c_double, c_double, c_double),
        *(c_void_p, c_void_p, c_void_p),
    ),
    "codec_largest_sums": (c_void_p, c_int64, c_uint64, c_void_p),
    "codec_thc_decode_usual": (
        *(POINTER(Blocks), c_void_p, c_int64, c_void_p),
        *(c_int64, c_int64, c_int64, c_void_p, c_void_p, c_uint64),
    ),
    "codec_thc_decode": (POINTER(Blocks), c_void_p, c_int64, c_void_p, c_void_p, c_void_p, c_uint64),
    "codec_grid_points": (
        *(POINTER(Blocks), c_uint64, c_uint64, c_void_p, c_uint64),
        *(c_void_p, c_float, c_void_p),
    ),
    "codec_grid_return": (POINTER(Blocks), c_void_p, c_void_p, c_void_p, c_uint64),
    "codec_fields_pack": (c_void_p, c_uint64, c_uint64, c_uint64, c_void_p, c_int64, c_uint64, c_uint64),
    "codec_fields_values": (
        *(c_void_p, c_int64, c_uint64, c_uint64),
        *(c_void_p, c_void_p, c_void_p, c_uint64, c_uint64),
    ),
    "codec_sum32_exponents": (c_void_p, c_uint64, c_uint32, c_void_p),
    "codec_sum32_encode": (c_void_p, c_uint64, c_void_p, c_double, c_void_p, c_int64, c_uint64),
    "codec_sum32_decode": (c_void_p, c_int64, c_void_p, c_void_p, c_void_p, c_uint64, c_uint64),
    "codec_sum32_residual": (c_void_p, c_uint64, c_void_p, c_void_p, c_double, c_void_p, c_void_p, c_uint64),
    "codec_pack_signs": (c_void_p, c_uint64, c_void_p),
    "codec_pack_sign_chunks": (c_void_p, c_uint64, c_uint64, c_void_p, c_int64, c_void_p),
    "codec_draw_signs": (c_void_p, c_uint64, c_double, c_uint64, c_uint64, c_void_p),
    "codec_unpack_signs": (c_void_p, c_int64, c_uint64, c_float, c_void_p, c_uint64, c_uint64),
}
# Those that answer a question; the others return nothing.
_ANSWERS: Final = (
    *("codec_thc_norms", "codec_thc_scales", "codec_thc_decode_usual"),
    *("codec_pack_signs", "codec_pack_sign_chunks"),
)


def kernels(x: Tensor) -> ctypes.CDLL | None:
    """Return the kernels for this tensor; None on other devices, for float64 and without a compiler."""
    if not x.is_cpu or x.dtype == torch.float64:
        return None
    if switched_off():
        _say_switched_off()
        return None
    return _library()


def threads() -> int:
    """Return how many threads share a kernel's work: ``SUMWIRE_THREADS``, else as many as torch uses, but at most 4 and
    at most half of the rank's share of the cores.

    Raises UsageError unless the variable is a number from 1 to 64.
    """
    chosen = os.environ.get(THREADS)
    if chosen is None:
        ranks = os.environ.get(LOCAL_RANKS, "1")
        return _usual_threads(torch.get_num_threads(), _cores(), int(ranks) if ranks.isdecimal() else 1)
    if not chosen.isdecimal() or not 1 <= int(chosen) <= THREADS_MAX:
        raise UsageError(f"{THREADS}={chosen}: must be a number of threads from 1 to {THREADS_MAX}, or not be set")
    return int(chosen)


@functools.cache
def _cores() -> int:
    """The cores that this process had when it first asked."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _usual_threads(torch_threads: int, cores: int, ranks: int) -> int:
    return max(1, min(THREADS_USUAL, torch_threads, cores // (2 * max(ranks, 1))))


def float32(x: Tensor) -> Tensor:
    """Return the values as the kernels read them: float32, contiguous. Copies only if they are not."""
    return x if x.dtype == torch.float32 and x.is_contiguous() else x.to(torch.float32).contiguous()


def address(array: NDArray[Any]) -> int:
    """Return where an array's memory begins. (`ndarray.ctypes` takes longer.)"""
    begin: int = array.__array_interface__["data"][0]
    return begin


@functools.cache
def _say_switched_off() -> None:
    why = f"{SWITCH}=0"
    _log.info("%s: the codecs use torch, not native kernels", why, extra=Event.KERNELS_MISSING(reason=why))


@functools.cache
def _library() -> ctypes.CDLL | None:
    try:
        library = nativelib.load(_build())
    except nativelib.NativeError as error:
        _log.warning(
            "the codecs use torch, several times slower than native kernels: %s",
            error, extra=Event.KERNELS_MISSING(reason=str(error)),
        )  # fmt: skip
        return None
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int if name in _ANSWERS else None
    return library


def _build() -> Path:
    lines = [f"#define CODEC_{name} {value:#x}u" for name, value in _CONSTANTS.items()]
    constants = "\n".join(("#pragma once", *lines, ""))
    sources = sorted(_FOLDER.glob("*.c"))
    return nativelib.build(
        "sumwire-codec", sources, generated={"constants.h": constants}, includes=[_FOLDER], flags=_FLAGS
    )
