# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tags of packets: a priority, and a drop class that says which packets to lose first.

Both are in the DSCP, six bits: priority (3 bits, 7 is served first), drop class (2 bits, 3 is lost first), a zero.
The ECN bits follow from the class. Class 0 is protected: an ECN-capable packet (ECT(0)), which a congested switch marks
and forwards. The other classes are not ECN-capable and are dropped. Untagged traffic has zeros: it is served last, and
may be dropped.

A policy decides the tags. It is any object with :class:`Policy`'s methods; the default is :class:`LayerMagnitude`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.errors import ConfigError, UsageError

PRIORITIES: Final = p4.PRIORITIES
CLASSES: Final = p4.DROP_CLASSES
# Class 0 is protected, the last one is lost first.
PROTECTED: Final = 0
LANES_MAX: Final = PRIORITIES
DEFAULT_PRIORITIES: Final = (7, 5, 3, 1)
# Shares of a tensor's chunks in classes 0, 1, 2 and 3, for the first layer and for the last: docs/dlcp.md.
FRONT_SHARES: Final = (0.4, 0.2, 0.1, 0.3)
BACK_SHARES: Final = (0.7, 0.1, 0.1, 0.1)

# Magnitudes of a tensor's chunks, float32 of shape (chunks,) -> their TOS bytes, uint8 of that shape.
Tagger = Callable[[NDArray[np.float32]], NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class Tag:
    """Priority 0..7 (7 the most urgent), drop class 0..3 (0 protected). Raises ConfigError for others."""

    priority: int
    drop_class: int = PROTECTED

    def __post_init__(self) -> None:
        _check_below("priority", self.priority, PRIORITIES)
        _check_below("drop_class", self.drop_class, CLASSES)

    @property
    def dscp(self) -> int:
        """The six bits of the differentiated services code point."""
        return self.priority << 3 | self.drop_class << 1

    @property
    def ecn(self) -> int:
        """The two ECN bits, which tell a congested switch whether to mark the packet or that it may drop it."""
        return p4.ECN_ECT if self.drop_class == PROTECTED else p4.ECN_NOT_ECT

    @property
    def tos(self) -> int:
        """The TOS byte of the IPv4 header, which holds DSCP and ECN, as IP_TOS takes it."""
        return self.dscp << 2 | self.ecn

    @classmethod
    def of(cls, tos: int) -> Tag:
        """Return the tag in a TOS byte. Its ECN bits are not read: a switch may have marked them."""
        _check_below("tos", tos, 256)
        return cls(tos >> 5, tos >> 3 & 3)


class Policy(Protocol):
    """Decides the tags of a tensor. ``position`` is its place in the model: 0.0 the input's layer, 1.0 the output's.

    All workers of a job must use policies with equal priorities, which decide the lanes. Drop classes may differ
    between workers.
    """

    @property
    def priorities(self) -> Sequence[int]:
        """The priority of every lane, in falling order; lane 0 has the front layers."""

    def priority(self, position: float) -> int:
        """Return one of ``priorities``. All packets of a tensor have the same, since they are in one lane."""

    def drop_classes(self, position: float, magnitudes: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return drop classes 0..3 of a tensor's chunks, shape (chunks,), given the L2 norms of the chunks."""


@dataclass(frozen=True, slots=True)
class LayerMagnitude:
    """The default policy: front layers are served first, and their small values are dropped first.

    Priority: the model's values are divided evenly among the lanes, front to back. Drop class: by the rank of a chunk's
    magnitude within its tensor. ``front`` and ``back`` are the shares of chunks in classes 0 (the largest magnitudes)
    to 3 for the first and the last layer; they are interpolated for layers between. So front layers are served first
    and have more packets that may be dropped. A chunk of zeros always has class 3.

    Raises ConfigError for priorities with gaps (see :func:`check_priorities`), or shares that do not add up to 1.
    """

    priorities: tuple[int, ...] = DEFAULT_PRIORITIES
    front: tuple[float, ...] = FRONT_SHARES
    back: tuple[float, ...] = BACK_SHARES

    def __post_init__(self) -> None:
        check_priorities(self.priorities, len(self.priorities))
        _check_shares("front", self.front)
        _check_shares("back", self.back)

    @classmethod
    def for_lanes(cls, lanes: int) -> LayerMagnitude:
        """Return the default policy of a job with this number of lanes."""
        return cls(default_priorities(lanes))

    def priority(self, position: float) -> int:
        """See :class:`Policy`. Raises UsageError for a position outside 0..1."""
        _check_position(position)
        return self.priorities[min(int(position * len(self.priorities)), len(self.priorities) - 1)]

    def shares(self, position: float) -> tuple[float, ...]:
        """Return the shares of chunks in classes 0 to 3 at a place in the model."""
        _check_position(position)
        return tuple(
            (1 - position) * front + position * back for front, back in zip(self.front, self.back, strict=True)
        )

    def drop_classes(self, position: float, magnitudes: NDArray[np.float32]) -> NDArray[np.uint8]:
        """See :class:`Policy`. Of equal magnitudes, the earlier chunk counts as larger.

        A tensor's largest chunk has class 0 if that class has a share above 0.
        """
        chunks = len(magnitudes)
        # Rounded up, in favour of the more protected class, but not for rounding errors of the sums.
        ends = [math.ceil(share * chunks - 1e-9) for share in np.cumsum(self.shares(position)).tolist()]
        by_rank = np.searchsorted(np.minimum(ends[:-1], chunks), np.arange(chunks), side="right")
        classes = np.empty(chunks, np.uint8)
        classes[np.argsort(-magnitudes, kind="stable")] = by_rank
        classes[magnitudes == 0] = CLASSES - 1
        return classes


def default_priorities(lanes: int) -> tuple[int, ...]:
    """Return priorities from 7 downwards, evenly spaced among eight: 7 5 3 1 for four lanes.

    Raises ConfigError for fewer lanes than 1, or more than there are priorities.
    """
    if not 1 <= lanes <= LANES_MAX:
        raise ConfigError("lanes", lanes, f"must be 1..{LANES_MAX}, one priority each", where="policy")
    return tuple(PRIORITIES - 1 - lane * (PRIORITIES // lanes) for lane in range(lanes))


def check_priorities(priorities: Sequence[int] | Mapping[int, int], lanes: int) -> tuple[int, ...]:
    """Return the priorities of lanes as a tuple, by lane.

    Raises ConfigError if a lane has none, for a lane that the job does not have, and for priorities out of 0..7, given
    twice, or not falling: lane 0 has the front layers.
    """
    where = "policy"
    if not 1 <= lanes <= LANES_MAX:
        raise ConfigError("lanes", lanes, f"must be 1..{LANES_MAX}, one priority each", where=where)
    given = dict(priorities if isinstance(priorities, Mapping) else enumerate(priorities))
    shown = dict(given) if isinstance(priorities, Mapping) else tuple(priorities)
    for lane in range(lanes):
        if given.get(lane) is None:
            raise ConfigError("priorities", shown, f"lane {lane} of {lanes} has none: each needs one", where=where)
    for lane in given:
        if lane not in range(lanes):
            raise ConfigError("priorities", shown, f"lane {lane} is none of the job's {lanes}", where=where)
    values = [given[lane] for lane in range(lanes)]
    for lane, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < PRIORITIES:
            rule = f"lane {lane} has {value!r}: must be a whole number in 0..{PRIORITIES - 1}"
            raise ConfigError("priorities", shown, rule, where=where)
    for lane in range(1, lanes):
        before, here = values[lane - 1], values[lane]
        if before == here:
            rule = f"lanes {lane - 1} and {lane} share {here}: each needs a queue of its own"
            raise ConfigError("priorities", shown, rule, where=where)
        if before < here:
            rule = f"lane {lane} has {here}, above lane {lane - 1}'s {before}: must fall, front layers are in lane 0"
            raise ConfigError("priorities", shown, rule, where=where)
    return tuple(values)


def tos_bytes(priority: int, drop_classes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the TOS bytes of packets with one priority. Raises ConfigError for a priority or class out of range."""
    bytes_of = np.array([Tag(priority, drop_class).tos for drop_class in range(CLASSES)], np.uint8)
    if drop_classes.dtype != np.uint8 or np.any(drop_classes >= CLASSES):
        raise ConfigError("drop_classes", drop_classes, f"must be uint8 in 0..{CLASSES - 1}", where="policy")
    return bytes_of[drop_classes]


def tagger(policy: Policy, position: float) -> Tagger:
    """Return the function that gives the packets of one tensor their TOS bytes."""
    priority = policy.priority(position)

    def tag(magnitudes: NDArray[np.float32]) -> NDArray[np.uint8]:
        return tos_bytes(priority, policy.drop_classes(position, magnitudes))

    return tag


def _check_below(field: str, value: int, end: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < end:
        raise ConfigError(field, value, f"must be a whole number in 0..{end - 1}", where="tag")


def _check_position(position: float) -> None:
    if not 0.0 <= position <= 1.0:
        raise UsageError(f"position = {position!r}: must be in 0..1, from the model's front to its back")


def _check_shares(field: str, shares: tuple[float, ...]) -> None:
    numbers = len(shares) == CLASSES and all(isinstance(s, int | float) and 0 <= s <= 1 for s in shares)
    if not numbers or abs(sum(shares) - 1) > 1e-6:
        rule = f"must be {CLASSES} shares in 0..1, of classes 0 to {CLASSES - 1}, that make 1 together"
        raise ConfigError(field, shares, rule, where="policy")
