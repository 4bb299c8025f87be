# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random key matches, of constant entries and of entries that the control plane writes."""

from __future__ import annotations

from differential.draws import Draws, full
from softswitch.program import ir
from softswitch.runtime.entries import Exact, KeyMatch, Lpm, Range, Ternary


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
    match key.kind:
        case ir.MatchKind.EXACT:
            return Exact(pattern.value)
        case ir.MatchKind.LPM:
            return Lpm(pattern.value, pattern.prefix_len or 0)
        case ir.MatchKind.TERNARY:
            return Ternary(pattern.value, pattern.mask)
        case ir.MatchKind.RANGE:
            return Range(pattern.value, pattern.mask)
