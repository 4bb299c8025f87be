# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Records what happens to a packet. Generated code that traces calls these methods, as ``trace``.

A packet becomes one dict of what JSON has: see docs/trace.md. Numbers of the program are hexadecimal text of their
whole width. Whatever comes next in the same pass is an item of the same list ``events``; a pass that comes of it has
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from softswitch.program import ir
from softswitch.program.limits import full
from softswitch.python.lookup import Compiled, PythonRow
from softswitch.runtime.engine import Packet
from softswitch.runtime.entries import Exact, KeyMatch, Lpm, Range, Ternary
from softswitch.runtime.tables import RuntimeTable, StoredRow

Replicas = Sequence[tuple[int, int]]
Event = dict[str, Any]


def _hex(value: int, width: int) -> str:
    return f"0x{value & full(width):0{-(-width // 4)}x}"


class Recorder:
    """Passes each packet to ``tell`` when it has left. ``tables``: those of the machine, whose rows packets meet."""

    def __init__(
        self,
        program: ir.Program,
        tables: Mapping[str, RuntimeTable[PythonRow]],
        tell: Callable[[Packet], None],
    ) -> None:
        self._program = program
        self._described = program.tables
        self._actions = {action.index: action for action in program.actions}
        self._errors = {number: name for name, number in program.errors.items()}
        self._tables = tables
        self._tell = tell
        # By table, the row of an entry; by identity, since equal entries of two rows are equal tuples.
        self._rows: dict[str, dict[int, tuple[Compiled, StoredRow[PythonRow]]]] = {}
        self._packets = 0
        self._packet: Packet = {}
        self._root: list[Event] = []
        self._events: list[Event] = []
        self._above: list[list[Event]] = []
        self._queue: list[list[Event]] = []

    def run(
        self, process: Callable[[int, bytes], list[tuple[int, bytes]]], port: int, frame: bytes
    ) -> list[tuple[int, bytes]]:
        """Run one packet, and tell it."""
        self._packets += 1
        self._root = self._events = []
        self._packet = {"packet": self._packets, "port": port, "length": len(frame), "events": self._root}
        self._above.clear()
        self._queue.clear()
        out = process(port, frame)
        self._packet["out"] = [{"port": leaves, "length": len(sent)} for leaves, sent in out]
        self._tell(self._packet)
        return out

    def _add(self, event: str, **fields: Any) -> Event:
        made = {"event": event, **fields}
        self._events.append(made)
        return made

    # -- passes ----------------------------------------------------------

    def enter(self, event: str, **fields: Any) -> None:
        """What follows, until :meth:`leave`, is within this event."""
        self._above.append(self._events)
        self._events = self._add(event, **fields, events=[])["events"]

    def leave(self) -> None:
        self._events = self._above.pop()

    def leaving(self, event: str, port: int, instance: int) -> None:
        """What follows is one egress of the packet."""
        self._events = self._root
        self._events = self._add(event, port=port, instance=instance, events=[])["events"]

    def queued(self, event: str, port: int, instance: int) -> None:
        """The pass that was queued goes through egress."""
        self._queue.append(self._add(event, port=port, instance=instance, events=[])["events"])

    def again(self, resubmitted: bool, frame: bytes) -> None:
        """The pass that was queued goes through the parser."""
        event = "resubmitted" if resubmitted else "recirculated"
        self._queue.append(self._add(event, length=len(frame), events=[])["events"])

    def turn(self, number: int) -> None:
        """What follows is pass ``number`` of the queue."""
        self._events = self._queue[number]

    def lost(self) -> None:
        self._add("too_many_passes")

    def clone(self, where: str, session: int, found: object) -> None:
        self._add("clone_request", at=where, session=session, known=found is not None)

    def multicast(self, group: int, replicas: Replicas) -> None:
        self._add("multicast", group=group, replicas=len(replicas))

    def dropped(self, where: str) -> None:
        self._add("dropped", at=where)

    # -- parser and deparser ---------------------------------------------

    def state(self, name: str) -> None:
        self._add("parser_state", parser=self._program.parser.name, state=name)

    def _fields(self, header: str, data: bytes) -> dict[str, str]:
        described = self._program.headers[header]
        value, left, found = int.from_bytes(data[: described.size_bytes]), described.width, {}
        for member in described.fields:
            left -= member.width
            found[member.name] = _hex(value >> left, member.width)
        return found

    def extract(self, header: str, frame: bytes, at: int) -> None:
        self._add("extract", header=header, fields=self._fields(header, frame[at:]))

    def extract_varbit(self, header: str, data: bytes) -> None:
        self._add("extract_varbit", header=header, bits=8 * len(data), value=f"0x{data.hex()}")

    def select(self, state: str, key: Sequence[int]) -> None:
        parts = zip(key, self._program.parser.states[state].key, strict=True)
        self._add("select", state=state, key=[_hex(value, _width(part)) for value, part in parts])

    def parsed(self, size: int, error: int | None) -> None:
        if error is not None:
            self._add("parser_error", error=self._errors.get(error, str(error)))
        self._add("parser_end", parser=self._program.parser.name, bytes=size)

    def deparse(self, headers: Sequence[tuple[str, int, int]], data: bytes) -> None:
        at = 0
        for header, valid, bits in headers:
            if valid:
                self._add("deparse", header=header, fields=self._fields(header, data[at:]))
                at += self._program.headers[header].size_bytes
                if bits:
                    self._add("deparse_varbit", header=header, bits=bits, value=f"0x{data[at : at + bits // 8].hex()}")
                    at += bits // 8

    def transmit(self, port: int, frame: bytes) -> None:
        self._add("transmit", port=port, length=len(frame))

    # -- controls --------------------------------------------------------

    def pipeline(self, name: str) -> None:
        self._add("pipeline", pipeline=name)

    def condition(self, name: str, place: str, text: str, value: object) -> bool:
        self._add("condition", name=name, place=place, condition=text, value=bool(value))
        return bool(value)

    def table(self, name: str, key: Sequence[int], entry: Compiled | None, hit: bool) -> None:
        table = self._described[name]
        keys = [
            {"name": described.name, "match": described.kind.value, "value": _hex(value, described.width)}
            for value, described in zip(key, table.keys, strict=True)
        ]
        made = self._add("table", table=name, place=str(table.source), keys=keys, hit=hit)
        row = self._row(name, entry) if entry is not None and hit else None
        if row is not None:
            made["handle"] = row.handle
            widths = (described.width for described in table.keys)
            made["entry"] = [_match(match, width) for match, width in zip(row.entry.key, widths, strict=True)]
            if row.entry.priority:
                made["priority"] = row.entry.priority

    def _row(self, name: str, entry: Compiled) -> StoredRow[PythonRow] | None:
        found = self._rows.setdefault(name, {}).get(id(entry))
        if found is None or found[0] is not entry:
            rows = self._tables[name].met_by_packets()
            self._rows[name] = {id(row.made.compiled): (row.made.compiled, row) for row in rows}
            found = self._rows[name].get(id(entry))
        return None if found is None else found[1]

    def call(self, name: str, entry: Compiled | None) -> None:
        """The action that a table runs. ``entry`` is None for a table that has only its constant default action."""
        table = self._described[name]
        index, args = table.default_action, table.default_args
        if entry is not None:
            index, args = table.actions[entry[0]], entry[2:]
        action = self._actions[index]
        pairs = zip(action.parameters, args, strict=True)
        told = {parameter.name: _hex(value, parameter.width) for parameter, value in pairs}
        self._add("action", table=name, action=action.name, parameters=told)

    def exit(self) -> None:
        self._add("exit")

    # -- statements ------------------------------------------------------

    def _value(self, header: str, field: str, value: int) -> dict[str, str]:
        width = next(member.width for member in self._program.headers[header].fields if member.name == field)
        return {"field": f"{header}.{field}", "value": _hex(value, width)}

    def assign(self, header: str, field: str, value: int) -> None:
        self._add("assign", **self._value(header, field, value))

    def copy_header(self, target: str, source: str, valid: int) -> None:
        self._add("copy_header", target=target, source=source, valid=bool(valid))

    def validity(self, header: str, valid: bool) -> None:
        self._add("validity", header=header, valid=valid)

    def mark_to_drop(self, place: str) -> None:
        self._add("mark_to_drop", place=place)

    def truncate(self, length: int) -> None:
        self._add("truncate", length=length)

    def message(self, text: str, values: Sequence[int]) -> None:
        self._add("log_message", text=text, values=[f"{value:#x}" for value in values])

    def digest(self, name: str, values: Sequence[int]) -> None:
        self._add("digest", digest=name, values=[f"{value:#x}" for value in values])

    def checksum(self, name: str, right: bool) -> None:
        end = self._events.pop()  # of the parser, before which bmv2 verifies
        self._add("checksum", checksum=name, right=right)
        self._events.append(end)

    def checksum_update(self, name: str) -> None:
        self._add("checksum_update", checksum=name)

    # -- externs ---------------------------------------------------------

    def register(self, done: str, name: str, cells: Sequence[int], index: int) -> None:
        """``done``: read or write. The value is null past the end, where nothing happens."""
        width = self._program.registers[name].width
        value = _hex(cells[index], width) if 0 <= index < len(cells) else None
        self._add(f"register_{done}", register=name, index=index, value=value)

    def count(self, name: str, index: int) -> None:
        self._add("count", counter=name, index=index)

    def meter(self, name: str, index: int, header: str, field: str, colour: int) -> None:
        self._add("meter", meter=name, index=index, **self._value(header, field, colour))

    def random(self, header: str, field: str, value: int) -> None:
        self._add("random", **self._value(header, field, value))

    def hash(self, name: str, algorithm: str, value: int) -> None:
        self._add("hash", calculation=name, algorithm=algorithm, value=f"{value:#x}")


def _width(part: ir.Expr) -> int:
    return part.width if isinstance(part, ir.FieldRef | ir.Lookahead) else 1


def _match(match: KeyMatch, width: int) -> str:
    match match:
        case Exact(value):
            return _hex(value, width)
        case Lpm(value, length):
            return f"{_hex(value, width)}/{length}"
        case Ternary(value, mask):
            return f"{_hex(value, width)} &&& {_hex(mask, width)}"
        case Range(low, high):
            return f"{_hex(low, width)}..{_hex(high, width)}"
