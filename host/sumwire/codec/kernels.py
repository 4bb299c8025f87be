# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The native kernels: C, compiled at first use. Without a compiler or with SUMWIRE_NATIVE=0, torch is used instead."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any, Final

import torch
from nativelib.declarations import Native
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SUM32
from torch import Tensor

from sumwire.codec import layout, rotation, seeds
from sumwire.codec.tensors import NOT_FINITE
from sumwire.errors import UsageError
from sumwire.native import NativeFolder

# An environment variable: how many threads share the work.
THREADS: Final = "SUMWIRE_THREADS"
# The most threads that are used unless more are asked for, and that can be.
THREADS_USUAL: Final = 4
THREADS_MAX: Final = 64
# torchrun's variable: ranks of the job on this machine.
LOCAL_RANKS: Final = "LOCAL_WORLD_SIZE"
# The least number of entries in the tables that the kernels look values up in.
LOOK_UP: Final = 128

# The C files have these constants by the same names after CODEC_.
_CONSTANTS: Final = {
    "GOLDEN": seeds.GOLDEN,
    "MIX_1": seeds.MIX_1,
    "MIX_2": seeds.MIX_2,
    "PASS_VALUES": rotation.PASS_VALUES,
    "CHUNK_VALUES": layout.CHUNK_VALUES,
    "WORD_BYTES": p4.WORD_BYTES,
    "INDEX_PLANES": layout.INDEX_PLANES,
    "SUM_PLANES": layout.SUM_PLANES,
    "LOOK_UP": LOOK_UP,
    "SUM32_VALUES": SUM32.values,
    "NOT_FINITE": NOT_FINITE,
}


NATIVE: Final = NativeFolder(
    "sumwire-codec",
    Path(__file__).parent / "native",
    {f"CODEC_{name}": f"{value:#x}u" for name, value in _CONSTANTS.items()},
    without="the codecs use torch, several times slower than native kernels",
    off="the codecs use torch, not native kernels",
    flags=("-O3", "-Wno-psabi", "-pthread"),
)


def kernels(x: Tensor) -> Native | None:
    """Return the kernels for this tensor; None on other devices, for float64 and without a compiler."""
    if not x.is_cpu or x.dtype == torch.float64:
        return None
    return NATIVE.kernels()


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


@functools.cache
def _usual_threads(torch_threads: int, cores: int, ranks: int) -> int:
    return max(1, min(THREADS_USUAL, torch_threads, cores // (2 * max(ranks, 1))))


def float32(x: Tensor) -> Tensor:
    """Return the values as the kernels read them: float32, contiguous. Copies only if they are not."""
    return x if x.dtype == torch.float32 and x.is_contiguous() else x.to(torch.float32).contiguous()


def address(array: NDArray[Any]) -> int:
    """Return where an array's memory begins. (`ndarray.ctypes` takes longer.)"""
    begin: int = array.__array_interface__["data"][0]
    return begin
