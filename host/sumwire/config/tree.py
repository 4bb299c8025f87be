# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The tree of a job's software aggregators, as a job file has it, and what it must be like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from sumwire_protocol.ops import OPS

from sumwire.config.job_config import Address, Branch

# Most workers below a lower aggregator, by op: a partial result has room for so many.
_BELOW_MAX: Final[Mapping[str, int]] = {op.name: op.workers_below_max for op in OPS}


class TreeError(ValueError):
    """The rule that a tree breaks. ``value``: what breaks it."""

    def __init__(self, value: object, rule: str) -> None:
        super().__init__(rule)
        self.value, self.rule = value, rule


def workers_below(tree: Sequence[Branch], addresses: Sequence[Address]) -> Counter[str]:
    """How many workers each aggregator stands for: its own, and those of the aggregators below it."""
    above = {one.aggregator: one.above for one in tree}
    found: Counter[str] = Counter()
    for address in addresses:
        at: str | None = address.aggregator
        while at is not None:
            found[at] += 1
            at = above.get(at)
    return found


def check_tree(tree: Sequence[Branch], addresses: Sequence[Address], ops: Sequence[str]) -> None:
    """Raises TreeError if the aggregators are no tree with one root, in which every worker has its place."""
    above = {one.aggregator: one.above for one in tree}
    if len(above) != len(tree):
        raise TreeError([one.aggregator for one in tree], "must name each lower aggregator once, with the one above it")
    roots = {_root(aggregator, above) for aggregator in (*above, *(address.aggregator for address in addresses))}
    if len(roots) > 1:
        raise TreeError(sorted(roots), "must lead every aggregator of `addresses` up to one and the same root")
    seats = [(one.above, one.seat) for one in tree] + [(one.aggregator, one.seat) for one in addresses]
    twice = next((seat for seat in seats if seats.count(seat) > 1), None)
    if twice is not None:
        raise TreeError(twice, "must give each worker and lower aggregator a seat of its own at the one above it")
    workers = workers_below(tree, addresses)
    for aggregator in above:
        _check_below(aggregator, workers[aggregator], ops)


def _root(aggregator: str, above: Mapping[str, str]) -> str:
    way = [aggregator]
    while way[-1] in above:
        way.append(above[way[-1]])
        if len(way) > len(above) + 1:
            raise TreeError(aggregator, "must lead up to a root, not back to an aggregator on the way")
    return way[-1]


def _check_below(aggregator: str, workers: int, ops: Sequence[str]) -> None:
    if not workers:
        raise TreeError(aggregator, "must have workers below each lower aggregator")
    for op in ops:
        if workers > _BELOW_MAX[op]:
            rule = f"{op} is for at most {_BELOW_MAX[op]} workers below a lower aggregator, this one has {workers}"
            raise TreeError(aggregator, rule)
