# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Match-action tables and parser value sets at run time: check and store what the control plane writes.

The engine implements the look-up of rows, see :class:`Backend`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from softswitch.errors import DeviceError, EntryExistsError, InvalidEntryError, NotFoundError, TableFullError
from softswitch.program import ir
from softswitch.program.limits import SET_PATTERNS, TABLE_CHOICES
from softswitch.runtime.entries import (
    ActionCall,
    ActionSet,
    CounterValue,
    Entry,
    EntryChecks,
    Exact,
    KeyMatch,
    Lpm,
    MeterRates,
    Range,
    Ternary,
)

Identity = tuple[tuple[KeyMatch, ...], int]


R = TypeVar("R")  # a row as the engine keeps it


class Backend(Protocol[R]):
    """One table inside an engine: makes rows, and publishes them to packets."""

    def row(
        self,
        key: tuple[KeyMatch, ...] | None,
        position: int,
        args: tuple[int, ...],
        counter: CounterValue | None,
    ) -> R:
        """Make a row without publishing it.

        ``key`` None makes a default action. ``position``: that of the action in the table's list. ``counter`` None: the
        row does not count.
        """

    def rows(
        self, keys: Sequence[tuple[KeyMatch, ...]], position: int, args: Sequence[tuple[int, ...]], *, counts: bool
    ) -> Sequence[R]:
        """Make several rows of one action, as :meth:`row` does; the counters are 0."""

    def row_of_set(
        self, key: tuple[KeyMatch, ...], calls: Sequence[tuple[int, tuple[int, ...]]], counter: CounterValue | None
    ) -> R:
        """Like :meth:`row`, for several actions. ``calls``: position and arguments of each."""

    def publish(self, rows: Sequence[R], default: R) -> None:
        """Publish these rows, in order of precedence, and this default action to packets from the next one on."""

    def change(self, removed: Sequence[R], put: Sequence[R], default: R) -> None:
        """Remove the rows ``removed`` and add the rows ``put`` from the next packet on. A new row replaces the row with
        the same key, if there is one.

        Not for tables with ternary or range keys, whose rows have an order.
        """

    def read_counter(self, row: R) -> CounterValue | None: ...

    def write_counter(self, row: R, value: CounterValue) -> None: ...

    def set_meter(self, row: R, rates: MeterRates | None) -> None:
        """Configure the row's direct meter, whose buckets are then full. With None all its packets are green."""


@dataclass(slots=True)
class StoredRow(Generic[R]):
    """A stored row. ``counting`` has the counter; until the row is published, that of the row which it replaces. The
    lowest ``rank`` wins. ``rates``: those of the direct meter, None if it is not configured. ``handle``: what commands
    and traces call it by."""

    entry: Entry
    made: R
    counting: R
    rank: int
    handle: int
    rates: MeterRates | None = None


class RuntimeTable(Generic[R]):
    """Checks and keeps the entries of one table. A change affects packets at once; changes between :meth:`hold` and
    :meth:`release` take effect together.

    A change costs no more in a long table than in a short one. Tables with ternary or range keys are the exception:
    their rows have an order, and all of them are published again.

    ``actions``: the program's, by index. Writing raises InvalidEntryError, EntryExistsError, TableFullError or
    NotFoundError.
    """

    def __init__(self, table: ir.Table, actions: Mapping[int, ir.Action], backend: Backend[R]) -> None:
        self.table = table
        self._actions = actions
        self._backend = backend
        self._rows: dict[Identity, StoredRow[R]] = {}
        self._checks = EntryChecks(table, actions)
        self._ordered = table.kind in (ir.MatchKind.TERNARY, ir.MatchKind.RANGE)
        self._holding = self._held = False
        self._choices = 0
        # Of rows in the order of their inserts, the program's own first, as bmv2's. None is given twice.
        self._handles = count()
        # What packets have in the place of what was written since: None where they have nothing.
        self._waiting: dict[Identity, StoredRow[R] | None] = {}
        self.default: ActionCall
        self._made_default: R
        self._set_default(None)
        self.reset()

    # -- control plane ---------------------------------------------------

    def hold(self) -> None:
        """Hold back later writes until :meth:`release`."""
        self._holding = True

    def release(self) -> None:
        self._holding = False
        if self._held:
            self._changed()

    def reset(self) -> None:
        """Restore the program's own entries and default action."""
        self._handles = count()
        self._rows = {(entry.key, entry.priority): self._make(entry) for entry in self._const_entries()}
        self._set_default(None)
        self._publish()

    def entry(self, key: tuple[KeyMatch, ...], priority: int) -> Entry | None:
        row = self._rows.get((key, priority))
        return None if row is None else self._read(row)

    def entries(self) -> list[Entry]:
        return [self._read(row) for row in self._rows.values()]

    def handle(self, key: tuple[KeyMatch, ...], priority: int) -> int:
        """Return the handle of an entry. Raises NotFoundError."""
        return self._row((key, priority)).handle

    def identity(self, handle: int) -> Identity | None:
        """Return which entry has this handle. Looks at all of them."""
        return next((identity for identity, row in self._rows.items() if row.handle == handle), None)

    def met_by_packets(self) -> Iterator[StoredRow[R]]:
        """Every row that a packet may meet now: also those that are held back, and what they replace."""
        yield from self._rows.values()
        yield from (row for row in self._waiting.values() if row is not None)

    def insert(self, entry: Entry) -> None:
        self._checks.check_writable()
        checked = self._checks.checked(entry)
        identity = checked.key, checked.priority
        if identity in self._rows:
            raise EntryExistsError(f"table {self.table.name}: there is already an entry {self._describe(identity)}")
        if len(self._rows) >= self.table.size:
            raise TableFullError(f"table {self.table.name}: all {self.table.size} entries are in use")
        self._reserve(checked, None)
        self._replace(identity, self._make(checked))

    def insert_many(self, entries: Sequence[Entry]) -> list[DeviceError | None]:
        """Insert entries, and return the error of each or None, as if :meth:`insert` were called one after the other.
        It is faster if all succeed."""
        if self._insert_all(entries):
            return [None] * len(entries)
        return [self._refusal(entry) for entry in entries]

    def _refusal(self, entry: Entry) -> DeviceError | None:
        try:
            self.insert(entry)
        except DeviceError as error:
            return error
        return None

    def _insert_all(self, entries: Sequence[Entry]) -> bool:
        """False, and nothing has changed, where one is refused or where only :meth:`insert` can tell."""
        room = self.table.size - len(self._rows)
        if not 0 < len(entries) <= room or self.table.selector is not None or not self._checks.is_writable:
            return False
        identities = [(entry.key, entry.priority) for entry in entries]
        is_new = len(set(identities)) == len(entries) and self._rows.keys().isdisjoint(identities)
        calls = self._checks.calls_that_fit(entries) if is_new else None
        if calls is None:
            return False
        self._rows.update(zip(identities, self._make_all(entries, calls), strict=True))
        for identity in identities:
            self._waiting.setdefault(identity, None)
        self._changed()
        return True

    def modify(self, entry: Entry) -> None:
        """Replace an entry. Without a new counter value it keeps its counts. Its meter keeps its rates, with full
        buckets."""
        self._checks.check_writable()
        checked = self._checks.checked(entry)
        before = self._row((checked.key, checked.priority))
        self._reserve(checked, before.entry)
        after = self._make(checked, before.handle)
        if checked.counter is None:
            after.counting = before.counting
        if before.rates is not None:
            after.rates = before.rates
            self._backend.set_meter(after.made, after.rates)
        self._replace((checked.key, checked.priority), after)

    def delete(self, key: tuple[KeyMatch, ...], priority: int) -> None:
        self._checks.check_writable()
        self._reserve(None, self._row((key, priority)).entry)
        self._replace((key, priority), None)

    def set_default(self, action: ActionCall | None) -> None:
        """Set the default action; None restores the program's own."""
        self._set_default(action)
        self._changed()

    def _set_default(self, action: ActionCall | None) -> None:
        if action is None:
            index, args = self.table.default_action, self.table.default_args
            self.default = ActionCall(self._actions[index].name, args)
        else:
            if self.table.default_const:
                raise InvalidEntryError(f"table {self.table.name}: its default action is constant")
            index, args = self._checks.action_index(action), action.args
            self.default = action
        self._made_default = self._backend.row(None, self.table.actions.index(index), args, None)

    def write_counter(self, key: tuple[KeyMatch, ...], priority: int, value: CounterValue) -> None:
        if not self.table.has_counter:
            raise NotFoundError(f"table {self.table.name} has no direct counter")
        self._backend.write_counter(self._row((key, priority)).counting, value)

    def set_meter(self, key: tuple[KeyMatch, ...], priority: int, rates: MeterRates | None) -> None:
        """Configure an entry's direct meter. With None all its packets are green."""
        if self.table.meter_target is None:
            raise NotFoundError(f"table {self.table.name} has no direct meter")
        row = self._row((key, priority))
        row.rates = rates
        self._backend.set_meter(row.made, rates)

    def rates(self, key: tuple[KeyMatch, ...], priority: int) -> MeterRates | None:
        """Return the rates of an entry's direct meter; None where there are none, or no such entry."""
        row = self._rows.get((key, priority))
        return None if row is None else row.rates

    def _row(self, identity: Identity) -> StoredRow[R]:
        row = self._rows.get(identity)
        if row is None:
            raise NotFoundError(f"table {self.table.name}: there is no entry {self._describe(identity)}")
        return row

    def _describe(self, identity: Identity) -> str:
        key, priority = identity
        return f"{', '.join(map(str, key))}" + (f" of priority {priority}" if self._checks.has_priorities else "")

    def _reserve(self, after: Entry | None, before: Entry | None) -> None:
        """Room for the actions of an entry that has several."""
        if self.table.selector is None:
            return
        wanted = self._choices + _choices(after) - _choices(before)
        if wanted > TABLE_CHOICES:
            rule = f"its entries may have {TABLE_CHOICES} actions to choose from together"
            raise TableFullError(f"table {self.table.name}: {rule}, and these would be {wanted}")
        self._choices = wanted

    # -- rows ------------------------------------------------------------

    def _make(self, entry: Entry, handle: int | None = None) -> StoredRow[R]:
        counter = (entry.counter or CounterValue()) if self.table.has_counter else None
        if isinstance(entry.action, ActionSet):
            calls = [(self._position(call), call.args) for call in entry.action.calls]
            made = self._backend.row_of_set(entry.key, calls, counter)
        else:
            made = self._backend.row(entry.key, self._position(entry.action), entry.action.args, counter)
        return StoredRow(entry, made, made, -entry.priority, next(self._handles) if handle is None else handle)

    def _make_all(self, entries: Sequence[Entry], calls: Sequence[ActionCall]) -> list[StoredRow[R]]:
        """Of entries that fit, and the call of each."""
        by_action: dict[str, list[int]] = {}
        for number, call in enumerate(calls):
            by_action.setdefault(call.name, []).append(number)
        made: dict[int, R] = {}
        for numbers in by_action.values():
            position = self._position(calls[numbers[0]])
            keys, args = [entries[number].key for number in numbers], [calls[number].args for number in numbers]
            rows = self._backend.rows(keys, position, args, counts=self.table.has_counter)
            made.update(zip(numbers, rows, strict=True))
        handles = self._handles
        return [StoredRow(entry, made[n], made[n], 0, next(handles)) for n, entry in enumerate(entries)]

    def _position(self, call: ActionCall) -> int:
        return self.table.actions.index(self._checks.action_index(call))

    def _read(self, row: StoredRow[R]) -> Entry:
        counter = self._backend.read_counter(row.counting)
        return row.entry if counter is None else row.entry._replace(counter=counter)

    def _replace(self, identity: Identity, after: StoredRow[R] | None) -> None:
        before = self._rows.get(identity)
        self._waiting.setdefault(identity, before)
        if after is None:
            del self._rows[identity]
        else:
            self._rows[identity] = after
        self._changed()

    def _changed(self) -> None:
        self._held = self._holding
        if self._held:
            return
        written = [(before, self._rows.get(identity)) for identity, before in self._waiting.items()]
        for _, after in written:
            if after is not None and after.counting is not after.made:
                self._carry_counter(after)
        if self._ordered:
            self._publish()
            return
        removed = [before.made for before, after in written if before is not None and after is None]
        put = [after.made for _, after in written if after is not None]
        self._backend.change(removed, put, self._made_default)
        self._waiting.clear()

    def _carry_counter(self, row: StoredRow[R]) -> None:
        counter = self._backend.read_counter(row.counting)
        if counter is not None:
            self._backend.write_counter(row.made, counter)
        row.counting = row.made

    def _publish(self) -> None:
        rows = list(self._rows.values())
        if self._ordered:
            rows.sort(key=_RANK)
        self._backend.publish([row.made for row in rows], self._made_default)
        self._waiting.clear()

    def _const_entries(self) -> list[Entry]:
        constant = self.table.entries or ()
        lowest = max((entry.rank for entry in constant), default=0)
        entries = []
        for entry in constant:
            key = tuple(_match(pattern, field) for pattern, field in zip(entry.patterns, self.table.keys, strict=True))
            call = ActionCall(self._actions[entry.action].name, entry.args)
            entries.append(
                Entry(
                    key,
                    call,
                    lowest - entry.rank + 1 if self._checks.has_priorities else 0,
                    is_const=self.table.entries_const,
                )
            )
        return entries


_RANK: Callable[[StoredRow[Any]], int] = attrgetter("rank")


def _choices(entry: Entry | None) -> int:
    return len(entry.action.calls) if entry is not None and isinstance(entry.action, ActionSet) else 0


def prefix_mask(match: KeyMatch, width: int) -> int:
    """Return the mask of an exact or prefix match in a field of ``width`` bits."""
    full = (1 << width) - 1
    return full ^ (full >> match.prefix_len) if isinstance(match, Lpm) else full


def _match(pattern: ir.Pattern, key: ir.Key) -> KeyMatch:
    match key.kind:
        case ir.MatchKind.EXACT:
            return Exact(pattern.value)
        case ir.MatchKind.LPM:
            length = pattern.prefix_len or 0
            return Lpm(pattern.value & prefix_mask(Lpm(0, length), key.width), length)
        case ir.MatchKind.TERNARY:
            return Ternary(pattern.value & pattern.mask, pattern.mask)
        case ir.MatchKind.RANGE:
            return Range(pattern.value, pattern.mask)


Pattern = tuple[tuple[int, int], ...]


def patterns_of(declared: ir.ValueSet, members: Sequence[tuple[int | KeyMatch, ...]]) -> list[Pattern]:
    """Return each member of ``declared`` as one pattern or, with ranges, as several prefixes.

    Raises InvalidEntryError for a member that does not fit, TableFullError for too many.
    """
    if len(members) > declared.size:
        raise TableFullError(f"value set {declared.name}: {len(members)} members, it takes {declared.size}")
    made: dict[Pattern, None] = {}
    for member in members:
        if len(member) != len(declared.widths):
            raise _unfit(declared, member)
        fields = [_field(declared, member, *pair) for pair in zip(member, declared.widths, strict=True)]
        for pattern in product(*fields):
            made[pattern] = None
            if len(made) > SET_PATTERNS:
                rule = f"its members are more than {SET_PATTERNS} values with masks"
                raise TableFullError(f"value set {declared.name}: {rule}; give ranges that are prefixes")
    return list(made)


def _field(
    declared: ir.ValueSet, member: tuple[int | KeyMatch, ...], match: int | KeyMatch, width: int
) -> list[tuple[int, int]]:
    full = (1 << width) - 1
    match match:
        case int(value) | Exact(value):
            found = [(value, full)]
        case Lpm(value, length) if 0 <= length <= width:
            found = [(value, prefix_mask(match, width))]
        case Ternary(value, mask):
            found = [(value, mask)]
        case Range(low, high) if 0 <= low <= high <= full:
            found = list(_prefixes(low, high, width))
        case _:
            raise _unfit(declared, member)
    for value, mask in found:
        if not 0 <= value <= full or not 0 <= mask <= full or value & ~mask:
            raise _unfit(declared, member)
    return found


def _unfit(declared: ir.ValueSet, member: object) -> InvalidEntryError:
    return InvalidEntryError(f"value set {declared.name}: {member} does not fit widths {declared.widths}")


def _prefixes(low: int, high: int, width: int) -> Iterator[tuple[int, int]]:
    """The fewest prefixes that hold the numbers from ``low`` to ``high``, and no others."""
    full = (1 << width) - 1
    while low <= high:
        bits = min((low & -low).bit_length() - 1 if low else width, (high - low + 1).bit_length() - 1)
        yield low, full ^ ((1 << bits) - 1)
        low += 1 << bits
