# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The codecs that the suites on cost and error compare, and the switch's aggregation of their words, in numpy."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire import systems
from sumwire.codec import tables
from sumwire.codec.base import GradientCodec
from sumwire.codec.oracles import sum_words
from sumwire.codec.sign import pack_signs, unpack_signs
from sumwire.codec.sum32 import pack_elements, unpack_elements
from sumwire.codec.thc import ThcCodec
from sumwire.systems.spec import SWITCH, Member
from sumwire_protocol.ops import SUM32, VOTE
from sumwire_protocol.tables import AUTO, UNIFORM
from torch import Tensor

Words = NDArray[np.uint8]
_JOB: Final = 1

# A codec of CODECS -> the system of the library that it is from.
CODECS: Final[Mapping[str, str]] = {
    **{name: name for name in ("thc", "thc-uniform", "sum32", "ef-sign", "ssdm", "vote")},
    "sign": "marsit",
}


@functools.cache
def _table(kind: str | None, workers: int) -> tables.ThcTable | None:
    """THC's table of a job with this many workers. `kind`: of `SystemSpec.table`."""
    return None if kind is None else tables.for_workers(workers, kind=UNIFORM if kind == UNIFORM else AUTO)


def make_codec(name: str, worker: int, workers: int) -> GradientCodec:
    """A codec of CODECS for one worker of a job."""
    spec = systems.TABLE[CODECS[name]]
    make = spec.routes[SWITCH].codec
    assert make is not None
    return make(Member(_JOB, worker, workers, _table(spec.table, workers)))


def aggregate(codec: GradientCodec, contributions: Sequence[Words], draws: np.random.Generator) -> Words:
    """The switch's result for the workers' words, each of shape (chunks, words_up, 128)."""
    if isinstance(codec, ThcCodec):
        return sum_words(codec.table, contributions)
    if codec.info.op == SUM32.code:
        length = contributions[0].size // 4
        total = sum(unpack_elements(words, length).astype(np.int64) for words in contributions)
        return pack_elements(np.asarray(total).astype(np.int32))
    count = contributions[0].size * 8
    signs = np.stack([unpack_signs(words, count) for words in contributions])
    if codec.info.op == VOTE.code:
        merged = 2 * signs.sum(axis=0) >= len(signs)
    else:
        merged = np.take_along_axis(signs, draws.integers(len(signs), size=(1, count)), axis=0)[0]
    return pack_signs(merged, codec.info.words_down)


def round_trip(name: str, gradients: Sequence[Tensor], sequence: int = 0) -> Tensor:
    """The workers' aggregate as every worker decodes it, with a codec of CODECS and without a network."""
    workers = len(gradients)
    codecs = [make_codec(name, worker, workers) for worker in range(workers)]
    rounds = [codec.begin(x, sequence, 0) for codec, x in zip(codecs, gradients, strict=True)]
    agreed = np.maximum.reduce([round_.preliminary() for round_ in rounds])
    words = [round_.encode(agreed) for round_ in rounds]
    summed = aggregate(codecs[0], words, np.random.default_rng(sequence))
    return rounds[0].decode(summed, np.full(len(summed), workers)).to(torch.float32)
