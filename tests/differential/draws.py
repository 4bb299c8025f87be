# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random choices for all parts of the program generator, from one seed; random key matches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from differential.reference import match_of
from softswitch.program import ir
from softswitch.runtime.entries import KeyMatch

T = TypeVar("T")

# Widths at which an engine changes how it keeps a number, and the widths next to them.
EDGE_WIDTHS = (
    *(1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 127, 128, 129, 191, 192, 255, 256, 257, 320, 511, 512, 513),
    *(640, 1000, 1023, 1024, 1025, 1535, 2047, 2048),
)


def full(width: int) -> int:
    return (1 << width) - 1


class Draws:
    """``widest``: the widest field, in bits; it limits what a program costs to compile.

    ``focus``: a construct to draw more often, so that rare combinations occur within few programs.
    """

    def __init__(self, seed: int, widest: int = 2048, focus: str = "") -> None:
        self.random = random.Random(seed)
        self.widest = widest
        self.focus = focus

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def one(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def some(self, choices: Sequence[T], least: int, most: int) -> list[T]:
        """Different items in random order, fewer if there are not enough."""
        count = min(self.random.randint(least, most), len(choices))
        return self.random.sample(choices, count)

    def count(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def width(self) -> int:
        """A width: mostly small, as in real headers, and often an edge."""
        if self.chance(0.5):
            return self.random.randint(1, min(40, self.widest))
        if self.chance(0.7):
            return self.one([width for width in EDGE_WIDTHS if width <= self.widest])
        return self.random.randint(1, self.widest)

    def number(self, width: int) -> int:
        """A number in 0..2^width - 1: an end, one of a few repeated values (so that packets hit entries), or any."""
        top = full(width)
        common = (0, 1, 2, 3, 5, top, top >> 1, (top >> 1) + 1, 0x5A5A5A5A5A5A5A5A5A & top, top // 3)
        kind = self.random.random()
        if kind < 0.6:
            return self.one(common) & top
        if kind < 0.75:
            return (1 << self.random.randrange(width)) - self.random.randrange(2)
        return self.random.getrandbits(width)

    def signed(self, width: int) -> int:
        value = self.number(width)
        return value - (1 << width) if value >> (width - 1) else value


def make_pattern(draws: Draws, key: ir.Key) -> ir.Pattern:
    top = full(key.width)
    match key.kind:
        case ir.MatchKind.EXACT:
            return ir.Pattern(draws.number(key.width), top)
        case ir.MatchKind.LPM:
            length = draws.one([0, key.width, draws.count(0, key.width)])
            mask = top ^ (top >> length)
            return ir.Pattern(draws.number(key.width) & mask, mask, length)
        case ir.MatchKind.TERNARY:
            mask = draws.one([0, top, draws.number(key.width), 1])
            return ir.Pattern(draws.number(key.width) & mask, mask)
        case ir.MatchKind.RANGE:
            low, high = sorted((draws.number(key.width), draws.number(key.width)))
            return ir.Pattern(*draws.one([(0, top), (low, high), (low, low)]))


def _pattern_near(draws: Draws, key: ir.Key, value: int) -> ir.Pattern:
    pattern = make_pattern(draws, key)
    if key.kind is ir.MatchKind.EXACT:
        return ir.Pattern(value, pattern.mask)
    if key.kind is ir.MatchKind.RANGE:
        return ir.Pattern(max(0, value - draws.count(0, 3)), min(full(key.width), value + draws.count(0, 3)))
    return ir.Pattern(value & pattern.mask, pattern.mask, pattern.prefix_len)


def make_match(draws: Draws, key: ir.Key, near: int | None = None) -> KeyMatch:
    """A random match. ``near``: a value that it may be made to match."""
    pattern = make_pattern(draws, key) if near is None else _pattern_near(draws, key, near)
    return match_of(pattern, key)
