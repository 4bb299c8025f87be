# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Indices and votes as lanes of SUM32: the sums are what the switch's own ops would give."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sumwire.blind.masks import MaskedPackets, TableLanes, VoteLanes
from sumwire.codec.layout import pack_index_planes, unpack_sum_planes
from sumwire.codec.tables import PUBLISHED_TABLE


@pytest.fixture(params=["1", "0"], ids=["C", "numpy"])
def native(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMWIRE_NATIVE", request.param)


def summed(lanes: MaskedPackets, words: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """The words down for those of the workers up, summed as elements of 32 bits."""
    elements = np.zeros((len(words[0]), 8, 32), np.uint32)
    for each in words:
        # As in a packet: other bytes between the chunks.
        out = np.empty((len(each), 24 + 1024), np.uint8)[:, 24:].reshape(len(each), 8, 128)
        lanes.up(each, out)
        elements += out.view(">u4").astype(np.uint32)
    return lanes.down(elements.astype(">u4").view(np.uint8), len(words))


@pytest.mark.parametrize("workers", [2, 8])
def test_table_values(native: None, workers: int) -> None:
    indices = np.random.default_rng(workers).integers(0, 16, (workers, 5, 1024), np.uint8)
    # The largest sum of all.
    indices[:, 0, :9] = 15
    down = summed(TableLanes(PUBLISHED_TABLE), [pack_index_planes(own) for own in indices])
    assert np.array_equal(unpack_sum_planes(down), np.array(PUBLISHED_TABLE)[indices].sum(axis=0))


@pytest.mark.parametrize("workers", [2, 3, 15])
def test_votes(workers: int) -> None:
    """A tie is plus."""
    plus = np.random.default_rng(workers).integers(0, 2, (workers, 3, 2048), np.uint8)
    plus[:, 0, :5] = 1
    down = summed(VoteLanes(), [np.packbits(own, axis=1).reshape(3, 2, 128) for own in plus])
    assert np.array_equal(np.unpackbits(down.reshape(3, -1), axis=1), plus.sum(axis=0) * 2 >= workers)
