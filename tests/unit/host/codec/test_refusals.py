# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Settings and tensors that no codec can have: each is refused by value and rule."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from helpers.codec.codecs import CODECS
from numpy.typing import NDArray
from sumwire.codec import tables
from sumwire.codec.base import GradientCodec
from sumwire.codec.errors import CodecError, TableError
from sumwire.codec.sign import EfSignCodec, SsdmCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.thc import ThcCodec
from sumwire.codec.thc_wide import wide_codec
from torch import Tensor

NAN = float("nan")


def thc(block: object = 4096) -> GradientCodec:
    return ThcCodec(tables.for_workers(4), job=1, worker=0, block=block)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, -1, 256, 300, 2.5, NAN, "4", True, None])
def test_numbers_of_workers(workers: object) -> None:
    found = re.escape(repr(workers))
    for make in (
        lambda: tables.for_workers(workers),  # type: ignore[arg-type]
        lambda: wide_codec(workers=workers, job=1, worker=0),  # type: ignore[arg-type]
        lambda: EfSignCodec(workers=workers),  # type: ignore[arg-type]
        lambda: Sum32Codec(workers=workers),  # type: ignore[arg-type]
    ):
        with pytest.raises(CodecError, match=rf"workers ?= ?{found}: must be a whole number in 1"):
            make()


@pytest.mark.parametrize(
    ("bits", "granularity", "p", "text"),
    [
        (9, 30, 1 / 32, "bits=9: must be a whole number in 1..8"),
        (4.5, 30, 1 / 32, "bits=4.5"),
        (True, 1, 1 / 32, "bits=True"),
        (4, 0, 1 / 32, "granularity=0: must be a whole number in 1..4095"),
        (4, 5000, 1 / 32, "granularity=5000"),
        (4, 30.5, 1 / 32, "granularity=30.5"),
        (4, 30, 0, "p=0: must be above 0 and below 1"),
        (4, 30, NAN, "p=nan"),
        (4, 30, "1/32", "p='1/32'"),
    ],
)
def test_tables(bits: int, granularity: int, p: float, text: str) -> None:
    with pytest.raises(TableError, match=text):
        tables.solve(bits, granularity, p)


def test_a_kind_of_table_that_there_is_not() -> None:
    with pytest.raises(TableError, match="kind='best': must be one of auto, uniform"):
        tables.for_workers(4, kind="best")


@pytest.mark.parametrize("block", [0, 512, 3000, -4096, 4096.0, "4096", True])
def test_blocks(block: object) -> None:
    with pytest.raises(CodecError, match=f"block={block!r}: must be a power of two"):
        thc(block)


@pytest.mark.parametrize("momentum", [1, -0.1, NAN, "0.9", True, None])
def test_momenta(momentum: float) -> None:
    with pytest.raises(CodecError, match=f"momentum = {momentum!r}: must be from 0 to below 1"):
        SsdmCodec(job=1, worker=0, momentum=momentum)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize(
    ("x", "text"),
    [
        (torch.zeros(2, 3), r"of shape \(2, 3\): needs a flat one"),
        (torch.tensor(1.0), r"of shape \(\): needs a flat one"),
        (torch.zeros(3, dtype=torch.int32), "torch.int32 tensor"),
        (torch.zeros(3, dtype=torch.complex64), "torch.complex64 tensor"),
        (torch.zeros(3).to_sparse(), "sparse_coo tensor on cpu: needs one that is dense"),
        (torch.zeros(3, device="meta"), "tensor on meta: needs one that is dense and has values"),
        ([1.0, 2.0], "list: needs a tensor"),
    ],
    ids=["matrix", "scalar", "integers", "complex", "sparse", "meta", "list"],
)
def test_tensors(name: str, x: Tensor, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        CODECS[name]().begin(x, 0, 0)


@pytest.mark.parametrize("name", [name for name in CODECS if name.startswith("thc")])
def test_float64_is_not_rotated(name: str) -> None:
    with pytest.raises(CodecError, match="float64"):
        CODECS[name]().begin(torch.zeros(3, dtype=torch.float64), 0, 0)


@pytest.mark.parametrize("name", [name for name in CODECS if name.startswith("thc ")])
@pytest.mark.parametrize("agreed", [np.zeros(2, np.uint32), np.zeros(1, np.int64), np.zeros((1, 1), np.uint32)])
def test_agreed_norms_of_wrong_shape(name: str, agreed: NDArray[np.uint32]) -> None:
    with pytest.raises(CodecError, match="needs uint32"):
        CODECS[name]().begin(torch.ones(1024), 0, 0).encode(agreed)
