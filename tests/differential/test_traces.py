# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A trace tells what the interpreter of the intermediate form does with the same packet, event by event and in order.

The interpreter shares no code with the engine that traces. Each program also treats packets as it does without a trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from differential.comparison import NOW_US, SEED, EngineRunner, ReferenceRunner, run_and_compare
from differential.draws import Draws
from differential.events import Event, EventMaker, event
from differential.frames import damaged, make_frame
from differential.programs import make_program
from differential.reference import Frames, Packet, Reference
from differential.star_state import star_switch, writes
from helpers.softswitch.compile_programs import PROGRAMS
from softswitch.program import ir
from softswitch.program.load.program import load_program
from softswitch.trace import lines

Told = list[tuple[Any, ...]]
NAMES = [file.stem for file in sorted(PROGRAMS.glob("*.json")) if file.stem != "sources"]
_INDEXED = (ir.RegisterRead, ir.RegisterWrite, ir.Count)


class Witness(Reference):
    """Writes down what it does: ``told`` has a list for each packet."""

    def __init__(self, program: ir.Program) -> None:
        super().__init__(program, SEED, NOW_US)
        self.told: list[Told] = []
        nodes = [*program.ingress.nodes.values(), *program.egress.nodes.values()]
        self._conditions = {id(node.condition): node.name for node in nodes if isinstance(node, ir.Conditional)}

    def process(self, port: int, frame: bytes) -> Frames:
        self.told.append([])
        out = super().process(port, frame)
        self.told[-1].append(("out", [(leaves, len(sent)) for leaves, sent in out]))
        return out

    def _tell(self, *what: object) -> None:
        self.told[-1].append(what)

    def value(self, expr: ir.Expr, packet: Packet, args: tuple[int, ...]) -> int:
        value = super().value(expr, packet, args)
        if id(expr) in self._conditions:
            self._tell("condition", self._conditions[id(expr)], bool(value))
        return value

    def _parser_op(self, op: ir.ParserOp, packet: Packet) -> None:
        super()._parser_op(op, packet)
        if isinstance(op, ir.Extract):
            members = self.program.headers[op.header].fields
            values = [packet.values[op.header, member.name] % (1 << member.width) for member in members]
            self._tell("extract", op.header, values)

    def _next_state(self, state: ir.ParserState, packet: Packet) -> str | None:
        following = super()._next_state(state, packet)
        if state.key:
            widths = [part.width if isinstance(part, ir.FieldRef | ir.Lookahead) else 1 for part in state.key]
            values = [self.value(part, packet, ()) for part in state.key]
            self._tell(
                "select", state.name, [value % (1 << width) for value, width in zip(values, widths, strict=True)]
            )
        return following

    def _look_up(self, table: ir.Table, packet: Packet) -> Any:
        identity = super()._look_up(table, packet)
        self._tell("table", table.name, list(self.looked_up[table.name][-1]), identity is not None)
        if identity is not None and identity[1]:
            self._tell("priority", identity[1])
        return identity

    def _apply(self, table: ir.Table, packet: Packet) -> str | None:
        before = len(self.told[-1])
        try:
            return super()._apply(table, packet)
        finally:  # of an exit, too
            # The action stands in front of its own events.
            found = self.told[-1][before:]
            hit = next(told[-1] for told in found if told[0] == "table")
            at = next(number for number, told in enumerate(found, 1) if told[0] == "table")
            at += bool(found[at:] and found[at][0] == "priority")
            at += bool(hit and table.meter_target is not None)
            self.told[-1].insert(before + at, ("action", table.name))

    def _store(self, packet: Packet, target: ir.FieldRef, value: int) -> None:
        super()._store(packet, target, value)
        if not target.header.startswith("#"):
            bits = packet.values[target.header, target.field] % (1 << target.width)
            self._tell("assign", f"{target.header}.{target.field}", bits)

    def _statement(self, statement: ir.Statement, packet: Packet, args: tuple[int, ...]) -> None:
        at = self.value(statement.index, packet, args) if isinstance(statement, _INDEXED) else 0
        before = len(self.told[-1])
        super()._statement(statement, packet, args)
        match statement:
            case ir.RegisterRead(_, register, _):
                self.told[-1][before:] = [("register_read", register, at, self._cell(register, at))]
            case ir.RegisterWrite(register, _, _):
                self._tell("register_write", register, at, self._cell(register, at))
            case ir.Count(counter, _):
                self._tell("count", counter, at)
            case ir.MarkToDrop():
                self._tell("mark_to_drop")

    def _cell(self, register: str, at: int) -> int | None:
        cells = self.registers[register]
        return cells[at] % (1 << self.program.registers[register].width) if 0 <= at < len(cells) else None


def flat(events: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Events in the order in which they happened: passes take turns."""
    queue = [events]
    for each in queue:
        yield from _inline(each, queue)


def _inline(events: Sequence[dict[str, Any]], queue: list[Sequence[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for told in events:
        yield told
        if told["event"] == "clone" and "port" not in told:
            yield from _inline(told["events"], queue)
        elif "events" in told:
            queue.append(told["events"])


def _number(text: str | None) -> int | None:
    return None if text is None else int(text, 16)


def as_told(packet: dict[str, Any]) -> Told:
    """What both tell, in the witness's form."""
    told: Told = []
    for each in flat(packet["events"]):
        match each:
            case {"event": "condition", "name": str(name), "value": value} if name:
                told.append(("condition", name, value))
            case {"event": "extract", "header": header, "fields": fields}:
                told.append(("extract", header, [_number(value) for value in fields.values()]))
            case {"event": "select", "state": state, "key": key}:
                told.append(("select", state, [_number(value) for value in key]))
            case {"event": "table", "table": name, "keys": keys, "hit": hit}:
                told.append(("table", name, [_number(key["value"]) for key in keys], hit))
                assert ("entry" in each) == hit
                if "priority" in each:
                    told.append(("priority", each["priority"]))
            case {"event": "action", "table": name}:
                told.append(("action", name))
            case {"event": "mark_to_drop"}:
                told.append(("mark_to_drop",))
            case {"event": "count", "counter": name, "index": index}:
                told.append(("count", name, index))
            case {"event": "assign" | "random" | "meter", "field": name, "value": value}:
                told.append(("assign", name, _number(value)))
            case {"event": "register_read" | "register_write" as kind, "register": name, "index": index}:
                told.append((kind, name, index, _number(each["value"])))
    told.append(("out", [(out["port"], out["length"]) for out in packet["out"]]))
    return told


def compare(program: ir.Program, sequence: Sequence[Event]) -> int:
    """Return how many events were told."""
    packets: list[dict[str, Any]] = []
    witness = Witness(program)
    run_and_compare([EngineRunner(program, "auto", packets.append), ReferenceRunner(program, witness)], sequence)
    for number, (packet, expected) in enumerate(zip(packets, witness.told, strict=True)):
        assert as_told(packet) == expected, f"packet {number}"
        sent = [each for each in flat(packet["events"]) if each["event"] == "transmit"]
        assert [{"port": each["port"], "length": each["length"]} for each in sent] == packet["out"]
        text = list(lines(packet))
        assert all(line.isprintable() for line in text)
    return sum(len(told) for told in witness.told)


@pytest.mark.parametrize("name", NAMES)
def test_test_programs(name: str) -> None:
    program = load_program((PROGRAMS / f"{name}.json").read_text())
    draws = Draws(7)
    maker = EventMaker(draws, program, lambda: (draws.one([1, 3]), make_frame(draws, program)))
    assert compare(program, maker.events(120)) > 500


@pytest.mark.parametrize("number", range(2_000_000, 2_000_012))
def test_generated_programs(number: int) -> None:
    """Of all constructs: stacks, unions, varbits, value sets, selectors, clones, resubmits, recirculation."""
    program = make_program(number)
    assert compare(program, EventMaker(Draws(number), program).events(60)) > 60


def test_sumwire() -> None:
    switch, frames = star_switch()
    draws = Draws(3)
    some = draws.some(frames, 30, 30)
    sequence = writes(switch) + [event("process", port, frame) for port, frame in some]
    sequence += [event("process", port, damaged(draws, frame)) for port, frame in some[:10]]
    assert compare(switch.loaded.program, sequence) > 1000
