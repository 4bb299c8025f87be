# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All commands by name, and what carries out a line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonlib.untrusted import escaped

from softswitch.cli_door import externs, profiles, replication, tables
from softswitch.cli_door.state import State
from softswitch.cli_door.values import CliCommandError, wrong
from softswitch.cli_door.work import Work
from softswitch.errors import DeviceError
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.switch import SoftSwitch

Run = Callable[[Work, Sequence[str]], None]
_MANY: Final = sys.maxsize


@dataclass(frozen=True, slots=True)
class Command:
    """A command. ``usage``: its arguments, for ``help``. ``least`` and ``most``: how many it takes."""

    usage: str
    text: str
    run: Run
    least: int
    most: int


def _ports(work: Work, _: Sequence[str]) -> None:
    work.say(f"{'port #':^10}{'iface name':^20}{'status':^10}extra info")
    work.say("=" * 50)
    for number, name in sorted(work.ports.items()):
        work.say(f"{number:^10}{name:^20}{_status(name):^10}")


def _status(interface: str) -> str:
    try:
        return "DOWN" if Path(f"/sys/class/net/{interface}/operstate").read_text().strip() == "down" else "UP"
    except OSError:
        return "DOWN"


def _switch_info(work: Work, _: Sequence[str]) -> None:
    work.say(f"{'engine':15}: {work.switch.engine}")
    work.say(f"{'cpu_port':15}: {work.switch.cpu_port}")
    work.say(f"{'drop_port':15}: {work.switch.drop_port}")


def _time(work: Work, _: Sequence[str]) -> None:
    work.say(str(work.switch.loaded.now_us()))


def _not_offered(why: str) -> Run:
    def run(_: Work, __: Sequence[str]) -> None:
        raise wrong(why)

    return run


def _old(run: Run) -> Run:
    """A command of the time when a profile had one table, and that table's name."""

    def old(work: Work, words: Sequence[str]) -> None:
        run(work, profiles.profile_of_table(work, words))

    return old


_TABLE, _MEMBER, _GROUP = "<table>", "<member handle>", "<group handle>"
_PROFILE: Final = "<action profile>"
_DATA: Final = "[action parameters]"
_ENTRY: Final = "<entry handle>"
_PORTS: Final = "<ports, with spaces between them>"
# fmt: off
_OWN: Final = (
    ("show_tables", "", "List the tables of the program", tables.show_tables),
    ("show_actions", "", "List the actions of the program", tables.show_actions),
    ("show_ports", "", "List the ports of the switch", _ports),
    ("switch_info", "", "Show what runs", _switch_info),
    ("table_show_actions", _TABLE, "List the actions of a table", tables.table_show_actions),
    ("table_info", _TABLE, "Show a table and its actions", tables.table_info),
    ("table_num_entries", _TABLE, "Count the entries of a table", tables.table_num_entries),
    ("table_add", f"{_TABLE} <action> <match fields> => <action parameters> [priority]", "Add an entry",
     tables.table_add),
    ("table_modify", f"{_TABLE} <action> {_ENTRY} {_DATA}", "Give an entry another action", tables.table_modify),
    ("table_delete", f"{_TABLE} {_ENTRY}", "Delete an entry", tables.table_delete),
    ("table_clear", _TABLE, "Delete all entries of a table", tables.table_clear),
    ("table_set_default", f"{_TABLE} <action> {_DATA}", "Set the default action of a table", tables.table_set_default),
    ("table_reset_default", _TABLE, "Restore the program's default action", tables.table_reset_default),
    ("table_dump", _TABLE, "Show all entries of a table", tables.table_dump),
    ("table_dump_entry", f"{_TABLE} {_ENTRY}", "Show an entry", tables.table_dump_entry),
    ("table_dump_entry_from_key", f"{_TABLE} <match fields> [priority]", "Show the entry with a key",
     tables.table_dump_entry_from_key),
    ("table_indirect_add", f"{_TABLE} <match fields> => {_MEMBER} [priority]", "Add an entry with a member",
     tables.table_indirect_add),
    ("table_indirect_add_with_group", f"{_TABLE} <match fields> => {_GROUP} [priority]", "Add an entry with a group",
     tables.table_indirect_add_with_group),
    ("table_indirect_delete", f"{_TABLE} {_ENTRY}", "Delete an entry", tables.table_delete),
    ("act_prof_create_member", f"{_PROFILE} <action> {_DATA}", "Add a member", profiles.act_prof_create_member),
    ("act_prof_modify_member", f"{_PROFILE} <action> {_MEMBER} {_DATA}", "Give a member another action",
     profiles.act_prof_modify_member),
    ("act_prof_delete_member", f"{_PROFILE} {_MEMBER}", "Delete a member", profiles.act_prof_delete_member),
    ("act_prof_create_group", _PROFILE, "Add a group without members", profiles.act_prof_create_group),
    ("act_prof_delete_group", f"{_PROFILE} {_GROUP}", "Delete a group", profiles.act_prof_delete_group),
    ("act_prof_add_member_to_group", f"{_PROFILE} {_MEMBER} {_GROUP}", "Put a member into a group",
     profiles.act_prof_add_member_to_group),
    ("act_prof_remove_member_from_group", f"{_PROFILE} {_MEMBER} {_GROUP}", "Take a member out of a group",
     profiles.act_prof_remove_member_from_group),
    ("act_prof_dump", _PROFILE, "Show members and groups", profiles.act_prof_dump),
    ("act_prof_dump_member", f"{_PROFILE} {_MEMBER}", "Show a member", profiles.act_prof_dump_member),
    ("act_prof_dump_group", f"{_PROFILE} {_GROUP}", "Show a group", profiles.act_prof_dump_group),
    ("register_read", "<register> [index]", "Read a cell, or all", externs.register_read),
    ("register_write", "<register> <index> <value>", "Write a cell", externs.register_write),
    ("register_reset", "<register>", "Set all cells to 0", externs.register_reset),
    ("counter_read", "<counter> <index or entry handle>", "Read a counter", externs.counter_read),
    ("counter_write", "<counter> <index or entry handle> <packets> <bytes>", "Write a counter", externs.counter_write),
    ("counter_reset", "<counter>", "Set all cells to 0", externs.counter_reset),
    ("meter_get_rates", "<meter> <index or entry handle>", "Show the rates of a meter", externs.meter_get_rates),
    ("meter_set_rates", "<meter> <index or entry handle> <rate>:<burst> <rate>:<burst>",
     "Set the rates of a meter, in bytes or packets a microsecond, and bursts", externs.meter_set_rates),
    ("meter_array_set_rates", "<meter> <rate>:<burst> <rate>:<burst>", "Set the rates of all meters of an array",
     externs.meter_array_set_rates),
    ("mc_mgrp_create", "<group id>", "Create a multicast group", replication.mc_mgrp_create),
    ("mc_mgrp_destroy", "<group id>", "Destroy a multicast group", replication.mc_mgrp_destroy),
    ("mc_node_create", f"<rid> [{_PORTS}]", "Create a multicast node", replication.mc_node_create),
    ("mc_node_update", f"<node handle> [{_PORTS}]", "Give a node other ports", replication.mc_node_update),
    ("mc_node_associate", "<group id> <node handle>", "Put a node into a group", replication.mc_node_associate),
    ("mc_node_dissociate", "<group id> <node handle>", "Take a node out of a group", replication.mc_node_dissociate),
    ("mc_node_destroy", "<node handle>", "Destroy a node", replication.mc_node_destroy),
    ("mc_dump", "", "Show multicast groups and nodes", replication.mc_dump),
    ("mirroring_add", "<session> <port>", "Let clones of a session leave by a port", replication.mirroring_add),
    ("mirroring_add_mc", "<session> <group id>", "Let clones of a session leave by a multicast group",
     replication.mirroring_add_mc),
    ("mirroring_delete", "<session>", "Delete a session", replication.mirroring_delete),
    ("mirroring_get", "<session>", "Show a session", replication.mirroring_get),
    ("get_time_elapsed", "", "Show the microseconds since the switch started", _time),
    ("get_time_since_epoch", "", "Show the microseconds since the switch started", _time),
)
_NO_QUEUE: Final = "packets wait in no queue, so there is no depth and no rate to set"
_NO_LAG: Final = "link aggregation groups (LAGs) are not offered"
_BY_P4RUNTIME: Final = "a program is replaced over P4Runtime (SetForwardingPipelineConfig)"
_FIXED: Final = "the parameters of a hash are those of the program"
_PORTS_STAY: Final = "ports are those of the command line (-i PORT@INTERFACE)"
_SETS: Final = "value sets are written over P4Runtime"
_DEFAULT_STAYS: Final = "the default action of a table with an action profile is the program's"
_NOT_OFFERED: Final = {
    "set_queue_depth": _NO_QUEUE, "set_queue_rate": _NO_QUEUE, "mc_set_lag_membership": _NO_LAG,
    "load_new_config_file": _BY_P4RUNTIME, "swap_configs": _BY_P4RUNTIME,
    "write_config_to_file": "the program is read over P4Runtime (GetForwardingPipelineConfig)",
    "serialize_state": "the state is not written to files; read it with table_dump and the other commands",
    "port_add": _PORTS_STAY, "port_remove": _PORTS_STAY, "set_crc16_parameters": _FIXED,
    "set_crc32_parameters": _FIXED, "set_toeplitz_hash_key": _FIXED, "shell": "use a shell beside this one",
    "table_set_timeout": "idle timeouts are set over P4Runtime (idle_timeout_ns)",
    "table_indirect_set_default": _DEFAULT_STAYS, "table_indirect_set_default_with_group": _DEFAULT_STAYS,
    "table_indirect_reset_default": _DEFAULT_STAYS,
    "show_pvs": _SETS, "pvs_add": _SETS, "pvs_remove": _SETS, "pvs_get": _SETS, "pvs_clear": _SETS,
}
_OLD: Final = {
    "table_indirect_create_member": "act_prof_create_member",
    "table_indirect_modify_member": "act_prof_modify_member",
    "table_indirect_delete_member": "act_prof_delete_member",
    "table_indirect_create_group": "act_prof_create_group",
    "table_indirect_delete_group": "act_prof_delete_group",
    "table_indirect_add_member_to_group": "act_prof_add_member_to_group",
    "table_indirect_remove_member_from_group": "act_prof_remove_member_from_group",
    "table_dump_member": "act_prof_dump_member",
    "table_dump_group": "act_prof_dump_group",
}
# fmt: on
_RESET: Final = "reset_state"


def _counts(usage: str) -> tuple[int, int]:
    """The least and the most arguments that a usage line allows."""
    if not usage:
        return 0, 0
    usage = usage.replace(">:<", ":")
    least = usage.count("<") - usage.count("[<")
    open_ended = any(word in usage for word in ("match fields", "parameters", "ports, with", "<rate"))
    if open_ended:
        optional = ("match fields", "<action parameters>", "<rate:burst>")
        return least - sum(usage.count(word) for word in optional), _MANY
    return least, least + usage.count("[")


def _command(usage: str, text: str, run: Run) -> Command:
    return Command(usage, text, run, *_counts(usage))


COMMANDS: Final[Mapping[str, Command]] = {
    **{name: _command(usage, text, run) for name, usage, text, run in _OWN},
    **{name: Command("", f"Not offered: {why}", _not_offered(why), 0, _MANY) for name, why in _NOT_OFFERED.items()},
    _RESET: Command("", "Load the program anew: without entries, counts and groups", _not_offered(""), 0, 0),
}
"""Commands by name, without the old names of some."""


def _found(name: str) -> Command | None:
    if name in _OLD:
        known = COMMANDS[_OLD[name]]
        return Command(known.usage.replace(_PROFILE, _TABLE), known.text, _old(known.run), known.least, known.most)
    return COMMANDS.get(name)


def _help(words: Sequence[str]) -> list[str]:
    if not words:
        return ["Commands (help <command> says more):", *(f"  {name}" for name in sorted([*COMMANDS, *_OLD, "help"]))]
    command = _found(words[0])
    if command is None:
        return [f"*** No help on {escaped(words[0])}"]
    return [f"{command.text}: {words[0]} {command.usage}".rstrip()]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command prints. ``out``: for the output; ``err``: beside it."""

    out: list[str]
    err: list[str]


class Commander:
    """Carries out commands, one at a time, between the writes of controllers. ``ports``: interfaces by number."""

    def __init__(self, switch: SoftSwitch, service: P4RuntimeService, ports: Mapping[int, str]) -> None:
        self._switch = switch
        self._service = service
        self._ports = ports
        self._state: State | None = None

    def answer(self, line: str) -> Answer:
        """Carry out one line. Never raises what is wrong with it: the answer says so."""
        words = line.split()
        if not words or words[0].startswith("#"):
            return Answer([], [])
        answer = Answer([], [])
        try:
            if not all(word.isprintable() for word in words):
                raise wrong(f"the line has characters that cannot be printed: {escaped(line)}")
            self._carry_out(words[0], words[1:], answer)
        except CliCommandError as error:
            answer.out.append(error.said)
            answer.err.extend([error.why] if error.why else [])
        except DeviceError as error:
            answer.out.append(f"Error: {error}")
        return answer

    def _carry_out(self, name: str, words: Sequence[str], answer: Answer) -> None:
        if name in ("help", "?"):
            answer.out.extend(_help(words))
            return
        command = _found(name)
        if command is None:
            raise CliCommandError(f"*** Unknown syntax: {escaped(' '.join([name, *words]))}")
        _check_count(command, len(words))
        if name == _RESET:
            self._service.reset()
            return
        with self._service.lent() as pipeline:
            if self._state is None or self._state.pipeline is not pipeline:
                self._state = State(self._switch, pipeline)
            command.run(Work(self._switch, self._ports, self._state, answer.out, answer.err), words)


def _check_count(command: Command, count: int) -> None:
    if command.least == command.most != count:
        raise wrong(f"Wrong number of args, expected {command.least} but got {count}")
    if count < command.least:
        raise wrong("Insufficient number of args")
    if count > command.most:
        raise wrong(f"Wrong number of args, expected {command.most} but got {count}")
