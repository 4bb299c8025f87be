# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Members of parser value sets, as the engines compare them: a value and a mask for each field of a select's key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from softswitch.errors import InvalidEntryError, TableFullError
from softswitch.program import ir
from softswitch.program.limits import SET_PATTERNS
from softswitch.runtime.entries import Exact, KeyMatch, Lpm, Range, Ternary
from softswitch.runtime.tables import prefix_mask

Pattern = tuple[tuple[int, int], ...]


def patterns_of(declared: ir.ValueSet, members: Sequence[tuple[int | KeyMatch, ...]]) -> list[Pattern]:
    """Each member of ``declared`` as one pattern, or, with ranges, as many prefixes as they take.

    Raises InvalidEntryError for a member that does not fit, TableFullError for too many.
    """
    if len(members) > declared.size:
        raise TableFullError(f"value set {declared.name}: {len(members)} members, it takes {declared.size}")
    made: dict[Pattern, None] = {}
    for member in members:
        if len(member) != len(declared.widths):
            raise _unfit(declared, member)
        fields = [_field(declared, member, *pair) for pair in zip(member, declared.widths, strict=True)]
        for pattern in product(*fields):
            made[pattern] = None
            if len(made) > SET_PATTERNS:
                rule = f"its members are more than {SET_PATTERNS} values with masks"
                raise TableFullError(f"value set {declared.name}: {rule}; give ranges that are prefixes")
    return list(made)


def _field(
    declared: ir.ValueSet, member: tuple[int | KeyMatch, ...], match: int | KeyMatch, width: int
) -> list[tuple[int, int]]:
    full = (1 << width) - 1
    match match:
        case int(value) | Exact(value):
            found = [(value, full)]
        case Lpm(value, length) if 0 <= length <= width:
            found = [(value, prefix_mask(match, width))]
        case Ternary(value, mask):
            found = [(value, mask)]
        case Range(low, high) if 0 <= low <= high <= full:
            found = list(_prefixes(low, high, width))
        case _:
            raise _unfit(declared, member)
    for value, mask in found:
        if not 0 <= value <= full or not 0 <= mask <= full or value & ~mask:
            raise _unfit(declared, member)
    return found


def _unfit(declared: ir.ValueSet, member: object) -> InvalidEntryError:
    return InvalidEntryError(f"value set {declared.name}: {member} does not fit widths {declared.widths}")


def _prefixes(low: int, high: int, width: int) -> Iterator[tuple[int, int]]:
    """The fewest prefixes that hold the numbers from ``low`` to ``high``, and no others."""
    full = (1 << width) - 1
    while low <= high:
        bits = min((low & -low).bit_length() - 1 if low else width, (high - low + 1).bit_length() - 1)
        yield low, full ^ ((1 << bits) - 1)
        low += 1 << bits
