# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The data that the control plane writes, as plain numbers, and the rules for it. Matches, calls and entries are
tuples: they are made and hashed in great numbers. In one field all matches are of one kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from softswitch.errors import InvalidEntryError
from softswitch.program import ir
from softswitch.program.limits import ACTION_SET


class Exact(NamedTuple):
    value: int


class Lpm(NamedTuple):
    value: int
    prefix_len: int


class Ternary(NamedTuple):
    value: int
    mask: int


class Range(NamedTuple):
    low: int
    high: int


KeyMatch = Exact | Lpm | Ternary | Range


class ActionCall(NamedTuple):
    """An action to call, with ``args`` in the order of its parameters."""

    name: str
    args: tuple[int, ...] = ()


class ActionSet(NamedTuple):
    """Several actions of one entry. For each packet the table's selector runs one of ``calls``: the call whose number
    is the hash modulo their count. A call that occurs n times has n shares."""

    calls: tuple[ActionCall, ...]


@dataclass(frozen=True, slots=True)
class CounterValue:
    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class MeterRates:
    """The rates of a meter's committed and peak buckets: units (bytes or packets) per second, and the bucket's size in
    units."""

    committed: float
    committed_burst: int
    peak: float
    peak_burst: int


class Entry(NamedTuple):
    """One row of a table. ``key`` has one match per key field, in the table's order (a "don't care" is Lpm(0, 0),
    Ternary(0, 0) or the full Range). ``priority`` is P4Runtime's: larger wins; it is 0 if the table has neither ternary
    nor range keys. ``counter`` is None without a direct counter."""

    key: tuple[KeyMatch, ...]
    action: ActionCall | ActionSet
    priority: int = 0
    is_const: bool = False
    counter: CounterValue | None = None


@dataclass(frozen=True, slots=True)
class Replica:
    port: int
    instance: int


_MATCH_TYPES: dict[ir.MatchKind, type] = {
    ir.MatchKind.EXACT: Exact,
    ir.MatchKind.LPM: Lpm,
    ir.MatchKind.TERNARY: Ternary,
    ir.MatchKind.RANGE: Range,
}

_PLAIN = (0, False, None)  # priority, is_const, counter


class EntryChecks:
    """Checks entries of one table. ``actions``: the program's, by index."""

    def __init__(self, table: ir.Table, actions: Mapping[int, ir.Action]) -> None:
        self.table = table
        self._actions = actions
        # The first of a name counts.
        self._indices = {actions[index].name: index for index in reversed(table.actions)}
        self.has_priorities = table.kind in (ir.MatchKind.TERNARY, ir.MatchKind.RANGE)

    @property
    def is_writable(self) -> bool:
        """Whether :meth:`check_writable` passes."""
        return bool(self.table.keys) and not self._is_constant

    @property
    def _is_constant(self) -> bool:
        return self.table.entries is not None and self.table.entries_const

    def check_writable(self) -> None:
        """Raise InvalidEntryError for a table that takes no entries from the control plane."""
        if self._is_constant:
            raise InvalidEntryError(f"table {self.table.name}: its entries are constant")
        if not self.table.keys:
            raise InvalidEntryError(f"table {self.table.name} has no key and takes no entries")

    def checked(self, entry: Entry) -> Entry:
        """Return the entry as the table stores it. Raises InvalidEntryError if it does not fit the table."""
        name = self.table.name
        if len(entry.key) != len(self.table.keys):
            raise InvalidEntryError(f"table {name}: {len(entry.key)} key fields, the table has {len(self.table.keys)}")
        for match, key in zip(entry.key, self.table.keys, strict=True):
            self._check_match(match, key)
        if self.has_priorities and entry.priority <= 0:
            raise InvalidEntryError(
                f"table {name}: priority {entry.priority}, a ternary or range table needs one above 0"
            )
        if not self.has_priorities and entry.priority != 0:
            raise InvalidEntryError(
                f"table {name}: priority {entry.priority}, a table without ternary or range keys has 0"
            )
        for call in self._calls(entry.action):
            self.action_index(call)
        if entry.counter is not None and not self.table.has_counter:
            raise InvalidEntryError(f"table {name} has no direct counter")
        return entry._replace(is_const=False) if entry.is_const else entry

    def calls_that_fit(self, entries: Sequence[Entry]) -> list[ActionCall] | None:
        """Return the call of each entry, if :meth:`checked` accepts all of them unchanged. The check by columns is
        faster.

        Returns None if an entry does not fit, for tables whose entries have priorities, and for entries with several
        actions.
        """
        keys, actions, *others = zip(*entries, strict=True)
        calls = [action for action in actions if isinstance(action, ActionCall)]
        shapes = set(map(len, keys)), set(zip(*others, strict=True)), len(calls)
        if self.has_priorities or shapes != ({len(self.table.keys)}, {_PLAIN}, len(actions)):
            return None
        columns = zip(zip(*keys, strict=True), self.table.keys, strict=True)
        fit = all(_matches_fit(*column) for column in columns) and self._calls_fit(calls)
        return calls if fit else None

    def _calls_fit(self, calls: Sequence[ActionCall]) -> bool:
        args_by_name: dict[str, list[tuple[int, ...]]] = {}
        for call in calls:
            args_by_name.setdefault(call.name, []).append(call.args)
        return all(name in self._indices and self._args_fit(name, args) for name, args in args_by_name.items())

    def _args_fit(self, name: str, args: Sequence[tuple[int, ...]]) -> bool:
        parameters = self._actions[self._indices[name]].parameters
        if set(map(len, args)) != {len(parameters)}:
            return False
        columns = zip(zip(*args, strict=True), parameters, strict=True)
        return all(_numbers_fit(column, parameter.width) for column, parameter in columns)

    def _calls(self, action: ActionCall | ActionSet) -> tuple[ActionCall, ...]:
        if isinstance(action, ActionCall):
            return (action,)
        name = self.table.name
        if self.table.selector is None:
            raise InvalidEntryError(f"table {name} has no action selector with a hash that the switch has")
        if not 1 <= len(action.calls) <= ACTION_SET:
            raise InvalidEntryError(f"table {name}: {len(action.calls)} actions of one entry, of 1..{ACTION_SET}")
        return action.calls

    def _check_match(self, match: KeyMatch, key: ir.Key) -> None:
        if not isinstance(match, _MATCH_TYPES[key.kind]):
            self._refuse(key, f"{type(match).__name__}, the key is matched by {key.kind.value}")
        full = (1 << key.width) - 1
        match match:
            case Exact(value):
                numbers = [value]
            case Lpm(value, prefix_len):
                numbers = [value]
                if not 0 <= prefix_len <= key.width:
                    self._refuse(key, f"prefix length {prefix_len} is not in 0..{key.width}")
                if value & (full >> prefix_len):
                    self._refuse(key, f"value {value:#x} has bits behind its {prefix_len}-bit prefix")
            case Ternary(value, mask):
                numbers = [value, mask]
                if value & ~mask:
                    self._refuse(key, f"value {value:#x} has bits outside its mask {mask:#x}")
            case Range(low, high):
                numbers = [low, high]
                if low > high:
                    self._refuse(key, f"range {low:#x}..{high:#x} is empty")
        for number in numbers:
            if not 0 <= number <= full:
                self._refuse(key, f"{number:#x} does not fit in {key.width} bits")

    def _refuse(self, key: ir.Key, why: str) -> NoReturn:
        raise InvalidEntryError(f"table {self.table.name}, key {key.name}: {why}")

    def action_index(self, call: ActionCall) -> int:
        """Return the action's index in the program. Raises InvalidEntryError."""
        index = self._indices.get(call.name)
        if index is None:
            raise InvalidEntryError(f"table {self.table.name} has no action {call.name}")
        action = self._actions[index]
        if len(call.args) != len(action.parameters):
            raise InvalidEntryError(
                f"action {call.name}: {len(call.args)} arguments, it has {len(action.parameters)} parameters"
            )
        for value, parameter in zip(call.args, action.parameters, strict=True):
            if not 0 <= value < 1 << parameter.width:
                raise InvalidEntryError(
                    f"action {call.name}, parameter {parameter.name}: {value:#x} does not fit in {parameter.width} bits"
                )
        return index


def _matches_fit(column: Sequence[KeyMatch], key: ir.Key) -> bool:
    if set(map(type, column)) != {_MATCH_TYPES[key.kind]}:
        return False
    if key.kind is ir.MatchKind.EXACT:
        return _numbers_fit([match[0] for match in column], key.width)
    values, lengths = [match[0] for match in column], [match[-1] for match in column]
    if min(lengths) < 0 or max(lengths) > key.width or not _numbers_fit(values, key.width):
        return False
    behind = [((1 << key.width) - 1) >> length for length in range(key.width + 1)]
    return not any(value & behind[length] for value, length in zip(values, lengths, strict=True))


def _numbers_fit(numbers: Sequence[int], width: int) -> bool:
    return min(numbers) >= 0 and max(numbers) < 1 << width
