# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Commands about action profiles and selectors. A member's or group's handle is its id of P4Runtime less 1."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from commonlib.untrusted import escaped
from p4.v1 import p4runtime_pb2

from softswitch.cli_door import values
from softswitch.cli_door.values import integer, wrong
from softswitch.cli_door.work import Codes, Update, Work, refused, update_of
from softswitch.p4runtime.entries import encode_action
from softswitch.p4runtime.errors import FailedPreconditionError, NotThereError, ResourceExhaustedError
from softswitch.p4runtime.p4info import ActionProfile
from softswitch.program import ir
from softswitch.runtime.entries import ActionCall

_MEMBERS: Final[Codes] = {FailedPreconditionError: "MBR_STILL_USED", NotThereError: "INVALID_MBR_HANDLE"}
_GROUPS: Final[Codes] = {FailedPreconditionError: "GRP_STILL_USED", NotThereError: "INVALID_GRP_HANDLE"}


def action_of(work: Work, table: ir.Table, word: str, owner: str) -> ir.Action:
    """Return the action of a table or profile, which errors call ``owner``. Raises CliCommandError."""
    actions = work.names.actions_of(table)
    ends = [action for name, action in actions.items() if name == word or name.endswith(f".{word}")]
    if len(ends) != 1:
        raise wrong(f"{owner} has no action {escaped(word)}")
    return ends[0]


def _find(work: Work, word: str) -> tuple[ActionProfile, ir.Table]:
    table = work.names.profiles.find(word)
    assert table.profile is not None, "it was found by it"
    return work.profile_info(table.profile), table


def _with_selector(work: Work, word: str) -> ActionProfile:
    profile, _ = _find(work, word)
    if not profile.has_selector:
        raise wrong("Cannot run this command on an action profile without selector")
    return profile


def _id(word: str, what: str, code: str) -> int:
    handle = integer(word, f"{what} handle")
    if not 0 <= handle < (1 << 32) - 1:
        raise refused("table", code, f"there is no {what} {handle}")
    return handle + 1


def _member_id(word: str) -> int:
    return _id(word, "member", "INVALID_MBR_HANDLE")


def _group_id(word: str) -> int:
    return _id(word, "group", "INVALID_GRP_HANDLE")


def _lowest_free(taken: Collection[int]) -> int:
    """Of the numbers from 1. Where the highest is their count there are no gaps."""
    first = len(taken) + 1
    return first if max(taken, default=0) < first else min(set(range(1, first + 1)) - set(taken))


def _own(found: Collection[tuple[int, int]], profile: ActionProfile) -> set[int]:
    return {number for owner, number in found if owner == profile.id}


def _member(work: Work, profile: ActionProfile, member_id: int, update_type: int, call: ActionCall | None) -> None:
    update, entity = update_of(update_type)
    entity.action_profile_member.action_profile_id = profile.id
    entity.action_profile_member.member_id = member_id
    if call is not None:
        entity.action_profile_member.action.CopyFrom(encode_action(work.info, call).action)
    work.write("table", [update], _MEMBERS)


def act_prof_create_member(work: Work, words: Sequence[str]) -> None:
    profile, table = _find(work, words[0])
    action = action_of(work, table, words[1], f"Action profile '{words[0]}'")
    call = ActionCall(action.name, values.arguments(action, words[2:]))
    member = _lowest_free(_own(work.pipeline.notes.profiles.members, profile))
    _member(work, profile, member, Update.INSERT, call)
    work.say(f"Member has been created with handle {member - 1}")


def act_prof_modify_member(work: Work, words: Sequence[str]) -> None:
    profile, table = _find(work, words[0])
    action = action_of(work, table, words[1], f"Action profile '{words[0]}'")
    data = words[4:] if words[3:4] == ["=>"] else words[3:]
    call = ActionCall(action.name, values.arguments(action, data))
    _member(work, profile, _member_id(words[2]), Update.MODIFY, call)


def act_prof_delete_member(work: Work, words: Sequence[str]) -> None:
    profile, _ = _find(work, words[0])
    _member(work, profile, _member_id(words[1]), Update.DELETE, None)


def _group(work: Work, message: Any, update_type: int, codes: Codes = _GROUPS) -> None:
    update, entity = update_of(update_type)
    entity.action_profile_group.CopyFrom(message)
    work.write("table", [update], codes)


def act_prof_create_group(work: Work, words: Sequence[str]) -> None:
    profile = _with_selector(work, words[0])
    group = _lowest_free(_own(work.pipeline.notes.profiles.groups, profile))
    _group(work, p4runtime_pb2.ActionProfileGroup(action_profile_id=profile.id, group_id=group), Update.INSERT)
    work.say(f"Group has been created with handle {group - 1}")


def act_prof_delete_group(work: Work, words: Sequence[str]) -> None:
    profile = _with_selector(work, words[0])
    group = _group_id(words[1])
    _group(work, p4runtime_pb2.ActionProfileGroup(action_profile_id=profile.id, group_id=group), Update.DELETE)


def _known_group(work: Work, profile: ActionProfile, word: str) -> Any:
    """A copy of its message."""
    group = work.pipeline.notes.profiles.groups.get((profile.id, _group_id(word)))
    if group is None:
        raise refused("table", "INVALID_GRP_HANDLE", f"action profile {profile.name} has no group {word}")
    return p4runtime_pb2.ActionProfileGroup.FromString(group.message.SerializeToString())


def act_prof_add_member_to_group(work: Work, words: Sequence[str]) -> None:
    profile = _with_selector(work, words[0])
    member, message = _member_id(words[1]), _known_group(work, profile, words[2])
    if any(each.member_id == member for each in message.members):
        raise refused("table", "MBR_ALREADY_IN_GRP", f"group {words[2]} has member {words[1]}")
    message.members.add(member_id=member, weight=1)
    _group(work, message, Update.MODIFY, {NotThereError: "INVALID_MBR_HANDLE", ResourceExhaustedError: "ERROR"})


def act_prof_remove_member_from_group(work: Work, words: Sequence[str]) -> None:
    profile = _with_selector(work, words[0])
    member, message = _member_id(words[1]), _known_group(work, profile, words[2])
    left = [each for each in message.members if each.member_id != member]
    if len(left) == len(message.members):
        raise refused("table", "MBR_NOT_IN_GRP", f"group {words[2]} does not have member {words[1]}")
    del message.members[:]
    message.members.extend(left)
    _group(work, message, Update.MODIFY, {FailedPreconditionError: "EMPTY_GRP"})


def _dump_member(work: Work, member_id: int, call: ActionCall) -> None:
    work.say(f"Dumping member {member_id - 1}")
    work.say(values.shown_call(call))


def _dump_group(work: Work, group_id: int, message: Any) -> None:
    work.say(f"Dumping group {group_id - 1}")
    work.say(f"Members: [{', '.join(str(each.member_id - 1) for each in message.members)}]")


def act_prof_dump_member(work: Work, words: Sequence[str]) -> None:
    profile, _ = _find(work, words[0])
    member_id = _member_id(words[1])
    member = work.pipeline.notes.profiles.members.get((profile.id, member_id))
    if member is None:
        raise refused("table", "INVALID_MBR_HANDLE", f"action profile {profile.name} has no member {words[1]}")
    _dump_member(work, member_id, member.call)


def act_prof_dump_group(work: Work, words: Sequence[str]) -> None:
    profile, _ = _find(work, words[0])
    message = _known_group(work, profile, words[1])
    _dump_group(work, message.group_id, message)


def act_prof_dump(work: Work, words: Sequence[str]) -> None:
    dump_profile(work, _find(work, words[0])[0].name)


def dump_profile(work: Work, name: str) -> None:
    """Say all members and groups."""
    profile, kept = work.profile_info(name), work.pipeline.notes.profiles
    work.say("==========")
    work.say("MEMBERS")
    for member_id in sorted(_own(kept.members, profile)):
        work.say("**********")
        _dump_member(work, member_id, kept.members[profile.id, member_id].call)
    if not profile.has_selector:
        return
    work.say("==========")
    work.say("GROUPS")
    for group_id in sorted(_own(kept.groups, profile)):
        work.say("**********")
        _dump_group(work, group_id, kept.groups[profile.id, group_id].message)


def profile_of_table(work: Work, words: Sequence[str]) -> list[str]:
    """Return the words of an old command (``table_indirect_create_member``), with the profile in place of its table."""
    table = work.names.tables.find(words[0])
    if table.profile is None:
        raise wrong("Cannot run this command on non-indirect table")
    return [table.profile, *words[1:]]
