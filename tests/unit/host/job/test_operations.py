# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Results that are cached, and tensors in parts."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sumwire.job.operations import CachedResult, ResultCache, carry, part_chunks
from sumwire.transport.stats import JobStats


def of(tensor: torch.Tensor) -> CachedResult:
    return CachedResult(tensor.nbytes, lambda: tensor)


def filled(*, most: int | None = None, most_bytes: int = 1000) -> ResultCache:
    kept = ResultCache(most=most, most_bytes=most_bytes)
    for operation in range(3, 8):
        kept.add(operation, of(torch.full((25,), float(operation))))
    return kept


def test_results_by_operation() -> None:
    kept = filled()
    assert (kept.first, len(kept)) == (3, 5)
    assert [float(kept.result(operation).tensor()[0]) for operation in range(3, 8)] == [3, 4, 5, 6, 7]


def test_what_all_ranks_have_is_dropped() -> None:
    kept = filled()
    kept.trim(6)
    assert (kept.first, len(kept)) == (6, 2)
    kept.trim(20)
    assert len(kept) == 0
    kept.add(20, of(torch.zeros(1)))
    assert kept.first == 20


def test_limits() -> None:
    assert (filled(most=1).first, len(filled(most=1))) == (7, 1)
    assert filled(most_bytes=250).first == 6
    assert len(filled(most_bytes=1)) == 1, "never the latest"


class Wire:
    """An exchange whose results come in order, some at every look; never of a chunk that is not ready."""

    def __init__(self, chunks: int, seed: int) -> None:
        self.chunks = chunks
        self.filled = self.done = 0
        self.blocked = 0
        self._rng = random.Random(seed)

    def ready(self, upto: int) -> None:
        assert upto > self.filled
        self.filled = upto

    def progress(self, *, block: bool, upto: int = 0) -> int:
        if block:
            assert self.done < upto <= self.chunks, "what it waits for is there, or never will be"
            assert self.filled == self.chunks, "it waits while there is something to encode"
            self.blocked += 1
        self.done += min(self.filled - self.done, self._rng.randrange(int(block), 9))
        return self.done


@given(chunks=st.integers(0, 200), step=st.integers(1, 60), seed=st.integers(0, 1000))
def test_every_chunk_goes_through_once(chunks: int, step: int, seed: int) -> None:
    wire: Any = Wire(chunks, seed)
    parts: dict[str, list[tuple[int, int]]] = {"encoded": [], "decoded": []}

    def encode(first: int, last: int) -> None:
        parts["encoded"].append((first, last))

    def decode(first: int, last: int) -> None:
        assert last <= wire.done
        parts["decoded"].append((first, last))

    carry(wire, encode, decode, step=step, stats=JobStats())
    whole = [(first, min(first + step, chunks)) for first in range(0, chunks, step)]
    assert parts == {"encoded": whole, "decoded": whole}


def test_results_are_decoded_before_all_is_sent() -> None:
    """The window would else have to hold the whole tensor."""
    order: list[str] = []
    wire: Any = Wire(400, 1)
    carry(wire, lambda *_: order.append("e"), lambda *_: order.append("d"), step=4, stats=JobStats())
    assert "de" in "".join(order)


@pytest.mark.parametrize(
    ("chunks", "chunk_values", "grain", "part"),
    [
        (100, 1024, 4, 128),
        (2000, 1024, 1, 250),
        (2000, 1024, 4, 248),
        (10_000, 1024, 4, 512),
        (10_000, 8192, 1, 128),
        (10_000, 256, 3, 1248),
        (10_000, 1024, 5000, 5000),
    ],
)
def test_a_part_is_whole_grains(chunks: int, chunk_values: int, grain: int, part: int) -> None:
    """An eighth of the tensor, 131,072 to 524,288 values but at least 128 chunks, or one grain."""
    assert part_chunks(chunks, chunk_values, grain) == part
