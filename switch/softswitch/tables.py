# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Match-action tables at run time: checked entries for the control plane, dict look-ups for packets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from softswitch import ir
from softswitch.device import (
    ActionCall,
    CounterValue,
    Entry,
    EntryExistsError,
    Exact,
    InvalidEntryError,
    KeyMatch,
    Lpm,
    NotFoundError,
    Range,
    TableFullError,
    Ternary,
)

MEMO_SIZE = 4096

Compiled = tuple[Any, ...]  # (position of the action, counter cell or None, *data): see emit_pipeline
Cell = list[int]  # [packets, bytes]
Compiler = Callable[[int, tuple[int, ...], Cell | None], Compiled]
Identity = tuple[tuple[KeyMatch, ...], int]

_MATCH_TYPES: dict[ir.MatchKind, type] = {
    ir.MatchKind.EXACT: Exact,
    ir.MatchKind.LPM: Lpm,
    ir.MatchKind.TERNARY: Ternary,
    ir.MatchKind.RANGE: Range,
}


@dataclass
class Row:
    entry: Entry
    compiled: Compiled


class RuntimeTable:
    """Entries of one table. ``exact`` (for exact tables) and ``memo`` (for the others) are looked up by the
    generated code; both keep their identity for the life of the table."""

    def __init__(
        self,
        table: ir.Table,
        actions: dict[int, ir.Action],
        compiler: Compiler,
        publish_default: Callable[[Compiled], None],
    ) -> None:
        self.table = table
        self._actions = actions
        self._compiler = compiler
        self._publish_default = publish_default
        self._rows: dict[Identity, Row] = {}
        self._ordered = table.kind in (ir.MatchKind.TERNARY, ir.MatchKind.RANGE)
        self.exact: dict[Any, Compiled] = {}
        self.memo: dict[Any, Compiled] = {}
        self._prefixes: list[tuple[tuple[int, ...], dict[tuple[int, ...], Compiled]]] = []
        self._scan: list[tuple[tuple[KeyMatch, ...], Compiled]] = []
        self.default: ActionCall
        self._default_compiled: Compiled
        self.set_default(None)
        for entry in self._const_entries():
            self._rows[entry.key, entry.priority] = self._compile(entry)
        self._rebuild()

    # -- control plane ---------------------------------------------------

    def entries(self) -> list[Entry]:
        return [self._read(row) for row in self._rows.values()]

    def insert(self, entry: Entry) -> None:
        self._check_writable()
        checked = self._checked(entry)
        identity = checked.key, checked.priority
        if identity in self._rows:
            raise EntryExistsError(f"table {self.table.name}: there is already an entry {self._describe(identity)}")
        if len(self._rows) >= self.table.size:
            raise TableFullError(f"table {self.table.name}: all {self.table.size} entries are in use")
        self._rows[identity] = self._compile(checked)
        self._rebuild()

    def modify(self, entry: Entry) -> None:
        """Without a counter value the entry keeps its counts."""
        self._check_writable()
        checked = self._checked(entry)
        row = self._row((checked.key, checked.priority))
        counter = checked.counter if checked.counter is not None else self._read(row).counter
        self._rows[checked.key, checked.priority] = self._compile(replace(checked, counter=counter))
        self._rebuild()

    def delete(self, key: tuple[KeyMatch, ...], priority: int) -> None:
        self._check_writable()
        self._row((key, priority))
        del self._rows[key, priority]
        self._rebuild()

    def set_default(self, action: ActionCall | None) -> None:
        """None restores the program's own default action."""
        if action is None:
            index, args = self.table.default_action, self.table.default_args
            self.default = ActionCall(self._actions[index].name, args)
        else:
            if self.table.default_const:
                raise InvalidEntryError(f"table {self.table.name}: its default action is constant")
            index, args = self._check_action(action), action.args
            self.default = action
        self._default_compiled = self._compiler(self.table.actions.index(index), args, None)
        self.memo.clear()
        self._publish_default(self._default_compiled)

    def write_counter(self, key: tuple[KeyMatch, ...], priority: int, value: CounterValue) -> None:
        if not self.table.has_counter:
            raise NotFoundError(f"table {self.table.name} has no direct counter")
        cell: Cell = self._row((key, priority)).compiled[1]
        cell[:] = value.packets, value.bytes

    # -- checks ----------------------------------------------------------

    def _check_writable(self) -> None:
        if self.table.entries is not None:
            raise InvalidEntryError(f"table {self.table.name}: its entries are constant")
        if not self.table.keys:
            raise InvalidEntryError(f"table {self.table.name} has no key and takes no entries")

    def _checked(self, entry: Entry) -> Entry:
        name = self.table.name
        if len(entry.key) != len(self.table.keys):
            raise InvalidEntryError(f"table {name}: {len(entry.key)} key fields, the table has {len(self.table.keys)}")
        for match, key in zip(entry.key, self.table.keys, strict=True):
            self._check_match(match, key)
        if self._ordered and entry.priority <= 0:
            raise InvalidEntryError(
                f"table {name}: priority {entry.priority}, a ternary or range table needs one above 0"
            )
        if not self._ordered and entry.priority != 0:
            raise InvalidEntryError(
                f"table {name}: priority {entry.priority}, a table without ternary or range keys has 0"
            )
        self._check_action(entry.action)
        if entry.counter is not None and not self.table.has_counter:
            raise InvalidEntryError(f"table {name} has no direct counter")
        return replace(entry, is_const=False)

    def _check_match(self, match: KeyMatch, key: ir.Key) -> None:
        where = f"table {self.table.name}, key {key.name}"
        if not isinstance(match, _MATCH_TYPES[key.kind]):
            raise InvalidEntryError(f"{where}: {type(match).__name__}, the key is matched by {key.kind.value}")
        full = (1 << key.width) - 1
        match match:
            case Exact(value):
                numbers = [value]
            case Lpm(value, prefix_len):
                numbers = [value]
                if not 0 <= prefix_len <= key.width:
                    raise InvalidEntryError(f"{where}: prefix length {prefix_len} is not in 0..{key.width}")
                if value & (full >> prefix_len):
                    raise InvalidEntryError(f"{where}: value {value:#x} has bits behind its {prefix_len}-bit prefix")
            case Ternary(value, mask):
                numbers = [value, mask]
                if value & ~mask:
                    raise InvalidEntryError(f"{where}: value {value:#x} has bits outside its mask {mask:#x}")
            case Range(low, high):
                numbers = [low, high]
                if low > high:
                    raise InvalidEntryError(f"{where}: range {low:#x}..{high:#x} is empty")
        for number in numbers:
            if not 0 <= number <= full:
                raise InvalidEntryError(f"{where}: {number:#x} does not fit in {key.width} bits")

    def _check_action(self, call: ActionCall) -> int:
        """The action's index in the program."""
        for index in self.table.actions:
            action = self._actions[index]
            if action.name == call.name:
                break
        else:
            raise InvalidEntryError(f"table {self.table.name} has no action {call.name}")
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

    def _row(self, identity: Identity) -> Row:
        row = self._rows.get(identity)
        if row is None:
            raise NotFoundError(f"table {self.table.name}: there is no entry {self._describe(identity)}")
        return row

    def _describe(self, identity: Identity) -> str:
        key, priority = identity
        return f"{', '.join(map(str, key))}" + (f" of priority {priority}" if self._ordered else "")

    # -- data plane ------------------------------------------------------

    def _compile(self, entry: Entry) -> Row:
        index = self._check_action(entry.action)
        cell: Cell | None = None
        if self.table.has_counter:
            counter = entry.counter or CounterValue()
            cell = [counter.packets, counter.bytes]
        return Row(entry, self._compiler(self.table.actions.index(index), entry.action.args, cell))

    def _read(self, row: Row) -> Entry:
        cell: Cell | None = row.compiled[1]
        return row.entry if cell is None else replace(row.entry, counter=CounterValue(*cell))

    def _const_entries(self) -> list[Entry]:
        constant = self.table.entries or ()
        lowest = max((entry.rank for entry in constant), default=0)
        entries = []
        for entry in constant:
            key = tuple(_match(pattern, field) for pattern, field in zip(entry.patterns, self.table.keys, strict=True))
            call = ActionCall(self._actions[entry.action].name, entry.args)
            entries.append(Entry(key, call, lowest - entry.rank + 1 if self._ordered else 0, is_const=True))
        return entries

    def _rebuild(self) -> None:
        self.memo.clear()
        rows = self._rows.values()
        if self.table.kind is ir.MatchKind.EXACT:
            self.exact.clear()
            for row in rows:
                values = tuple(match.value for match in row.entry.key if isinstance(match, Exact))
                self.exact[values if len(values) > 1 else values[0]] = row.compiled
        elif self.table.kind is ir.MatchKind.LPM:
            self._rebuild_prefixes()
        else:
            ranked = sorted(rows, key=lambda row: -row.entry.priority)
            widths = [key.width for key in self.table.keys]
            self._scan = [
                (
                    tuple(_without_prefix(match, width) for match, width in zip(row.entry.key, widths, strict=True)),
                    row.compiled,
                )
                for row in ranked
            ]

    def _rebuild_prefixes(self) -> None:
        """One dict per prefix length, keyed by the masked key; the longest comes first."""
        by_length: dict[int, dict[tuple[int, ...], Compiled]] = {}
        masks: dict[int, tuple[int, ...]] = {}
        for row in self._rows.values():
            length = next(match.prefix_len for match in row.entry.key if isinstance(match, Lpm))
            masks[length] = tuple(
                _prefix_mask(match, key.width) for match, key in zip(row.entry.key, self.table.keys, strict=True)
            )
            values = tuple(match.value for match in row.entry.key if isinstance(match, Exact | Lpm))
            by_length.setdefault(length, {})[values] = row.compiled
        self._prefixes = [(masks[length], by_length[length]) for length in sorted(by_length, reverse=True)]

    def find(self, key: Any) -> Compiled:
        """The entry for ``key``, else the default; remembers the answer. For tables that are not exact."""
        values: tuple[int, ...] = key if isinstance(key, tuple) else (key,)
        found = self._find_prefix(values) if self.table.kind is ir.MatchKind.LPM else self._find_ranked(values)
        if len(self.memo) >= MEMO_SIZE:
            self.memo.clear()
        self.memo[key] = found
        return found

    def _find_prefix(self, values: tuple[int, ...]) -> Compiled:
        for masks, rows in self._prefixes:
            found = rows.get(tuple(value & mask for value, mask in zip(values, masks, strict=True)))
            if found is not None:
                return found
        return self._default_compiled

    def _find_ranked(self, values: tuple[int, ...]) -> Compiled:
        for key, compiled in self._scan:
            if all(_matches(match, value) for match, value in zip(key, values, strict=True)):
                return compiled
        return self._default_compiled


def _prefix_mask(match: KeyMatch, width: int) -> int:
    full = (1 << width) - 1
    return full ^ (full >> match.prefix_len) if isinstance(match, Lpm) else full


def _without_prefix(match: KeyMatch, width: int) -> KeyMatch:
    return Ternary(match.value, _prefix_mask(match, width)) if isinstance(match, Lpm) else match


def _match(pattern: ir.Pattern, key: ir.Key) -> KeyMatch:
    match key.kind:
        case ir.MatchKind.EXACT:
            return Exact(pattern.value)
        case ir.MatchKind.LPM:
            return Lpm(pattern.value, pattern.prefix_len or 0)
        case ir.MatchKind.TERNARY:
            return Ternary(pattern.value, pattern.mask)
        case ir.MatchKind.RANGE:
            return Range(pattern.value, pattern.mask)


def _matches(match: KeyMatch, value: int) -> bool:
    if isinstance(match, Exact):
        return value == match.value
    if isinstance(match, Ternary):
        return value & match.mask == match.value
    if isinstance(match, Range):
        return match.low <= value <= match.high
    raise AssertionError("a prefix beside ternary or range keys is scanned as a mask")
