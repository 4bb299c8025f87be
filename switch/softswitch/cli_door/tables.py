# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Commands about tables and their entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from p4.v1 import p4runtime_pb2

from softswitch.cli_door import values
from softswitch.cli_door.profiles import action_of, dump_profile
from softswitch.cli_door.values import CliCommandError, integer, wrong
from softswitch.cli_door.work import Update, Work, refused, update_of
from softswitch.p4runtime.entries import encode_action, encode_key
from softswitch.p4runtime.errors import FailedPreconditionError, NotThereError, PermissionDeniedError
from softswitch.p4runtime.p4info import MatchType
from softswitch.p4runtime.read import entry_entity
from softswitch.program import ir
from softswitch.runtime.entries import ActionCall, ActionSet, Entry, Ternary

#: A priority of bmv2 and one of P4Runtime together, as in bmv2: here the smaller wins, there the larger.
_PRIORITIES: Final = (1 << 31) - 1
_TERNARY: Final = (ir.MatchKind.TERNARY, ir.MatchKind.RANGE)
_NONE: Final = "NoAction (no default action)"


def table_line(table: ir.Table) -> str:
    """Return a table as ``show_tables`` shows it."""
    keys = ",\t".join(f"{values.field_name(key)}({key.kind.value}, {key.width})" for key in table.keys)
    return f"{table.name:30} [implementation={table.profile}, mk={keys}]"


def action_line(action: ir.Action) -> str:
    """Return an action as ``show_actions`` shows it."""
    parameters = ",\t".join(f"{each.name}({each.width})" for each in action.parameters)
    return f"{action.name:30} [{parameters}]"


def show_tables(work: Work, _: Sequence[str]) -> None:
    for table in work.names.tables.objects.values():
        work.say(table_line(table))


def show_actions(work: Work, _: Sequence[str]) -> None:
    for action in work.names.actions.objects.values():
        if action.name != _NONE:
            work.say(action_line(action))


def table_show_actions(work: Work, words: Sequence[str]) -> None:
    for action in work.names.actions_of(work.names.tables.find(words[0])).values():
        if action.name != _NONE:
            work.say(action_line(action))


def table_info(work: Work, words: Sequence[str]) -> None:
    work.say(table_line(work.names.tables.find(words[0])))
    work.say("*" * 80)
    table_show_actions(work, words)


def table_num_entries(work: Work, words: Sequence[str]) -> None:
    work.say(str(len(work.switch.entries(work.names.tables.find(words[0]).name))))


def _call(work: Work, table: ir.Table, word: str, data: Sequence[str]) -> tuple[ir.Action, ActionCall]:
    action = action_of(work, table, word, f"Table {table.name}")
    return action, ActionCall(action.name, values.arguments(action, data))


def _message(work: Work, table: ir.Table, key: Sequence[Any], priority: int) -> Any:
    """A ``TableEntry`` with this key. Raises CliCommandError for one that P4Runtime cannot say."""
    described = work.table_info(table.name)
    for field, match in zip(described.fields, key, strict=True):
        ends = (0, (1 << field.width) - 1)
        if field.kind is MatchType.OPTIONAL and isinstance(match, Ternary) and match.mask not in ends:
            raise CliCommandError(
                "Invalid match key: the mask of an optional field is all ones or 0", f"the field is {field.name}"
            )
    return p4runtime_pb2.TableEntry(table_id=described.id, match=encode_key(described, key), priority=priority)


def _split(table: ir.Table, words: list[str], first: int) -> tuple[list[str], list[str], int]:
    """Words of the key, words behind "=>", and P4Runtime's priority. Takes the priority from the end of ``words``."""
    priority = 0
    if table.kind in _TERNARY:
        given = values.priority(words)
        if not 0 <= given < _PRIORITIES:
            raise wrong(f"priority {given} is not in 0..{_PRIORITIES - 1}")
        priority = _PRIORITIES - given
    arrow = words.index("=>") if "=>" in words else len(words)
    return words[first:arrow], words[arrow + 1 :], priority


def _insert(work: Work, table: ir.Table, message: Any, key: tuple[Any, ...], priority: int) -> None:
    update, entity = update_of(Update.INSERT)
    entity.table_entry.CopyFrom(message)
    codes: dict[type[Exception], str] = {FailedPreconditionError: "EMPTY_GRP"}
    if table.profile is not None:
        which = message.action.WhichOneof("type")
        codes[NotThereError] = "INVALID_GRP_HANDLE" if which == "action_profile_group_id" else "INVALID_MBR_HANDLE"
    work.write("table", [update], codes)
    work.say(f"Entry has been added with handle {work.switch.handle(table.name, key, priority)}")


def table_add(work: Work, given: Sequence[str]) -> None:
    words = list(given)
    table = work.names.tables.find(words[0])
    action_of(work, table, words[1], f"Table {words[0]}")
    key_words, data, priority = _split(table, words, 2)
    values.check_key(table, words[0], key_words)
    action, call = _call(work, table, words[1], data)
    key = values.key(table, words[0], key_words)
    work.say(f"Adding entry to {table.kind.value} match table {words[0]}")
    shown = (f"{k.kind.name}-{values.shown_match(k, m, ':')}" for k, m in zip(table.keys, key, strict=True))
    work.say(f"{'match key:':20} " + "\t".join(shown))
    _say_call(work, words[1], action, call)
    _require_plain(table)
    if not table.keys:
        raise refused("table", "NO_TABLE_KEY", f"table {table.name} has no key: set its default action")
    message = _message(work, table, key, priority)
    message.action.CopyFrom(encode_action(work.info, call))
    _insert(work, table, message, key, priority)


def _say_call(work: Work, word: str, action: ir.Action, call: ActionCall) -> None:
    work.say(f"{'action:':20} {word}")
    pairs = zip(action.parameters, call.args, strict=True)
    data = (values.hexadecimal(value, parameter.width, ":") for parameter, value in pairs)
    work.say(f"{'runtime data:':20} " + "\t".join(data))


def _require_plain(table: ir.Table) -> None:
    if table.profile is not None:
        raise refused(
            "table", "WRONG_TABLE_TYPE", f"table {table.name} takes members and groups of {table.profile}, not actions"
        )


def table_indirect_add(work: Work, given: Sequence[str]) -> None:
    _indirect_add(work, given, "action_profile_member_id")


def table_indirect_add_with_group(work: Work, given: Sequence[str]) -> None:
    _indirect_add(work, given, "action_profile_group_id")


def _indirect_add(work: Work, given: Sequence[str], reference: str) -> None:
    words = list(given)
    table = work.names.tables.find(words[0])
    if table.profile is None:
        raise wrong("Cannot run this command on non-indirect table")
    key_words, handles, priority = _split(table, words, 1)
    if len(handles) != 1:
        raise wrong("Invalid arguments, could not find handle")
    handle = integer(handles[0], "handle")
    key = values.key(table, words[0], key_words)
    work.say(f"Adding entry to indirect match table {table.name}")
    message = _message(work, table, key, priority)
    if not 0 <= handle < (1 << 32) - 1:
        raise refused("table", "INVALID_GRP_HANDLE" if "group" in reference else "INVALID_MBR_HANDLE")
    setattr(message.action, reference, handle + 1)
    _insert(work, table, message, key, priority)


def entry_of(work: Work, table: ir.Table, word: str) -> Entry:
    """Return the entry that has this handle. Raises CliCommandError."""
    handle = integer(word, "entry handle")
    identity = work.switch.identity(table.name, handle)
    entry = None if identity is None else work.switch.entry(table.name, *identity)
    if entry is None:
        raise refused("table", "INVALID_HANDLE", f"table {table.name} has no entry with handle {handle}")
    return entry


def _whole(work: Work, table: ir.Table, entry: Entry) -> Any:
    """The entry's message with all that controllers have written, without counters."""
    request = p4runtime_pb2.TableEntry()
    request.meter_config.SetInParent()
    entity = entry_entity(work.switch, work.pipeline, work.table_info(table.name), entry, request)
    assert entity is not None, "the request filters nothing"
    entity.table_entry.is_const = False
    return entity.table_entry


def table_modify(work: Work, words: Sequence[str]) -> None:
    table = work.names.tables.find(words[0])
    data = words[4:] if words[3:4] == ["=>"] else words[3:]
    action_of(work, table, words[1], f"Table {table.name}")
    integer(words[2], "entry handle")
    _, call = _call(work, table, words[1], data)
    work.say(f"Modifying entry {words[2]} for {table.kind.value} match table {words[0]}")
    _require_plain(table)
    entry = entry_of(work, table, words[2])
    update, entity = update_of(Update.MODIFY)
    entity.table_entry.CopyFrom(_whole(work, table, entry))
    entity.table_entry.action.CopyFrom(encode_action(work.info, call))
    work.write("table", [update])


def table_delete(work: Work, words: Sequence[str]) -> None:
    table = work.names.tables.find(words[0])
    integer(words[1], "entry handle")
    work.say(f"Deleting entry {words[1]} from {words[0]}")
    entry = entry_of(work, table, words[1])
    work.write("table", [_deletion(work, table, entry)])


def _deletion(work: Work, table: ir.Table, entry: Entry) -> Any:
    update, entity = update_of(Update.DELETE)
    entity.table_entry.CopyFrom(_message(work, table, entry.key, entry.priority))
    return update


def table_clear(work: Work, words: Sequence[str]) -> None:
    table = work.names.tables.find(words[0])
    entries = work.switch.entries(table.name)
    work.write("table", [_deletion(work, table, entry) for entry in entries])


def table_set_default(work: Work, words: Sequence[str]) -> None:
    table = work.names.tables.find(words[0])
    action, call = _call(work, table, words[1], words[2:])
    work.say(f"Setting default action of {words[0]}")
    _say_call(work, words[1], action, call)
    _require_plain(table)
    _write_default(work, table, encode_action(work.info, call))


def table_reset_default(work: Work, words: Sequence[str]) -> None:
    _write_default(work, work.names.tables.find(words[0]), None)


def _write_default(work: Work, table: ir.Table, action: Any | None) -> None:
    update, entity = update_of(Update.MODIFY)
    entity.table_entry.table_id = work.table_info(table.name).id
    entity.table_entry.is_default_action = True
    if action is not None:
        entity.table_entry.action.CopyFrom(action)
    work.write("table", [update], {PermissionDeniedError: "DEFAULT_ENTRY_IS_CONST"})


def table_dump_entry(work: Work, words: Sequence[str]) -> None:
    table = work.names.tables.find(words[0])
    _dump(work, table, entry_of(work, table, words[1]))


def table_dump_entry_from_key(work: Work, given: Sequence[str]) -> None:
    words = list(given)
    table = work.names.tables.find(words[0])
    key_words, _, priority = _split(table, words, 1)
    wanted = values.key(table, words[0], key_words), priority
    for entry in work.switch.entries(table.name):
        if (entry.key, entry.priority) == wanted:
            _dump(work, table, entry)
            return
    raise refused("table", "BAD_MATCH_KEY", f"table {table.name} has no entry with this key")


def _dump(work: Work, table: ir.Table, entry: Entry) -> None:
    names = [values.field_name(key) for key in table.keys]
    width = max([20, *map(len, names)])
    work.say(f"Dumping entry {work.switch.handle(table.name, entry.key, entry.priority):#x}")
    work.say("Match key:")
    for name, key, match in zip(names, table.keys, entry.key, strict=True):
        work.say(f"* {name:{width}}: {key.kind.name:10}{values.shown_match(key, match)}")
    if table.kind in _TERNARY:
        work.say(f"Priority: {_PRIORITIES - entry.priority}")
    reference = work.pipeline.notes.profiles.references.get((table.name, entry.key, entry.priority))
    which = None if reference is None else reference.WhichOneof("type")
    if reference is not None and which == "action_profile_member_id":
        work.say(f"Index: member({reference.action_profile_member_id - 1})")
    elif reference is not None and which == "action_profile_group_id":
        work.say(f"Index: group({reference.action_profile_group_id - 1})")
    else:
        for call in entry.action.calls if isinstance(entry.action, ActionSet) else (entry.action,):
            work.say(values.shown_call(call))


def table_dump(work: Work, words: Sequence[str]) -> None:
    table = work.names.tables.find(words[0])
    work.say("==========")
    work.say("TABLE ENTRIES")
    for entry in work.switch.entries(table.name):
        work.say("**********")
        _dump(work, table, entry)
    if table.profile is not None:
        dump_profile(work, table.profile)
    work.say("==========")
    work.say("Dumping default entry")
    default = work.switch.default_action(table.name)
    if default is None or default.name == _NONE or table.profile is not None:
        work.say("EMPTY")
    else:
        work.say(values.shown_call(default))
    work.say("==========")
