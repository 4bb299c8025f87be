# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of ACP-SGD: what each parameter sends in a P step and in a Q step, and which parameters share a buffer; and
the search for the best buffer size. Used by `sync`.

The plan depends on shapes and options only, so all workers have the same.

The best buffer size depends on the model, the link and the processor: each buffer has a fixed cost, and gradients wait
until their buffer is full. So the first steps try several sizes, powers of two of buffers a step, and the workers agree
on the fastest. Each size is timed in a P step and a Q step, and all of them in turns, so that a slow moment of the
machine hits one time of each.
"""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sumwire.errors import UsageError
from sumwire.numeric import is_number, is_whole

# Bytes of uncompressed gradient in a buffer: the default of DistributedDataParallel.
THRESHOLD_BYTES: Final = 25 << 20
# A matrix is compressed if its two factors together are smaller than it by more than this factor.
MIN_COMPRESSION: Final = 2.0
# Numbers of buffers a step that are tried, roughly.
BUFFERS: Final = (1, 2, 4, 8, 16, 32)
# Steps that are not timed, since a program's first steps take longer.
WARM_UP_STEPS: Final = 2
# How often each size is timed in each phase; the least time counts.
ROUNDS: Final = 2
# How much slower than the best size another one can count, 1 being 100 %.
_SLOWER_MAX: Final = 1.0


class Phase(enum.IntEnum):
    """Which factor a step sends."""

    P = 0
    Q = 1


def phase_of(step: int) -> Phase:
    """Return P for steps 0, 2, 4 ... and Q for steps 1, 3, 5 ..."""
    return Phase(step % 2)


@dataclass(frozen=True, slots=True)
class Item:
    """One parameter: a matrix of rows x columns sent with the given rank. Rank 0 means that it is sent whole."""

    shape: tuple[int, ...]
    rank: int
    value_bytes: int

    @property
    def values(self) -> int:
        """Values of the gradient."""
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        """Size of the first dimension."""
        return self.shape[0] if self.shape else 1

    @property
    def columns(self) -> int:
        """Product of all other dimensions."""
        return self.values // self.rows

    def sent(self, phase: Phase) -> int:
        """Return how many values a step of this phase sends: rows x rank for P, columns x rank for Q."""
        if self.rank == 0:
            return self.values
        return self.rank * (self.rows if phase is Phase.P else self.columns)


@dataclass(frozen=True, slots=True)
class Plan:
    """The items in the parameters' order, and for each phase the groups of parameter numbers that share a buffer, in
    sending order."""

    items: tuple[Item, ...]
    threshold_bytes: int
    groups: tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]

    @property
    def dense_bytes(self) -> int:
        """Bytes of all gradients, uncompressed."""
        return sum(item.values * item.value_bytes for item in self.items)

    def sent_bytes(self, phase: Phase) -> int:
        """Return the bytes of everything sent in a step of this phase."""
        return sum(item.sent(phase) * item.value_bytes for item in self.items)

    def scaled_threshold(self, phase: Phase) -> float:
        """Return the threshold for compressed buffers, in bytes."""
        return self.threshold_bytes * self.sent_bytes(phase) / self.dense_bytes


def make_plan(
    shapes: Sequence[tuple[int, ...]],
    rank: int,
    *,
    threshold_bytes: int = THRESHOLD_BYTES,
    min_compression: float = MIN_COMPRESSION,
    value_bytes: int | Sequence[int] = 4,
) -> Plan:
    """Return the plan for parameters of these shapes, none of them empty, in the order of registration.

    A parameter of more than one dimension is a matrix of n rows, its first dimension, and m columns, the others. It is
    sent with r = min(rank, n, m) if (n + m) r min_compression < n m or min_compression is 0, else whole.
    ``value_bytes`` is the size of a value on the wire, one number or one per parameter.

    Raises UsageError for no parameters, a rank below 1, a negative threshold or min_compression.
    """
    if not shapes:
        raise UsageError("parameters = none: a model to synchronise needs at least one that is trained")
    _check(rank, threshold_bytes, min_compression)
    widths = [value_bytes] * len(shapes) if isinstance(value_bytes, int) else value_bytes
    items = tuple(
        Item(tuple(shape), _rank_of(shape, rank, min_compression), width)
        for shape, width in zip(shapes, widths, strict=True)
    )
    return Plan(
        items, threshold_bytes, (_groups(items, Phase.P, threshold_bytes), _groups(items, Phase.Q, threshold_bytes))
    )


def _check(rank: int, threshold_bytes: int, min_compression: float) -> None:
    if not is_whole(rank, 1):
        raise UsageError(f"rank = {rank!r}: must be a whole number, 1 or more")
    if not is_whole(threshold_bytes, 0):
        rule = "must be a whole number of bytes, 0 or more; 0 gives each tensor a buffer"
        raise UsageError(f"threshold_bytes = {threshold_bytes!r}: {rule}")
    if not is_number(min_compression) or min_compression < 0:
        raise UsageError(f"min_compression = {min_compression!r}: must be 0, to compress every matrix, or more")


def _sides(shape: tuple[int, ...]) -> tuple[int, int]:
    return shape[0], math.prod(shape[1:])


def _rank_of(shape: tuple[int, ...], rank: int, min_compression: float) -> int:
    if len(shape) < 2:
        return 0
    rows, columns = _sides(shape)
    used = min(rank, rows, columns)
    worth = (rows + columns) * used * min_compression < rows * columns
    return used if worth or min_compression == 0 else 0


def _groups(items: tuple[Item, ...], phase: Phase, threshold_bytes: int) -> tuple[tuple[int, ...], ...]:
    """Return groups of parameter numbers, the last parameters first, since the backward pass reaches them first.

    A tensor that would take a group over the scaled threshold starts a new one. A single tensor may be larger.
    """
    sizes = [item.sent(phase) * item.value_bytes for item in items]
    # size / threshold_bytes <= sum of sizes / dense, in whole numbers: a total at the threshold is within it.
    dense, limit = sum(item.values * item.value_bytes for item in items), threshold_bytes * sum(sizes)
    groups: list[list[int]] = []
    total = 0
    for number in reversed(range(len(items))):
        if groups and (total + sizes[number]) * dense <= limit:
            groups[-1].append(number)
            total += sizes[number]
        else:
            groups.append([number])
            total = sizes[number]
    return tuple(tuple(group) for group in groups)


def candidates(plan_of: Callable[[int], Plan], dense_bytes: int) -> tuple[Plan, ...]:
    """Return the plans to try, by falling size of their buffers. Each has other groups than the ones before it.

    ``plan_of`` makes the plan for a threshold in bytes; ``dense_bytes`` is the size of all gradients, uncompressed.
    """
    plans: list[Plan] = []
    for buffers in BUFFERS:
        plan = plan_of(-(-dense_bytes // buffers))
        if all(plan.groups != other.groups for other in plans):
            plans.append(plan)
    return tuple(plans)


class BufferSearch:
    """Chooses the plan of the next step, and keeps the times of the steps so far.

    All workers make the same steps, so all try the same plans at the same time. ``clock`` returns seconds.
    """

    def __init__(self, plans: Sequence[Plan], clock: Callable[[], float] = time.perf_counter) -> None:
        self._plans = tuple(plans)
        self.clock = clock
        self._made = 0
        self._began: float | None = None
        self._seconds = [[math.inf] * len(Phase) for _ in self._plans]

    @property
    def plan(self) -> Plan:
        """The plan of the next step."""
        return self._plans[self._number()]

    @property
    def steps(self) -> int:
        """The number of steps of the whole search; 0 if there is nothing to choose."""
        return WARM_UP_STEPS + ROUNDS * len(Phase) * len(self._plans) if len(self._plans) > 1 else 0

    @property
    def last(self) -> bool:
        """Whether the step that is being made is the last one of the search."""
        return self._made + 1 == self.steps

    def slower(self, phase: Phase) -> list[float]:
        """Return by how much each plan's steps, with the one that ends now, are slower than the best plan's.

        0.1 is 10 % slower, and 1 is 100 % or more. What workers agree on is the mean of these numbers.
        """
        seconds = [list(one) for one in self._seconds]
        self._note(seconds, phase)
        times = [sum(one) for one in seconds]
        best = min(times)
        return [min(one / best - 1.0, _SLOWER_MAX) if best > 0 else 0.0 for one in times]

    def chosen(self, slower: Sequence[float]) -> Plan:
        """Return the fastest plan by the workers' mean of `slower`; among equals the one with the largest buffers."""
        return self._plans[min(range(len(self._plans)), key=lambda number: (slower[number], number))]

    def made(self, phase: Phase) -> None:
        """Note that a step of this phase has ended. Its time counts from the end of the step before it."""
        self._note(self._seconds, phase)
        self._made += 1
        self._began = self.clock()

    def repeated(self) -> None:
        """Note that a step has failed and is repeated: its time counts from now on."""
        self._began = self.clock()

    def _note(self, seconds: list[list[float]], phase: Phase) -> None:
        if self._made >= WARM_UP_STEPS and self._began is not None:
            mine = seconds[self._number()]
            mine[phase] = min(mine[phase], self.clock() - self._began)

    def _number(self) -> int:
        """A plan has two steps, one for each phase, and is then followed by the next one."""
        return max(self._made - WARM_UP_STEPS, 0) // len(Phase) % len(self._plans)
