# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of a tensor: each chunk is encoded once and decoded once, when its result is there, and nothing waits idly."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sumwire.job.parts import carry, part_chunks
from sumwire.transport.stats import JobStats


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
