# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Action profiles and selectors: members, groups and their weights."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.p4runtime.entries import decode_call
from softswitch.p4runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotThereError,
    ResourceExhaustedError,
    UnimplementedError,
    check_presence,
)
from softswitch.p4runtime.p4info import ActionProfile, P4Info, TableInfo
from softswitch.program.limits import ACTION_SET
from softswitch.runtime.entries import ActionCall, ActionSet, Entry, KeyMatch


@dataclass
class Handles:
    """Hands out numbers from 0, the lowest free one first."""

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


def check_weights(what: str, profile: ActionProfile, parts: Iterable[Any], limit: int = 0) -> int:
    """Return the sum of the weights of a group's members or of a one-shot set's actions.

    ``limit``: that of the group itself; 0 for the profile's. Raises InvalidArgumentError, ResourceExhaustedError,
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
    """Return the weight of each member of an ``ActionProfileGroup``. Raises InvalidArgumentError for a repeated
    member."""
    weights: dict[int, int] = {}
    for each in group.members:
        if each.member_id in weights:
            raise InvalidArgumentError(f"{what}: member {each.member_id} is given twice; use weights instead")
        weights[each.member_id] = each.weight
    return weights


def in_order(weights: Mapping[int, int], handles: Mapping[int, list[int]]) -> list[int]:
    """Return the member of each share, by number."""
    shares = [(handle, member) for member, weight in weights.items() for handle in handles[member][:weight]]
    return [member for _, member in sorted(shares)]


#: TableInfo name, key, priority.
EntryKey = tuple[str, tuple[KeyMatch, ...], int]
_UPDATE = p4runtime_pb2.Update
_Place = tuple[int, int]  # a profile's id, and that of one of its members or groups
_T = TypeVar("_T")


@dataclass
class ProfileMember:
    """A member. ``action``: as it was written. ``users``: the entries that refer to it. ``handles``: see
    :mod:`.choices`.
    """

    action: Any
    call: ActionCall
    handles: list[int]
    users: set[EntryKey] = field(default_factory=set)


@dataclass
class Group:
    """A group. ``message``: the ``ActionProfileGroup`` as it was written. ``weights``: by member. ``users``: the
    entries that refer to it."""

    message: Any
    weights: dict[int, int]
    users: set[EntryKey] = field(default_factory=set)


@dataclass
class Profiles:
    """The profiles of a pipeline. ``members`` and ``groups``: by profile and by their own id. ``references``: the
    ``TableAction`` with which each entry was written."""

    members: dict[tuple[int, int], ProfileMember] = field(default_factory=dict)
    groups: dict[tuple[int, int], Group] = field(default_factory=dict)
    references: dict[EntryKey, Any] = field(default_factory=dict)
    handles: dict[int, Handles] = field(default_factory=dict)

    def resolve(self, info: P4Info, table: TableInfo, action: Any) -> ActionCall | ActionSet:
        """Return what an entry with this reference runs. Raises NotThereError for a missing member or group."""
        profile = info.profile(table.implementation_id)
        kind = action.WhichOneof("type")
        what = f"table {table.name!r}"
        match kind:
            case "action_profile_member_id":
                member = self.members.get((profile.id, action.action_profile_member_id))
                if member is None:
                    number = action.action_profile_member_id
                    raise NotThereError(f"{what}: action profile {profile.name!r} has no member {number}")
                return member.call
            case "action_profile_action_set" if profile.has_selector:
                return self._of_set(info, table, profile, action.action_profile_action_set)
            case "action_profile_group_id" if profile.has_selector:
                return self._of_group(profile, action.action_profile_group_id, what)
        raise InvalidArgumentError(f"{what} has an action profile and takes a member of it, the request has {kind}")

    def _of_set(
        self, info: P4Info, table: TableInfo, profile: ActionProfile, action_set: Any
    ) -> ActionCall | ActionSet:
        what = f"table {table.name!r}"
        if any(number == profile.id for number, _ in self.members):
            raise InvalidArgumentError(f"{what}: a one-shot set, but selector {profile.name!r} has members; use them")
        parts = action_set.action_profile_actions
        if not parts:
            raise InvalidArgumentError(f"{what}: a one-shot set has at least one action")
        check_weights(f"{what}, one-shot set", profile, parts)
        calls = [(decode_call(info, table, part.action, is_default=False), part.weight) for part in parts]
        if len(calls) == 1:
            return calls[0][0]
        return ActionSet(tuple(call for call, weight in calls for _ in range(weight)))

    def _of_group(self, profile: ActionProfile, group_id: int, what: str) -> ActionSet:
        group = self.groups.get((profile.id, group_id))
        if group is None:
            raise NotThereError(f"{what}: action profile {profile.name!r} has no group {group_id}")
        if not group.weights:
            raise FailedPreconditionError(f"{what}: group {group_id} is empty; give it members first")
        return self._calls(profile.id, group)

    def _calls(self, profile: int, group: Group) -> ActionSet:
        handles = {member: self.members[profile, member].handles for member in group.weights}
        return ActionSet(tuple(self.members[profile, each].call for each in in_order(group.weights, handles)))

    def refer(self, table: TableInfo, where: EntryKey, action: Any | None) -> None:
        """Keep the action that an entry was written with. None: the entry is deleted."""
        before = self.references.pop(where, None)
        if before is not None:
            self._users(table.implementation_id, before).discard(where)
        if action is None:
            return
        self.references[where] = kept = p4runtime_pb2.TableAction.FromString(action.SerializeToString())
        self._users(table.implementation_id, kept).add(where)

    def _users(self, profile: int, action: Any) -> set[EntryKey]:
        match action.WhichOneof("type"):
            case "action_profile_member_id":
                return self.members[profile, action.action_profile_member_id].users
            case "action_profile_group_id":
                return self.groups[profile, action.action_profile_group_id].users
        return set()

    def write_member(self, device: Device, info: P4Info, update_type: int, entry: Any) -> None:
        """Apply one update of an ``ActionProfileMember``."""
        profile = info.profile(entry.action_profile_id)
        what = f"action profile {profile.name!r}, member {entry.member_id}"
        known = _known(self.members, (profile.id, entry.member_id), update_type, what)
        if update_type == _UPDATE.DELETE:
            assert known is not None, "it would not exist"
            self._check_unused(profile, entry.member_id, known, what)
            self._handles(profile.id).resize(known.handles, 0)
            del self.members[profile.id, entry.member_id]
            return
        if not entry.HasField("action"):
            raise InvalidArgumentError(f"{what}: it needs an action")
        if not profile.table_ids:
            raise InvalidArgumentError(f"{what}: no table has this profile, so it has no actions")
        call = decode_call(info, info.table(profile.table_ids[0]), entry.action, is_default=False)
        action = p4runtime_pb2.Action.FromString(entry.action.SerializeToString())
        if known is None:
            self._check_room(info, profile, what)
            self.members[profile.id, entry.member_id] = ProfileMember(action, call, [self._handles(profile.id).take()])
            return
        known.action, known.call = action, call
        _modify(device, known.users, call)
        for group in self._groups_of(profile.id, entry.member_id):
            _modify(device, group.users, self._calls(profile.id, group))

    def write_group(self, device: Device, info: P4Info, update_type: int, entry: Any) -> None:
        """Apply one update of an ``ActionProfileGroup``."""
        profile = info.profile(entry.action_profile_id)
        what = f"action profile {profile.name!r}, group {entry.group_id}"
        if not profile.has_selector:
            raise InvalidArgumentError(f"{what}: the profile has no selector, so it takes members and no groups")
        known = _known(self.groups, (profile.id, entry.group_id), update_type, what)
        if update_type == _UPDATE.DELETE:
            assert known is not None, "it would not exist"
            if known.users:
                raise FailedPreconditionError(f"{what}: {len(known.users)} entries refer to it; delete them first")
            del self.groups[profile.id, entry.group_id]
            self._resize(profile.id, known.weights)
            return
        weights = self._checked(profile, entry, known, what)
        kept = Group(p4runtime_pb2.ActionProfileGroup.FromString(entry.SerializeToString()), weights)
        if known is not None:
            kept.users = known.users
        self.groups[profile.id, entry.group_id] = kept
        self._resize(profile.id, {*weights, *(known.weights if known is not None else ())})
        if kept.users:
            _modify(device, kept.users, self._calls(profile.id, kept))

    def _checked(self, profile: ActionProfile, entry: Any, known: Group | None, what: str) -> dict[int, int]:
        """Weight by member. Raises the errors of :func:`.choices.check_weights`, NotThereError and others."""
        if known is not None and entry.max_size != known.message.max_size:
            before = known.message.max_size
            raise InvalidArgumentError(f"{what}: max_size {entry.max_size}, and it was made with {before}, which stays")
        if entry.max_size < 0 or (profile.max_group_size and entry.max_size > profile.max_group_size):
            raise InvalidArgumentError(f"{what}: max_size {entry.max_size} is not in 0..{profile.max_group_size}")
        weights = weights_of(what, entry)
        missing = [member for member in weights if (profile.id, member) not in self.members]
        if missing:
            raise NotThereError(f"{what}: member {missing[0]} does not exist")
        check_weights(what, profile, entry.members, entry.max_size)
        if known is not None and known.users and not weights:
            raise FailedPreconditionError(f"{what}: {len(known.users)} entries refer to it, so it cannot become empty")
        return weights

    def _check_unused(self, profile: ActionProfile, member_id: int, member: ProfileMember, what: str) -> None:
        if member.users:
            raise FailedPreconditionError(f"{what}: {len(member.users)} entries refer to it; delete them first")
        groups = len(self._groups_of(profile.id, member_id))
        if groups:
            raise FailedPreconditionError(f"{what}: {groups} groups have it; take it out of them first")

    def _groups_of(self, profile: int, member_id: int) -> list[Group]:
        return [group for (number, _), group in self.groups.items() if number == profile and member_id in group.weights]

    def _handles(self, profile: int) -> Handles:
        return self.handles.setdefault(profile, Handles())

    def _resize(self, profile: int, members: Iterable[int]) -> None:
        """Give members as many handles as their largest weight needs."""
        for number in sorted(members):
            weights = [group.weights[number] for group in self._groups_of(profile, number)]
            self._handles(profile).resize(self.members[profile, number].handles, max(weights, default=1))

    def _check_room(self, info: P4Info, profile: ActionProfile, what: str) -> None:
        if profile.size and sum(number == profile.id for number, _ in self.members) >= profile.size:
            raise ResourceExhaustedError(f"{what}: all {profile.size} members are in use")
        tables = {info.table(number).name for number in profile.table_ids}
        sets = (w for w, a in self.references.items() if a.WhichOneof("type") == "action_profile_action_set")
        if any(table in tables for table, _, _ in sets):
            raise InvalidArgumentError(f"{what}: its tables have one-shot sets; delete these entries first")

    def read_members(self, info: P4Info, asked: Any) -> Iterator[Any]:
        """Yield an ``Entity`` for each member: one, those of a profile (no member id), or all. Raises NotThereError."""
        for (number, member_id), member in _asked(
            self.members, info, asked.action_profile_id, asked.member_id, "member"
        ):
            entity = p4runtime_pb2.Entity()
            entity.action_profile_member.action_profile_id = number
            entity.action_profile_member.member_id = member_id
            entity.action_profile_member.action.CopyFrom(member.action)
            yield entity

    def read_groups(self, info: P4Info, asked: Any) -> Iterator[Any]:
        """Yield an ``Entity`` for each group, as :meth:`read_members` does."""
        for _, group in _asked(self.groups, info, asked.action_profile_id, asked.group_id, "group"):
            entity = p4runtime_pb2.Entity()
            entity.action_profile_group.CopyFrom(group.message)
            yield entity


def _known(kept: Mapping[_Place, _T], place: _Place, update_type: int, what: str) -> _T | None:
    """The member or group that an update is about; None for one that is to be made. Raises InvalidArgumentError for the
    id 0, AlreadyExistsError and NotThereError."""
    if not place[1]:
        raise InvalidArgumentError(f"{what}: an id is not 0")
    known = kept.get(place)
    check_presence(what, update_type, is_there=known is not None)
    return known


def _asked(
    kept: Mapping[_Place, _T], info: P4Info, profile_id: int, own_id: int, what: str
) -> Iterator[tuple[_Place, _T]]:
    """In order: one of a profile, all of a profile (``own_id`` 0), or all (both 0). Raises NotThereError."""
    profile = info.profile(profile_id).id if profile_id else 0
    if own_id and (profile, own_id) not in kept:
        raise NotThereError(f"there is no {what} {own_id} of action profile id {profile:#010x}")
    for place in sorted(kept):
        if profile in (0, place[0]) and own_id in (0, place[1]):
            yield place, kept[place]


def _modify(device: Device, users: Iterable[EntryKey], action: ActionCall | ActionSet) -> None:
    for table, key, priority in users:
        device.modify(table, Entry(key, action, priority))
