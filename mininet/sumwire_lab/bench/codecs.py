# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The codecs that the suites of cost and error compare, and what a switch makes of their words, in numpy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire.codec import tables
from sumwire.codec.base import GradientCodec
from sumwire.codec.oracles import DEFAULT_BITS, DEFAULT_P, sum_words
from sumwire.codec.sign import EfSignCodec, SignCodec, SsdmCodec, VoteCodec, pack_signs, unpack_signs
from sumwire.codec.sum32 import Sum32Codec, pack_lanes, unpack_lanes
from sumwire.codec.thc import ThcCodec
from torch import Tensor

from sumwire_lab.network import control_plane

Words = NDArray[np.uint8]
_JOB: Final = 1


@functools.cache
def _table(workers: int) -> tables.ThcTable:
    """That of a job of the lab with as many workers."""
    values = tuple(control_plane.thc_table(workers))
    return tables.ThcTable(values, (len(values) - 1).bit_length(), values[-1], DEFAULT_P)


def _thc(worker: int, workers: int) -> GradientCodec:
    return ThcCodec(_table(workers), job=_JOB, worker=worker)


def _thc_uniform(worker: int, workers: int) -> GradientCodec:
    return ThcCodec(tables.uniform(DEFAULT_BITS, DEFAULT_P), job=_JOB, worker=worker)


CODECS: Final[Mapping[str, Callable[[int, int], GradientCodec]]] = {
    "thc": _thc,
    "thc-uniform": _thc_uniform,
    "sum32": lambda worker, workers: Sum32Codec(workers=workers),
    "ef-sign": lambda worker, workers: EfSignCodec(worker=worker, workers=workers),
    "ssdm": lambda worker, workers: SsdmCodec(job=_JOB, worker=worker),
    "vote": lambda worker, workers: VoteCodec(),
    "sign": lambda worker, workers: SignCodec(),
}
"""Name -> (worker, workers) -> codec of that worker."""


def aggregate(codec: GradientCodec, contributions: Sequence[Words], draws: np.random.Generator) -> Words:
    """What the switch sends back for the workers' words, shape (chunks, words_up, 128) each."""
    if isinstance(codec, ThcCodec):
        return sum_words(codec.table, contributions)
    if isinstance(codec, Sum32Codec):
        length = contributions[0].size // 4
        total = sum(unpack_lanes(words, length).astype(np.int64) for words in contributions)
        return pack_lanes(np.asarray(total).astype(np.int32))
    count = contributions[0].size * 8
    signs = np.stack([unpack_signs(words, count) for words in contributions])
    if isinstance(codec, VoteCodec):
        merged = 2 * signs.sum(axis=0) >= len(signs)
    else:
        merged = np.take_along_axis(signs, draws.integers(len(signs), size=(1, count)), axis=0)[0]
    return pack_signs(merged, codec.info.words_down)


def round_trip(name: str, gradients: Sequence[Tensor], sequence: int = 0) -> Tensor:
    """The workers' aggregate by a codec of CODECS without a network, as every worker gets it."""
    workers = len(gradients)
    codecs = [CODECS[name](worker, workers) for worker in range(workers)]
    rounds = [codec.begin(x, sequence, 0) for codec, x in zip(codecs, gradients, strict=True)]
    agreed = np.maximum.reduce([round_.preliminary() for round_ in rounds])
    words = [round_.encode(agreed) for round_ in rounds]
    summed = aggregate(codecs[0], words, np.random.default_rng(sequence))
    return rounds[0].decode(summed, np.full(len(summed), workers)).to(torch.float32)
