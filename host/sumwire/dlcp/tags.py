# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a packet says of itself to the switches: how urgent it is, and how willingly it is lost.

Both travel in the DSCP, six bits: priority (3 bits, 7 is served first), drop class (2 bits, 3 is lost first), a zero.
ECN says the rest: class 0 is protected, an ECN-capable packet (ECT(0)) that a congested switch marks and forwards;
the others are not ECN-capable, and are dropped. Untagged traffic is 0 throughout: last served, and droppable as ever.

Who gets which tag is decided by a policy, any object with :class:`Policy`'s methods. :class:`LayerMagnitude` is ours.
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
# Shares of a tensor's chunks in classes 0, 1, 2 and 3, of the first layer and of the last: docs/dlcp.md.
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
        """The two ECN bits: whether the network may drop it rather than mark it."""
        return p4.ECN_ECT if self.drop_class == PROTECTED else p4.ECN_NOT_ECT

    @property
    def tos(self) -> int:
        """The byte of the IPv4 header that holds both, as IP_TOS takes it."""
        return self.dscp << 2 | self.ecn

    @classmethod
    def of(cls, tos: int) -> Tag:
        """The tag in a TOS byte; its ECN bits say nothing more, or that the network has marked it."""
        _check_below("tos", tos, 256)
        return cls(tos >> 5, tos >> 3 & 3)


class Policy(Protocol):
    """Decides the tags of a tensor. ``position`` is its place in the model: 0.0 the input's layer, 1.0 the output's.

    All workers of a job use policies with equal priorities, since a priority is a lane. Drop classes are a worker's
    own affair.
    """

    @property
    def priorities(self) -> Sequence[int]:
        """Priority of every lane, falling; lane 0 carries the front layers."""

    def priority(self, position: float) -> int:
        """One of ``priorities``: a tensor's packets all have the same, so that they stay in order of lanes."""

    def drop_classes(self, position: float, magnitudes: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Drop classes 0..3 of a tensor's chunks, shape (chunks,), by the L2 norms of their values."""


@dataclass(frozen=True, slots=True)
class LayerMagnitude:
    """The default policy: front layers first on the wire, small values of front layers first to be lost.

    Priority: lanes share the model's values evenly, front to back. Drop class: by the rank of a chunk's magnitude
    within its tensor. ``front`` and ``back`` are the shares of chunks in classes 0 (the largest magnitudes) to 3 for
    the first and the last layer; layers between have what lies between. So for front layers the two directions
    are opposite: soonest served, and dropped first. A chunk of zeros is always of class 3.

    Raises ConfigError for priorities with holes (see :func:`check_priorities`), or shares that are none.
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
        """The default policy of a job with so many lanes."""
        return cls(default_priorities(lanes))

    def priority(self, position: float) -> int:
        """Raises UsageError for a position outside 0..1."""
        _check_position(position)
        return self.priorities[min(int(position * len(self.priorities)), len(self.priorities) - 1)]

    def shares(self, position: float) -> tuple[float, ...]:
        """Shares of the chunks in classes 0 to 3 at a place in the model."""
        _check_position(position)
        return tuple(
            (1 - position) * front + position * back for front, back in zip(self.front, self.back, strict=True)
        )

    def drop_classes(self, position: float, magnitudes: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Equal magnitudes count as falling in the order of chunks. A tensor's largest chunk is never droppable, as
        long as class 0 has a share at all."""
        chunks = len(magnitudes)
        # Rounded up, in favour of the more protected class; a share of a chunk that is only float noise is none.
        ends = [math.ceil(share * chunks - 1e-9) for share in np.cumsum(self.shares(position)).tolist()]
        by_rank = np.searchsorted(np.minimum(ends[:-1], chunks), np.arange(chunks), side="right")
        classes = np.empty(chunks, np.uint8)
        classes[np.argsort(-magnitudes, kind="stable")] = by_rank
        classes[magnitudes == 0] = CLASSES - 1
        return classes


def default_priorities(lanes: int) -> tuple[int, ...]:
    """From 7 downwards, as far apart as eight priorities allow: 7 5 3 1 for four lanes. Raises ConfigError."""
    if not 1 <= lanes <= LANES_MAX:
        raise ConfigError("lanes", lanes, f"must be 1..{LANES_MAX}, one priority each", where="policy")
    return tuple(PRIORITIES - 1 - lane * (PRIORITIES // lanes) for lane in range(lanes))


def check_priorities(priorities: Sequence[int] | Mapping[int, int], lanes: int) -> tuple[int, ...]:
    """A map of lanes to priorities as a tuple, by lane.

    Raises ConfigError for one with holes, lanes too many, priorities out of 0..7 or given twice, or that does not
    fall: lane 0 has the front layers.
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
    """TOS bytes of packets with one priority. Raises ConfigError for a priority or class that is none."""
    bytes_of = np.array([Tag(priority, drop_class).tos for drop_class in range(CLASSES)], np.uint8)
    if drop_classes.dtype != np.uint8 or np.any(drop_classes >= CLASSES):
        raise ConfigError("drop_classes", drop_classes, f"must be uint8 in 0..{CLASSES - 1}", where="policy")
    return bytes_of[drop_classes]


def tagger(policy: Policy, position: float) -> Tagger:
    """What gives the packets of one tensor their TOS bytes."""
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
