# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Events for a switch: packets, and writes of the control plane between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from differential.draws import Draws, make_match
from differential.frames import make_frame
from differential.reference import Reference
from softswitch.program import ir
from softswitch.runtime.entries import ActionCall, ActionSet, CounterValue, Entry, KeyMatch, Replica


class Event(NamedTuple):
    """A call of a method of `SoftSwitch`, which `Reference` has too."""

    call: str
    args: tuple[Any, ...]

    @property
    def is_packet(self) -> bool:
        return self.call == "process"


def event(call: str, *args: Any) -> Event:
    return Event(call, args)


SCOUTS = 20
PORTS = (0, 1, 2, 3, 7, 510)


class EventMaker:
    """Makes random events. Remembers inserted entries, so that later writes can modify and delete them."""

    def __init__(self, draws: Draws, program: ir.Program, frame: Callable[[], tuple[int, bytes]] | None = None) -> None:
        """``frame`` gives packets with their ports, by default frames made from the program."""
        self._draws = draws
        self._program = program
        self._frame = frame or (lambda: (draws.one(PORTS), make_frame(draws, program)))
        self._tables = [table for table in program.tables.values() if table.entries is None]
        self._actions = {action.index: action for action in program.actions}
        self._inserted: list[tuple[ir.Table, Entry]] = []
        self._looked_up = self._scout()

    def _scout(self) -> dict[str, list[tuple[int, ...]]]:
        """Collect the keys that such packets look up: random keys would seldom hit."""
        reference = Reference(self._program, 1, 1)
        for _ in range(SCOUTS):
            reference.process(*self._frame())
        return reference.looked_up

    def events(self, packets: int) -> list[Event]:
        """``count`` packets, with one or more writes to each table first and more writes in between."""
        draws = self._draws
        made: list[Event] = []
        for table in self._tables:
            made += [made_one for _ in range(draws.count(0, 5)) if (made_one := self._insert(table)) is not None]
        made += [self._group() for _ in range(3)]
        if self._program.passes is not None:
            made += [self._session() for _ in range(4)]
        made += [self._value_set() for _ in range(2 * len(self._program.value_sets))]
        for _ in range(packets):
            made.append(event("process", *self._frame()))
            while draws.chance(0.2):
                write = self._write()
                made += [write] if write is not None else []
        return made

    def _write(self) -> Event | None:
        draws = self._draws
        makers: list[Callable[[], Event | None]] = [
            lambda: self._insert(draws.one(self._tables)) if self._tables else None,
            self._modify, self._delete, self._default, self._group, self._counter, self._direct_counter, self._register,
        ]  # fmt: skip
        if self._program.passes is not None:
            makers.append(self._session)
        if self._program.value_sets:
            makers.append(self._value_set)
        return draws.one(makers)()

    def _call(self, table: ir.Table) -> ActionCall:
        action = self._actions[self._draws.one(table.actions)]
        return ActionCall(action.name, tuple(self._draws.number(parameter.width) for parameter in action.parameters))

    def _entry(self, table: ir.Table, key: tuple[KeyMatch, ...], priority: int) -> Entry:
        draws = self._draws
        counter = CounterValue(draws.number(32), draws.number(40)) if table.has_counter and draws.chance(0.3) else None
        action: ActionCall | ActionSet = self._call(table)
        if table.selector is not None and draws.chance(0.8):
            action = ActionSet(tuple(self._call(table) for _ in range(draws.count(1, 5))))
        return Entry(key, action, priority, counter=counter)

    def _insert(self, table: ir.Table) -> Event | None:
        if not table.keys:
            return None
        draws = self._draws
        asked = self._looked_up[table.name]
        near: tuple[int | None, ...] = (None,) * len(table.keys)
        if asked and draws.chance(0.6):
            near = draws.one(asked)
        key = tuple(make_match(draws, *pair) for pair in zip(table.keys, near, strict=True))
        ordered = table.kind in (ir.MatchKind.TERNARY, ir.MatchKind.RANGE)
        entry = self._entry(table, key, draws.count(1, 4) if ordered else 0)
        self._inserted.append((table, entry))
        return event("insert", table.name, entry)

    def _modify(self) -> Event | None:
        if not self._inserted:
            return None
        table, old = self._draws.one(self._inserted)
        return event("modify", table.name, self._entry(table, old.key, old.priority))

    def _delete(self) -> Event | None:
        if not self._inserted:
            return None
        table, old = self._draws.one(self._inserted)
        return event("delete", table.name, old.key, old.priority)

    def _default(self) -> Event | None:
        draws = self._draws
        tables = list(self._program.tables.values())
        if not tables:
            return None
        table = draws.one(tables)
        return event("set_default_action", table.name, self._call(table) if draws.chance(0.8) else None)

    def _group(self) -> Event:
        draws = self._draws
        replicas = {Replica(draws.one(PORTS), draws.one([0, 1, 2, 0xFFFF])) for _ in range(draws.count(0, 5))}
        chosen = tuple(sorted(replicas, key=lambda replica: (replica.instance, replica.port)))
        group = draws.count(1, 4)
        return event("set_group", group, chosen) if draws.chance(0.85) else event("delete_group", group)

    def _value_set(self) -> Event:
        """Most often with what frames are full of: zeros, ones, small numbers."""
        draws = self._draws
        declared = draws.one(list(self._program.value_sets.values()))
        count = draws.count(0, declared.size)
        kinds = [draws.one(["exact", "exact", "lpm", "ternary", "range"]) for _ in declared.widths]
        keys = [
            ir.Key("", ir.MatchKind(kind), ir.Const(0), width)
            for kind, width in zip(kinds, declared.widths, strict=True)
        ]
        members = tuple(tuple(make_match(draws, key) for key in keys) for _ in range(count))
        return event("set_value_set", declared.name, members)

    def _session(self) -> Event:
        draws = self._draws
        replicas = [Replica(draws.one(PORTS), draws.one([0, 1, 0xFFFF])) for _ in range(draws.count(0, 2))]
        session, keep, group = draws.count(0, 3), draws.chance(0.85), draws.one([0, 0, 1, 2])
        return event("set_session", session, tuple(replicas), group) if keep else event("delete_session", session)

    def _counter(self) -> Event | None:
        draws = self._draws
        arrays = [array for array in self._program.counters.values() if array.table is None and array.size]
        if not arrays:
            return None
        array = draws.one(arrays)
        value = CounterValue(draws.number(60), draws.number(60))
        return event("write_counter", array.name, draws.count(0, array.size - 1), value)

    def _direct_counter(self) -> Event | None:
        draws = self._draws
        counted = [(table, entry) for table, entry in self._inserted if table.has_counter]
        if not counted:
            return None
        table, entry = draws.one(counted)
        value = CounterValue(draws.number(50), draws.number(50))
        return event("write_direct_counter", table.name, entry.key, entry.priority, value)

    def _register(self) -> Event | None:
        draws = self._draws
        arrays = [register for register in self._program.registers.values() if not register.signed and register.size]
        if not arrays:
            return None
        register = draws.one(arrays)
        return event("write_register", register.name, draws.count(0, register.size - 1), draws.number(register.width))
