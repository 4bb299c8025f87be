# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A device without a data plane: it keeps what the control plane writes, by the rules of ``softswitch.device``.

It takes from the program only what those rules need. Frames go through a Python function given at construction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from softswitch.errors import (
    DeviceError,
    EntryExistsError,
    InvalidEntryError,
    NotFoundError,
    TableFullError,
)
from softswitch.program import ir
from softswitch.runtime.entries import (
    ActionCall,
    CounterValue,
    Entry,
    Exact,
    KeyMatch,
    Lpm,
    MeterRates,
    Range,
    Replica,
    Ternary,
)

#: (ingress port, frame) to the frames that leave by the CPU port.
FakePipeline = Callable[[int, bytes], Iterable[bytes]]

_Where = tuple[tuple[KeyMatch, ...], int]


@dataclass
class _Table:
    size: int
    counted: bool
    actions: frozenset[str]
    program_default: ActionCall | None
    default: ActionCall | None
    rows: dict[_Where, Entry] = field(default_factory=dict)


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


class FakeDevice:
    def __init__(self, pipeline: FakePipeline = lambda _port, _frame: ()) -> None:
        self._pipeline = pipeline
        self._lock = threading.RLock()
        self._tables: dict[str, _Table] = {}
        self._counters: dict[str, list[CounterValue]] = {}
        self._groups: dict[int, tuple[Replica, ...]] = {}
        self._sessions: dict[int, tuple[tuple[Replica, ...], int]] = {}
        self._on_cpu_frame: Callable[[bytes], None] | None = None
        self.loads = 0
        self.learn: Callable[[str, tuple[int, ...]], None] | None = None
        self.value_sets: dict[str, tuple[tuple[int | KeyMatch, ...], ...]] = {}
        self.meters: dict[tuple[str, int], MeterRates | None] = {}
        self.injected: list[tuple[int, bytes]] = []

    def load(self, program: ir.Program) -> None:
        actions = {action.index: action.name for action in program.actions}
        arrays = [array for array in program.counters.values() if array.table is None]
        with self._lock:
            self._tables = {name: self._table(table, actions) for name, table in program.tables.items()}
            self._counters = {array.name: [CounterValue()] * array.size for array in arrays}
            self._groups = {}
            self._sessions = {}
            self.loads += 1

    def _table(self, table: ir.Table, actions: dict[int, str]) -> _Table:
        default = ActionCall(actions[table.default_action], table.default_args)
        names = frozenset(actions[index] for index in table.actions)
        made = _Table(table.size, table.has_counter, names, default, default)
        entries = table.entries or ()
        for position, entry in enumerate(entries):
            key = tuple(_match(pattern, field) for pattern, field in zip(entry.patterns, table.keys, strict=True))
            ordered = table.kind in (ir.MatchKind.TERNARY, ir.MatchKind.RANGE)
            priority = len(entries) - position if ordered else 0
            call = ActionCall(actions[entry.action], entry.args)
            made.rows[key, priority] = Entry(key, call, priority, is_const=table.entries_const)
        return made

    def _named(self, table: str) -> _Table:
        if table not in self._tables:
            raise NotFoundError(f"no table {table!r}")
        return self._tables[table]

    def _checked(self, table: str, entry: Entry) -> tuple[_Table, _Where]:
        named = self._named(table)
        if entry.action.name not in named.actions:
            raise InvalidEntryError(f"table {table!r} has no action {entry.action.name!r}")
        return named, (entry.key, entry.priority)

    def batch(self) -> AbstractContextManager[None]:
        return nullcontext()

    def insert(self, table: str, entry: Entry) -> None:
        with self._lock:
            named, where = self._checked(table, entry)
            if where in named.rows:
                raise EntryExistsError(f"table {table!r} has {where} already")
            if len(named.rows) >= named.size:
                raise TableFullError(f"table {table!r} holds {named.size} entries")
            named.rows[where] = entry._replace(counter=CounterValue() if named.counted else None)

    def insert_many(self, table: str, entries: Sequence[Entry]) -> list[DeviceError | None]:
        outcomes: list[DeviceError | None] = []
        for entry in entries:
            try:
                self.insert(table, entry)
            except DeviceError as error:
                outcomes.append(error)
            else:
                outcomes.append(None)
        return outcomes

    def modify(self, table: str, entry: Entry) -> None:
        with self._lock:
            named, where = self._checked(table, entry)
            if where not in named.rows:
                raise NotFoundError(f"table {table!r} has no {where}")
            named.rows[where] = entry._replace(counter=named.rows[where].counter)

    def delete(self, table: str, key: tuple[KeyMatch, ...], priority: int = 0) -> None:
        with self._lock:
            if self._named(table).rows.pop((key, priority), None) is None:
                raise NotFoundError(f"table {table!r} has no {key}")

    def entry(self, table: str, key: tuple[KeyMatch, ...], priority: int = 0) -> Entry | None:
        with self._lock:
            return self._named(table).rows.get((key, priority))

    def entries(self, table: str) -> list[Entry]:
        with self._lock:
            return list(self._named(table).rows.values())

    def default_action(self, table: str) -> ActionCall | None:
        with self._lock:
            return self._named(table).default

    def set_default_action(self, table: str, action: ActionCall | None) -> None:
        with self._lock:
            named = self._named(table)
            named.default = named.program_default if action is None else action

    def _cells(self, counter: str, index: int) -> list[CounterValue]:
        if index not in range(self.counter_size(counter)):
            raise NotFoundError(f"counter {counter!r} has no index {index}")
        return self._counters[counter]

    def read_counter(self, counter: str, index: int) -> CounterValue:
        with self._lock:
            return self._cells(counter, index)[index]

    def write_counter(self, counter: str, index: int, value: CounterValue) -> None:
        with self._lock:
            self._cells(counter, index)[index] = value

    def counter_size(self, counter: str) -> int:
        if counter not in self._counters:
            raise NotFoundError(f"no counter {counter!r}")
        return len(self._counters[counter])

    def write_direct_counter(self, table: str, key: tuple[KeyMatch, ...], priority: int, value: CounterValue) -> None:
        with self._lock:
            rows = self._named(table).rows
            if (key, priority) not in rows:
                raise NotFoundError(f"table {table!r} has no {key}")
            rows[key, priority] = rows[key, priority]._replace(counter=value)

    def set_group(self, group: int, replicas: Sequence[Replica]) -> None:
        with self._lock:
            self._groups[group] = tuple(replicas)

    def delete_group(self, group: int) -> None:
        with self._lock:
            if self._groups.pop(group, None) is None:
                raise NotFoundError(f"no group {group}")

    def groups(self) -> dict[int, tuple[Replica, ...]]:
        with self._lock:
            return dict(self._groups)

    def set_session(self, session: int, replicas: Sequence[Replica], group: int = 0) -> None:
        with self._lock:
            self._sessions[session] = (tuple(replicas), group)

    def delete_session(self, session: int) -> None:
        with self._lock:
            if self._sessions.pop(session, None) is None:
                raise NotFoundError(f"no clone session {session}")

    def sessions(self) -> dict[int, tuple[tuple[Replica, ...], int]]:
        with self._lock:
            return dict(self._sessions)

    def set_value_set(self, name: str, members: Sequence[tuple[int | KeyMatch, ...]]) -> None:
        self.value_sets[name] = tuple(members)

    def set_direct_meter(self, table: str, key: tuple[KeyMatch, ...], priority: int, rates: MeterRates | None) -> None:
        raise NotFoundError(f"table {table!r} has no direct meter")

    def set_meter(self, name: str, index: int, rates: MeterRates | None) -> None:
        self.meters[name, index] = rates

    def on_digest(self, callback: Callable[[str, tuple[int, ...]], None] | None) -> None:
        self.learn = callback

    def inject(self, port: int, frame: bytes) -> None:
        self.injected.append((port, frame))
        for out in self._pipeline(port, frame):
            self.emit(out)

    def emit(self, frame: bytes) -> None:
        """As if the data plane had sent ``frame`` to the CPU port."""
        callback = self._on_cpu_frame
        if callback is not None:
            callback(frame)

    @property
    def is_listened_to(self) -> bool:
        return self._on_cpu_frame is not None

    def on_cpu_frame(self, callback: Callable[[bytes], None] | None) -> None:
        self._on_cpu_frame = callback
