# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Groups of action profiles, and the order in which a selector numbers their members.

bmv2's P4Runtime server gives each member a handle, and as many more as its largest weight in a group asks for; always
the lowest that is free. A group's actions stand in the order of handles. It is the same here, so both choose alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softswitch.p4runtime.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError
from softswitch.p4runtime.p4info import Profile
from softswitch.program.limits import ACTION_SET


@dataclass
class Handles:
    """Numbers from 0, the lowest that is free first."""

    _free: list[int] = field(default_factory=list)
    _next: int = 0

    def take(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._next += 1
        return self._next - 1

    def give_back(self, handle: int) -> None:
        heapq.heappush(self._free, handle)

    def resize(self, held: list[int], count: int) -> None:
        """Make ``held`` ``count`` handles long."""
        while len(held) > count:
            self.give_back(held.pop())
        while len(held) < count:
            held.append(self.take())


def check_weights(what: str, profile: Profile, parts: Iterable[Any], limit: int = 0) -> int:
    """The sum of the weights of a group's members or of a one-shot set's actions.

    ``limit``: of the group itself; 0 for the profile's. Raises InvalidArgumentError, ResourceExhaustedError,
    UnimplementedError.
    """
    total = 0
    for part in parts:
        if part.WhichOneof("watch_kind") is not None:
            raise UnimplementedError(f"{what}: watch ports are not offered; leave watch and watch_port away")
        if part.weight <= 0:
            raise InvalidArgumentError(f"{what}: weight {part.weight} is not above 0")
        total += part.weight
    most = min(filter(None, (limit, profile.max_group_size, ACTION_SET)))
    if total > most:
        raise ResourceExhaustedError(f"{what}: its weights are {total} together, at most {most} are offered")
    return total


def weights_of(what: str, group: Any) -> dict[int, int]:
    """Weight by member of an ``ActionProfileGroup``. Raises InvalidArgumentError for a member that is there twice."""
    weights: dict[int, int] = {}
    for each in group.members:
        if each.member_id in weights:
            raise InvalidArgumentError(f"{what}: member {each.member_id} is given twice; use weights instead")
        weights[each.member_id] = each.weight
    return weights


def in_order(weights: Mapping[int, int], handles: Mapping[int, list[int]]) -> list[int]:
    """The member of each share, by number."""
    shares = [(handle, member) for member, weight in weights.items() for handle in handles[member][:weight]]
    return [member for _, member in sorted(shares)]
