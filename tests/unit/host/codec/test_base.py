# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A codec's footprint and the oracles."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from helpers.codec.codecs import CODECS
from numpy.typing import NDArray
from sumwire import codec
from sumwire.codec.base import CodecInfo, staged
from sumwire.codec.errors import CodecError
from sumwire.codec.oracles import TOLERANCE, oracle_rows, sum_words
from sumwire.codec.tables import solve
from sumwire.codec.thc import ThcCodec


@pytest.mark.parametrize(
    ("words_up", "words_down", "chunk_values", "rule"),
    [(8, 9, 256, "words_down=9"), (0, 8, 256, "words_up=0"), (8, 8, 0, "chunk_values=0")],
)
def test_info_must_fit_a_slot(words_up: int, words_down: int, chunk_values: int, rule: str) -> None:
    CodecInfo("whole", 3, 8, 8, 256)
    with pytest.raises(CodecError, match=rule):
        CodecInfo("other", 3, words_up, words_down, chunk_values)


def test_info_is_what_goes_over_the_wire() -> None:
    one = ThcCodec(solve(4, 30, 1 / 32), job=1, worker=0).begin(torch.ones(3000), 0, 0)
    words = one.encode(one.norms())
    info = ThcCodec.info
    assert words.shape == (-(-3000 // info.chunk_values), info.words_up, 128)
    result: NDArray[np.uint8] = sum_words(solve(4, 30, 1 / 32), [words])
    assert result.shape[1] == info.words_down
    assert (info.op, info.preliminary_op) == (1, 2)


def test_public_names_exist() -> None:
    for name in dir(codec):
        assert getattr(codec, name) is not None
    assert codec.ThcCodec is importlib.import_module("sumwire.codec.thc").ThcCodec
    with pytest.raises(AttributeError, match="nothing"):
        _ = codec.nothing


def test_oracles_hold() -> None:
    rows = oracle_rows()
    assert len(rows) == len({name for name, _, _ in rows}) == 10
    for name, measured, expected in rows:
        assert measured == pytest.approx(expected, rel=TOLERANCE), name


@pytest.mark.parametrize("name", CODECS)
def test_codecs_of_many_operations_want_tensors_of_gpus_staged(name: str) -> None:
    """Signs are one comparison a value, which a GPU does on the way. A processor keeps its tensors."""
    codec, x = CODECS[name](), torch.ones(100)
    assert staged(codec, x) is x
    assert codec.staged == name.startswith(("thc", "sum32"))
