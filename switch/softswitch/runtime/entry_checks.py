# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules that entries of the control plane must obey."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from softswitch.errors import InvalidEntryError
from softswitch.program import ir
from softswitch.program.limits import ACTION_SET
from softswitch.runtime.entries import ActionCall, ActionSet, Entry, Exact, KeyMatch, Lpm, Range, Ternary

_MATCH_TYPES: dict[ir.MatchKind, type] = {
    ir.MatchKind.EXACT: Exact,
    ir.MatchKind.LPM: Lpm,
    ir.MatchKind.TERNARY: Ternary,
    ir.MatchKind.RANGE: Range,
}


class EntryChecks:
    """Checks entries of one table. ``actions``: the program's, by index."""

    def __init__(self, table: ir.Table, actions: Mapping[int, ir.Action]) -> None:
        self.table = table
        self._actions = actions
        # The first of a name counts.
        self._indices = {actions[index].name: index for index in reversed(table.actions)}
        self.has_priorities = table.kind in (ir.MatchKind.TERNARY, ir.MatchKind.RANGE)

    def check_writable(self) -> None:
        """Raises InvalidEntryError for a table that takes no entries from the control plane."""
        if self.table.entries is not None and self.table.entries_const:
            raise InvalidEntryError(f"table {self.table.name}: its entries are constant")
        if not self.table.keys:
            raise InvalidEntryError(f"table {self.table.name} has no key and takes no entries")

    def checked(self, entry: Entry) -> Entry:
        """The entry as the table keeps it. Raises InvalidEntryError if it does not fit the table."""
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
        return replace(entry, is_const=False) if entry.is_const else entry

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
