# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets that passed one point of capture and not the next one on their way: the link between has lost them.

The way from one address to another are the points at which packets between them were seen, in the order in which they
were seen there. So losses are known where a capture has both ends of a link, with one clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from sumwire.see.packets import Ends, Seen

_Copies = dict[str, list[Seen]]


def losses(packets: Iterable[Seen]) -> Iterator[Seen]:
    """The packets that were lost, as they were seen at the last point that they passed."""
    by_ends: dict[Ends, dict[object, _Copies]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for seen in packets:
        by_ends[seen.ends][seen.identity][seen.point].append(seen)
    for copies in by_ends.values():
        way = _way(copies.values())
        for each in copies.values():
            for here, there in pairwise(way):
                yield from _unmatched(each.get(here, ()), each.get(there, ()))


def _way(copies: Iterable[_Copies]) -> list[str]:
    """The points in the order of the way: each is behind those that most packets have passed before it."""
    ranks: dict[str, list[int]] = defaultdict(list)
    for each in copies:
        points = sorted(each, key=lambda point: each[point][0].at_s)
        for rank, point in enumerate(points):
            ranks[point].append(rank)
    return sorted(ranks, key=lambda point: sum(ranks[point]) / len(ranks[point]))


def _unmatched(here: Sequence[Seen], there: Sequence[Seen]) -> list[Seen]:
    """Copies that have no counterpart there: each one there is the latest here that can be it."""
    left = list(here)
    for seen in there:
        at = bisect_right(left, seen.at_s, key=lambda one: one.at_s)
        if left:
            del left[max(at - 1, 0)]
    return left
