# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The native kernels: C, compiled at first use. Without a compiler or with SUMWIRE_NATIVE=0, torch is used instead.

The module also has the sums over chunks that norms are made of, by kernels or torch. They add in a fixed order, so that
kernels, torch and all devices give equal bits. A chunk's 1024 terms, padded with zeros, are added by halves: term i of
the second half is added to term i of the first, until one term is left. The chunks of a block are added in the same
way.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import torch
from nativelib.declarations import Native
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SUM32
from torch import Tensor

from sumwire.codec import layout, rotation, seeds
from sumwire.codec.layout import CHUNK_VALUES
from sumwire.codec.tensors import NOT_FINITE
from sumwire.errors import UsageError
from sumwire.native import SWITCH, NativeFolder

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
    "NAIVE_GROUP": layout.GROUP_VALUES,
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
    """Return the kernels for this tensor; None for float64, on devices other than the CPU, and without a compiler."""
    if not x.is_cpu or x.dtype == torch.float64:
        return None
    return _kernels(os.environ.get(SWITCH))


@functools.cache
def _kernels(switch: str | None) -> Native | None:
    """Those of the variable's value, which tests change."""
    return NATIVE.kernels()


def threads() -> int:
    """Return how many threads share a kernel's work: ``SUMWIRE_THREADS``, else as many as torch uses.

    The default is at most 4, and at most half of the rank's share of the cores. Raises UsageError unless the variable
    is a number from 1 to 64.
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
    """Return the values as the kernels read them: float32, contiguous. Copies only if necessary."""
    return x if x.dtype == torch.float32 and x.is_contiguous() else x.to(torch.float32).contiguous()


def address(array: NDArray[Any]) -> int:
    """Return where an array's memory begins. (`ndarray.ctypes` takes longer.)"""
    begin: int = array.__array_interface__["data"][0]
    return begin


# Chunks whose terms stay in cache.
_STEP_CHUNKS: Final = 128
# A tensor's attribute: its version when its sums of squares were found, and the sums.
_KNOWN: Final = "_sumwire_square_sums"
_Float = TypeVar("_Float", np.float32, np.float64)


def square_sums(x: Tensor) -> NDArray[np.float32]:
    """Return sums of squares by chunk, in float32; infinite where they exceed its range."""
    version, known = getattr(x, _KNOWN, (None, None))
    if known is not None and version == x._version:
        sums: NDArray[np.float32] = known
        return sums
    x = x.detach()
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float32).square()).astype(np.float32)
    shared = threads()
    return _in_c(x, lambda *values: native.codec_square_sums(*values, shared), np.float32)


def add(x: Tensor, y: Tensor, total: Tensor) -> Tensor:
    """Write x + y to ``total``, flat and float32, and return it. Its `square_sums` are computed in the same pass, and
    cached with it until an operation changes it.

    Do not change ``total`` in other ways, such as through `Tensor.numpy`, before `square_sums` is called.
    """
    native = kernels(total)
    if native is None or not (_is_plain(x) and _is_plain(y)):
        return torch.add(x.detach(), y.detach(), out=total)
    length = x.numel()
    sums = np.empty(-(-length // CHUNK_VALUES), np.float32)
    native.codec_add_square_sums(x.data_ptr(), y.data_ptr(), length, total.data_ptr(), address(sums), threads())
    # A tensor of inference mode does not count its versions.
    if not total.is_inference():
        setattr(total, _KNOWN, (total._version, sums))
    return total


def _is_plain(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.is_contiguous()


def wide_square_sums(x: Tensor) -> NDArray[np.float64]:
    """Return sums of squares by chunk, in float64."""
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float64).square())
    return _in_c(x, native.codec_wide_square_sums, np.float64)


def magnitude_sums(x: Tensor) -> NDArray[np.float64]:
    """Return sums of magnitudes by chunk, in float64."""
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float64).abs())
    return _in_c(x, native.codec_magnitude_sums, np.float64)


def add_halves(terms: NDArray[_Float]) -> NDArray[_Float]:
    """Return the sum of every row, whose length is a power of two."""
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        terms = terms[:, :half] + terms[:, half:]
    return terms[:, 0]


def total(sums: NDArray[np.float64]) -> float:
    """Return the sum over all chunks; infinity if it exceeds float64."""
    padded = np.zeros((1, 1 << max(len(sums) - 1, 0).bit_length()))
    padded[0, : len(sums)] = sums
    with np.errstate(over="ignore"):
        return float(add_halves(padded)[0])


def _in_c(x: Tensor, function: Callable[..., None], dtype: type[_Float]) -> NDArray[_Float]:
    sums = np.empty(-(-len(x) // CHUNK_VALUES), dtype)
    step = len(sums) if x.dtype == torch.float32 and x.is_contiguous() else _STEP_CHUNKS
    for first in range(0, len(sums), max(step, 1)):
        values = float32(x[first * CHUNK_VALUES : (first + step) * CHUNK_VALUES])
        function(values.data_ptr(), len(values), sums[first:].ctypes.data)
    return sums


def _in_torch(x: Tensor, terms_of: Callable[[Tensor], Tensor]) -> NDArray[np.float64]:
    """Return sums of ``terms_of(values)``, a new tensor, in its precision; float32 sums are given as float64."""
    sums = [np.zeros(0)]
    for first in range(0, len(x), _STEP_CHUNKS * CHUNK_VALUES):
        terms = terms_of(x[first : first + _STEP_CHUNKS * CHUNK_VALUES])
        if len(terms) % CHUNK_VALUES:
            terms = torch.nn.functional.pad(terms, (0, -len(terms) % CHUNK_VALUES))
        halves = terms.view(-1, CHUNK_VALUES)
        while halves.shape[1] > 1:
            half = halves.shape[1] // 2
            halves = halves[:, :half].add_(halves[:, half:])
        sums.append(halves[:, 0].cpu().numpy().astype(np.float64))
    return np.concatenate(sums)
