# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Known errors of THC, and how to measure them. A correct codec meets every row.

Expected values are those of a full-length rotation of 2**20 values with the published table, without error feedback:
rounding .01307 + clipping .00727 of a gradient's energy; over identical workers only the rounding part averages out.
Correlated rounding leaves .01307 - .00606 of independent gradients, where .00606 is the variance of a number's expected
error over the gradients, which an even number of workers has in equal and opposite parts. It leaves almost no error of
8 identical gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol.tables import DEFAULT_BITS
from torch import Tensor

from sumwire.codec import layout, tables
from sumwire.codec.base import CodecRound
from sumwire.codec.rotation import rotate
from sumwire.codec.seeds import SignStream
from sumwire.codec.tables import PUBLISHED_GRANULARITY, PUBLISHED_P, PUBLISHED_TABLE
from sumwire.codec.thc import ThcCodec

VALUES: Final = 1 << 20
TOLERANCE: Final = 0.03


def sum_words(table: tables.ThcTable, contributions: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Return the sum planes (chunks, 8, 128) that a switch computes from the workers' index planes (chunks, 4, 128)."""
    # Planes a table does not use are zero, but another worker's bits are not trusted to be.
    lookup = np.zeros(2**layout.INDEX_PLANES, np.int64)
    lookup[: len(table.values)] = table.values
    total = sum(lookup[layout.unpack_index_planes(words)] for words in contributions)
    return layout.pack_index_planes(np.asarray(total).astype(np.uint8), layout.SUM_PLANES)


def codecs(
    table: tables.ThcTable,
    workers: int,
    block: int | None = None,
    *,
    correlated: bool = True,
    kind: type[ThcCodec] = ThcCodec,
) -> list[ThcCodec]:
    """Return the codecs of workers 0, 1, ... of one job."""
    return [kind(table, job=1, worker=worker, block=block, correlated=correlated) for worker in range(workers)]


def loopback(workers: Sequence[ThcCodec], gradients: Sequence[Tensor], sequence: int = 0) -> Tensor:
    """Return the mean of the workers' gradients by THC, without a network."""
    rounds = [codec.begin(x, sequence, bucket=0) for codec, x in zip(workers, gradients, strict=True)]
    return mean_of(rounds, workers[0].table)


def mean_of(rounds: Sequence[CodecRound], table: tables.ThcTable) -> Tensor:
    """Return the mean that the workers' rounds get from a switch with this table."""
    agreed = np.maximum.reduce([one.preliminary() for one in rounds])
    summed = sum_words(table, [one.encode(agreed) for one in rounds])
    return rounds[0].decode(summed, np.full(len(summed), len(rounds)))


def nmse(estimate: Tensor, truth: Tensor) -> float:
    """Return the squared error over the squared length of the truth."""
    return float((estimate - truth).double().square().sum() / truth.double().square().sum())


def layered_gradient(values: int, sigma: float, generator: torch.Generator, segment: int = 4096) -> Tensor:
    """Return Gaussian values whose segments are scaled by lognormal(sigma) factors, as the layers of a network are."""
    x = torch.randn(values, generator=generator, dtype=torch.float32, device="cpu")
    factors = torch.exp(
        sigma * torch.randn(-(-values // segment), generator=generator, dtype=torch.float32, device="cpu")
    )
    return x * factors.repeat_interleave(segment)[:values]


def clipped_fraction(table: tables.ThcTable, x: Tensor) -> float:
    """Return the fraction of x's rotated coordinates beyond the table's threshold; x's length is a power of two."""
    signs = SignStream.of(1, 0, 0, x.device).signs(0, 1, x.numel())
    scaled = rotate(x[None], signs) * (math.sqrt(x.numel()) / torch.linalg.vector_norm(x))
    return float((scaled.abs() > table.threshold).float().mean())


def oracle_rows(values: int = VALUES, seed: int = 1) -> list[tuple[str, float, float]]:
    """Return (check, measured, expected) for every oracle; each must be met within the relative TOLERANCE."""
    table = tables.solve(DEFAULT_BITS, PUBLISHED_GRANULARITY, PUBLISHED_P)
    generator = torch.Generator().manual_seed(seed)
    gaussian = [torch.randn(values, generator=generator, dtype=torch.float32, device="cpu") for _ in range(4)]
    layered = layered_gradient(values, 1.0, generator)
    mean = torch.stack(gaussian).mean(dim=0)
    of_four = loopback(codecs(table, 4, correlated=False), gaussian)
    alone, four = codecs(table, 1), codecs(table, 4)
    of_equals = [loopback(codecs(table, 8, correlated=one), [gaussian[0]] * 8) for one in (False, True)]
    own_energy = nmse(of_four, mean) * float(mean.square().sum() / gaussian[0].square().sum())
    matching = sum(a == b for a, b in zip(table.values, PUBLISHED_TABLE, strict=True))
    return [
        ("published table, values met", float(matching), float(len(PUBLISHED_TABLE))),
        ("table MSE", table.mse, 1.307459e-2),
        ("NMSE, 1 worker, Gaussian", nmse(loopback(alone, gaussian[:1]), gaussian[0]), 0.0203),
        ("NMSE, 1 worker, layered lognormal(1)", nmse(loopback(alone, [layered]), layered), 0.0203),
        ("NMSE, 8 identical gradients", nmse(of_equals[0], gaussian[0]), 0.0089),
        ("NMSE, 8 identical gradients, correlated rounding", nmse(of_equals[1], gaussian[0]), 0.0074),
        ("NMSE, 4 independent gradients, against their mean", nmse(of_four, mean), 0.0203),
        ("NMSE, 4 independent gradients, correlated rounding", nmse(loopback(four, gaussian), mean), 0.0143),
        ("NMSE, 4 independent gradients, against one's energy", own_energy, 0.0051),
        ("clipped share", clipped_fraction(table, gaussian[0]), PUBLISHED_P),
    ]
