# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Action profiles: members that entries of tables refer to, and one-shot sets of one action.

The data plane knows no members: an entry has its member's action, and gets the new one when the member changes. It does
not choose among members either, so groups and sets of several actions are not offered. Specification:
"ActionProfileMember & ActionProfileGroup".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.p4runtime.entries import decode_call
from softswitch.p4runtime.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotThereError,
    ResourceExhaustedError,
    UnimplementedError,
)
from softswitch.p4runtime.p4info import P4Info, Profile, Table
from softswitch.runtime.entries import ActionCall, Entry, KeyMatch

#: Table name, key, priority.
EntryKey = tuple[str, tuple[KeyMatch, ...], int]
_UPDATE = p4runtime_pb2.Update


@dataclass
class Member:
    """``action``: as it was written. ``users``: the entries that refer to it."""

    action: Any
    call: ActionCall
    users: set[EntryKey] = field(default_factory=set)


@dataclass
class Profiles:
    """``members``: by profile and member. ``references``: what entries were written with, as ``TableAction``."""

    members: dict[tuple[int, int], Member] = field(default_factory=dict)
    references: dict[EntryKey, Any] = field(default_factory=dict)

    def resolve(self, info: P4Info, table: Table, action: Any) -> ActionCall:
        """The action that an entry has by its reference. Raises NotThereError for a member that is not there."""
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
                raise UnimplementedError(f"{what}: groups of action selectors are not offered; members are")
        raise InvalidArgumentError(f"{what} has an action profile and takes a member of it, the request has {kind}")

    def _of_set(self, info: P4Info, table: Table, profile: Profile, action_set: Any) -> ActionCall:
        what = f"table {table.name!r}"
        if any(number == profile.id for number, _ in self.members):
            raise InvalidArgumentError(f"{what}: a one-shot set, but selector {profile.name!r} has members; use them")
        actions = action_set.action_profile_actions
        if len(actions) != 1:
            raise UnimplementedError(f"{what}: a one-shot set of {len(actions)} actions; sets of one are offered")
        [only] = actions
        if only.WhichOneof("watch_kind") is not None:
            raise UnimplementedError(f"{what}: watch ports are not offered")
        if only.weight <= 0:
            raise InvalidArgumentError(f"{what}: weight {only.weight} of a one-shot action is not above 0")
        return decode_call(info, table, only.action, is_default=False)

    def refer(self, table: Table, where: EntryKey, action: Any | None) -> None:
        """Keep what an entry was written with; None: it is deleted."""
        before = self.references.pop(where, None)
        if before is not None and before.WhichOneof("type") == "action_profile_member_id":
            self.members[table.implementation_id, before.action_profile_member_id].users.discard(where)
        if action is None:
            return
        self.references[where] = p4runtime_pb2.TableAction.FromString(action.SerializeToString())
        if action.WhichOneof("type") == "action_profile_member_id":
            self.members[table.implementation_id, action.action_profile_member_id].users.add(where)

    def write_member(self, device: Device, info: P4Info, update_type: int, entry: Any) -> None:
        """Apply one update of an ``ActionProfileMember``."""
        profile = info.profile(entry.action_profile_id)
        what = f"action profile {profile.name!r}, member {entry.member_id}"
        if not entry.member_id:
            raise InvalidArgumentError(f"{what}: a member's id is not 0")
        known = self.members.get((profile.id, entry.member_id))
        if update_type == _UPDATE.INSERT and known is not None:
            raise AlreadyExistsError(f"{what} exists already")
        if update_type != _UPDATE.INSERT and known is None:
            raise NotThereError(f"{what} does not exist")
        if update_type == _UPDATE.DELETE:
            assert known is not None, "it would not exist"
            if known.users:
                raise FailedPreconditionError(f"{what}: {len(known.users)} entries refer to it; delete them first")
            del self.members[profile.id, entry.member_id]
            return
        if not entry.HasField("action"):
            raise InvalidArgumentError(f"{what}: it needs an action")
        call = decode_call(info, info.table(profile.table_ids[0]), entry.action, is_default=False)
        action = p4runtime_pb2.Action.FromString(entry.action.SerializeToString())
        if known is None:
            self._check_room(info, profile, what)
            self.members[profile.id, entry.member_id] = Member(action, call)
            return
        known.action, known.call = action, call
        for table, key, priority in known.users:
            device.modify(table, Entry(key, call, priority))

    def _check_room(self, info: P4Info, profile: Profile, what: str) -> None:
        if profile.size and sum(number == profile.id for number, _ in self.members) >= profile.size:
            raise ResourceExhaustedError(f"{what}: all {profile.size} members are in use")
        tables = {info.table(number).name for number in profile.table_ids}
        sets = (w for w, a in self.references.items() if a.WhichOneof("type") == "action_profile_action_set")
        if any(table in tables for table, _, _ in sets):
            raise InvalidArgumentError(f"{what}: its tables have one-shot sets; delete these entries first")

    def read_members(self, info: P4Info, asked: Any) -> Iterator[Any]:
        """An ``Entity`` for each member: one, those of a profile (no member id), or all. Raises NotThereError."""
        profile = info.profile(asked.action_profile_id).id if asked.action_profile_id else 0
        if asked.member_id and (profile, asked.member_id) not in self.members:
            raise NotThereError(f"there is no member {asked.member_id} of action profile id {profile:#010x}")
        for (number, member_id), member in sorted(self.members.items(), key=lambda item: item[0]):
            if profile in (0, number) and asked.member_id in (0, member_id):
                entity = p4runtime_pb2.Entity()
                entity.action_profile_member.action_profile_id = number
                entity.action_profile_member.member_id = member_id
                entity.action_profile_member.action.CopyFrom(member.action)
                yield entity
