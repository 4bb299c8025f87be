# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packet tests in the language STF of p4c: the commands of a file, and a runner that carries them out on a switch."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from softswitch.errors import DeviceError
from softswitch.program import ir
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, Exact, KeyMatch, Lpm, Range, Replica, Ternary
from softswitch.switch import SoftSwitch


@dataclass(frozen=True)
class Sample:
    """``json`` and ``p4info``: what p4c made of ``source``. ``test``: its packet test, None where there is none.

    ``p4info`` is empty where p4c makes none of the program.
    """

    name: str
    source: Path
    json: Path
    test: Path | None

    @property
    def p4info(self) -> Path:
        return self.json.with_suffix(".p4info.txtpb")


class StfError(ValueError):
    """A line that is no statement."""


@dataclass(frozen=True)
class Send:
    port: int
    frame: bytes


@dataclass(frozen=True)
class Expect:
    """``pattern``: hexadecimal digits and ``*``; None for any frame. ``whole``: nothing may follow it.

    ``port`` None: no frame at all leaves.
    """

    port: int | None
    pattern: str | None = None
    whole: bool = False

    def fits(self, frame: bytes) -> bool:
        if self.pattern is None:
            return True
        text = frame.hex().upper()
        if len(text) < len(self.pattern) or (self.whole and len(text) != len(self.pattern)):
            return False
        return all(wanted in ("*", digit) for wanted, digit in zip(self.pattern, text, strict=False))


@dataclass(frozen=True)
class Call:
    name: str
    args: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Add:
    table: str
    priority: int | None
    keys: tuple[tuple[str, str], ...]
    call: Call


@dataclass(frozen=True)
class SetDefault:
    table: str
    call: Call


@dataclass(frozen=True)
class Command:
    words: tuple[str, ...]


Statement = Send | Expect | Add | SetDefault | Command

_NAME = r"\"[^\"]+\"|[A-Za-z_$][\w$.\[\]]*"
_ADD = re.compile(
    rf"(?P<table>{_NAME})\s+(?:(?P<priority>\d+)\s+)?(?P<keys>.*?)\s*(?P<action>{_NAME})\s*\((?P<args>.*)\)"
)
_DEFAULT = re.compile(rf"(?P<table>{_NAME})\s+(?P<action>{_NAME})\s*\((?P<args>.*)\)")
_KEY = re.compile(rf"({_NAME})\s*:\s*([0-9A-Za-z*]+(?:/\d+)?)\s*")
_ARGUMENT = re.compile(r"\s*([\w$.]+)\s*:\s*([0-9A-Za-z]+)\s*")


def parse(text: str) -> list[Statement]:
    """Raises StfError, which names the line."""
    statements: list[Statement] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split(None, 1)
        if words:
            try:
                statements += _statement(words[0].lower(), words[1].strip() if words[1:] else "")
            except ValueError as error:
                raise StfError(f"line {number}: {line.strip()!r}: {error}") from error
    return statements


def _statement(kind: str, rest: str) -> Iterator[Statement]:
    if kind == "packet":
        port, data = _port_and_data(rest)
        yield Send(port, bytes.fromhex(data))
    elif kind == "expect":
        port, data = _port_and_data(rest)
        whole = data.endswith("$")
        yield Expect(port, data.rstrip("$").upper() or None, whole)
    elif kind == "no_packet":
        yield Expect(None)
    elif kind == "add":
        found = _matched(_ADD, rest.split("=", maxsplit=1)[0].strip())
        keys = tuple((_plain(name), value) for name, value in _all(_KEY, found["keys"]))
        priority = None if found["priority"] is None else int(found["priority"])
        yield Add(_plain(found["table"]), priority, keys, _call(found))
    elif kind == "setdefault":
        found = _matched(_DEFAULT, rest)
        yield SetDefault(_plain(found["table"]), _call(found))
    elif kind != "wait":
        yield Command((kind, *rest.split()))


def _port_and_data(rest: str) -> tuple[int, str]:
    port, _, data = rest.partition(" ")
    return int(port), "".join(data.split())


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError("is no statement")
    return found


def _all(pattern: re.Pattern[str], text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise ValueError(f"{text[at:]!r} is no NAME:VALUE")
        found.append((match[1], match[2]))
        at = match.end()
    return found


def _call(found: re.Match[str]) -> Call:
    args = [_all(_ARGUMENT, part)[0] for part in found["args"].split(",") if part.strip()]
    return Call(_plain(found["action"]), tuple(args))


def _plain(name: str) -> str:
    return name.strip('"')


def number(text: str) -> int:
    """A number of STF: decimal, or with 0x, 0b or 0o."""
    return int(text, 0) if text[:2].lower() in ("0x", "0b", "0o") else int(text)


_BITS = {"0x": 4, "0b": 1, "0o": 3}
_VALID = ".$valid$"


# p4c's runner looks at no answer of these either.
_UNREAD = ("register_read", "counter_read", "check_counter", "remove")
_PRIORITIES = (1 << 31) - 1  # one of the command line, where the smaller wins, and one of the switch together


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
                case _:
                    self.write(statement)
        for port in sorted(looked_at):
            outcome.faults += _compared(port, expected[port], outcome.sent[port])
        return outcome

    def write(self, statement: Add | SetDefault | Command) -> str:
        """Carry out what is no packet. Returns the same as a command of ``simple_switch_CLI``, empty if it is nothing.

        Raises PacketTestError and DeviceError.
        """
        match statement:
            case Add(name):
                table, entry = self._table(name), self._entry(statement)
                self._switch.insert(table.name, entry)
                return _as_command(table, entry)
            case SetDefault(name, call):
                table = self._table(name)
                action = self._action(table, call)
                self._switch.set_default_action(table.name, action)
                return " ".join(("table_set_default", table.name, action.name, *map(hex, action.args)))
            case Command(words):
                self._command(words)
                return "" if words[0] in _UNREAD else " ".join(words)

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

    def _entry(self, statement: Add) -> Entry:
        table = self._table(statement.table)
        given: dict[int, str] = {}
        for name, value in statement.keys:
            given[_key_of(table, name)] = value
        matches = tuple(_match(key, given.get(index)) for index, key in enumerate(table.keys))
        ordered = table.kind in (ir.MatchKind.TERNARY, ir.MatchKind.RANGE)
        # bmv2's command line turns priorities around, as p4c's own runner does.
        priority = max(1, statement.priority or 0) if ordered else 0
        return Entry(matches, self._action(table, statement.call), priority)

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
            case _ if words[0] not in _UNREAD:
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


def _as_command(table: ir.Table, entry: Entry) -> str:
    if table.profile is not None:
        raise PacketTestError(f"table {table.name} takes members of {table.profile}, which have no command here")
    assert isinstance(entry.action, ActionCall)
    words = ["table_add", table.name, entry.action.name, *map(_key_word, entry.key), "=>", *map(hex, entry.action.args)]
    return " ".join([*words, str(_PRIORITIES - entry.priority)] if entry.priority else words)


def _key_word(match: KeyMatch) -> str:
    match match:
        case Exact(value):
            return hex(value)
        case Lpm(value, length):
            return f"{value:#x}/{length}"
        case Ternary(value, mask):
            return f"{value:#x}&&&{mask:#x}"
        case Range(low, high):
            return f"{low:#x}->{high:#x}"


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
