# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a packet test on a switch of this process, and says what went otherwise than the test expects."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from softswitch.errors import DeviceError
from softswitch.fuzz.samples.stf import Add, Call, Command, Expect, Send, SetDefault, Statement, number
from softswitch.program import ir
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, Exact, KeyMatch, Lpm, Range, Replica, Ternary
from softswitch.switch import SoftSwitch

_BITS = {"0x": 4, "0b": 1, "0o": 3}
_VALID = ".$valid$"


class PacketTestError(Exception):
    """The test names what the program has not, or cannot be run here."""


@dataclass
class Outcome:
    """``sent``: frames that left by port, in order. ``faults``: what differs from the test, empty if it passes."""

    sent: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    faults: list[str] = field(default_factory=list)


class StfRunner:
    def __init__(self, switch: SoftSwitch) -> None:
        self._switch = switch
        self._program = switch.loaded.program
        self._actions = {action.index: action for action in self._program.actions}
        self._nodes: list[tuple[int, int]] = []  # of multicast: replication ids and their ports, by handle
        self._ports: dict[int, list[int]] = {}
        self._groups: dict[int, list[int]] = {}

    def run(self, statements: Sequence[Statement]) -> Outcome:
        """Raises PacketTestError, and DeviceError for what the switch refuses."""
        outcome = Outcome()
        expected: dict[int, list[Expect]] = defaultdict(list)
        looked_at = {s.port for s in statements if isinstance(s, Send | Expect) and s.port is not None}
        for statement in statements:
            match statement:
                case Send(port, frame):
                    for out_port, out_frame in self._switch.process(port, frame):
                        outcome.sent[out_port].append(out_frame)
                case Expect(port):
                    if port is not None:
                        expected[port].append(statement)
                case Add():
                    self._add(statement)
                case SetDefault(name, call):
                    table = self._table(name)
                    self._switch.set_default_action(table.name, self._action(table, call))
                case Command(words):
                    self._command(words)
        for port in sorted(looked_at):
            outcome.faults += _compared(port, expected[port], outcome.sent[port])
        return outcome

    # -- tables ----------------------------------------------------------

    def _table(self, name: str) -> ir.Table:
        tables = self._program.tables
        return tables[_only(name, list(tables), "table")]

    def _action(self, table: ir.Table, call: Call) -> ActionCall:
        actions = {self._actions[index].name: self._actions[index] for index in table.actions}
        action = actions[_only(call.name, list(actions), f"action of table {table.name}")]
        given = dict(call.args)
        try:
            args = tuple(number(given[parameter.name]) for parameter in action.parameters)
        except KeyError as error:
            raise PacketTestError(f"action {action.name} without a value for {error}") from error
        widths = (parameter.width for parameter in action.parameters)
        return ActionCall(action.name, tuple(v % (1 << width) for v, width in zip(args, widths, strict=True)))

    def _add(self, statement: Add) -> None:
        table = self._table(statement.table)
        given: dict[int, str] = {}
        for name, value in statement.keys:
            given[_key_of(table, name)] = value
        matches = tuple(_match(key, given.get(index)) for index, key in enumerate(table.keys))
        ordered = table.kind in (ir.MatchKind.TERNARY, ir.MatchKind.RANGE)
        # bmv2's command line turns priorities around, as p4c's own runner does.
        priority = max(1, statement.priority or 0) if ordered else 0
        self._switch.insert(table.name, Entry(matches, self._action(table, statement.call), priority))

    # -- commands --------------------------------------------------------

    def _command(self, words: tuple[str, ...]) -> None:
        numbers = [int(word, 0) if re.fullmatch(r"0x[0-9a-fA-F]+|\d+", word) else -1 for word in words]
        match words[0]:
            case "mc_mgrp_create":
                self._groups[numbers[1]] = []
                self._switch.set_group(numbers[1], [])
            case "mc_node_create":
                self._nodes.append((numbers[1], len(self._nodes)))
                self._ports[len(self._nodes) - 1] = numbers[2:]
            case "mc_node_associate":
                self._groups[numbers[1]].append(numbers[2])
                replicas = [
                    Replica(port, self._nodes[handle][0])
                    for handle in self._groups[numbers[1]]
                    for port in self._ports[handle]
                ]
                self._switch.set_group(numbers[1], replicas)
            case "mirroring_add":
                self._switch.set_session(numbers[1], [Replica(numbers[2], 0)])
            case "mirroring_add_mc":
                self._switch.set_session(numbers[1], [], numbers[2])
            case "mirroring_delete":
                self._switch.delete_session(numbers[1])
            case "register_write":
                self._switch.write_register(_only(words[1], list(self._program.registers), "register"), *numbers[2:4])
            case "register_reset":
                name = _only(words[1], list(self._program.registers), "register")
                for index in range(self._program.registers[name].size):
                    self._switch.write_register(name, index, 0)
            case "counter_write":
                name = _only(words[1], list(self._program.counters), "counter")
                self._switch.write_counter(name, numbers[2], CounterValue(numbers[3], numbers[4]))
            case "register_read" | "counter_read" | "check_counter" | "remove":
                pass  # p4c's runner looks at no answer either
            case _:
                raise PacketTestError(f"command {words[0]} is not known")


def _compared(port: int, expected: Sequence[Expect], sent: Sequence[bytes]) -> list[str]:
    if any(each.pattern is None for each in expected):
        return [] if len(expected) > 1 or sent else [f"port {port}: nothing left"]
    if len(expected) != len(sent):
        return [f"port {port}: {len(sent)} frames left, {len(expected)} expected"]
    return [
        f"port {port}, frame {index}: {frame.hex()} left, {wanted.pattern} expected"
        for index, (wanted, frame) in enumerate(zip(expected, sent, strict=True))
        if not wanted.fits(frame)
    ]


def _only(name: str, known: Sequence[str], what: str) -> str:
    """The one of ``known`` that is ``name`` or ends with it."""
    if name in known:
        return name
    found = [each for each in known if each.endswith(name)]
    if len(found) != 1:
        raise PacketTestError(f"{what} {name!r}: {len(found)} have such a name")
    return found[0]


def _key_of(table: ir.Table, name: str) -> int:
    """The key that p4c's runner would take for ``name``."""
    name = re.sub(r"\$(\d+)", r"[\1]", name)
    names = [key.name for key in table.keys]
    for wanted in (name, f"{name}$", f"{name}{_VALID}", name.removesuffix(".valid") + _VALID):
        if wanted in names:
            return names.index(wanted)
    ends = (f".{name}", f".{name}$") if name != "valid" else (f".{name}", _VALID, "$valid$")
    found = [index for index, own in enumerate(names) if own.endswith(ends)]
    if not found and name.endswith("$valid$"):
        found = [index for index, key in enumerate(table.keys) if isinstance(key.target, ir.Valid)]
    if not found:
        raise PacketTestError(f"table {table.name} has no key {name!r}: {', '.join(names)}")
    return found[-1]


def _match(key: ir.Key, text: str | None) -> KeyMatch:
    full = (1 << key.width) - 1
    if text is None:
        any_value: dict[ir.MatchKind, KeyMatch] = {
            ir.MatchKind.EXACT: Exact(0),
            ir.MatchKind.LPM: Lpm(0, 0),
            ir.MatchKind.TERNARY: Ternary(0, 0),
            ir.MatchKind.RANGE: Range(0, full),
        }
        return any_value[key.kind]
    if key.kind is ir.MatchKind.LPM:
        digits, _, length = text.partition("/")
        known = len(digits) - 2 - digits.count("*")
        prefix = int(length) if length else known * _BITS.get(digits[:2].lower(), 4)
        prefix = min(prefix, key.width)
        return Lpm(number(digits.replace("*", "0")) & (full ^ (full >> prefix)), prefix)
    value = number(text.replace("*", "0"))
    if key.kind is ir.MatchKind.TERNARY:
        bits = _BITS.get(text[:2].lower())
        mask = full
        if bits is not None:
            top = "1" if bits == 1 else "7" if bits == 3 else "F"
            mask = number(text[:2] + "".join("0" if digit == "*" else top for digit in text[2:])) & full
        return Ternary(value & mask, mask)
    if key.kind is ir.MatchKind.RANGE:
        return Range(value, value)
    return Exact(value & full)


__all__ = ["DeviceError", "Outcome", "PacketTestError", "StfRunner"]
