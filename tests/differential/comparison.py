# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Gives the same events to several implementations of a program and compares everything that can be observed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from differential import events
from differential.events import Event
from differential.reference import Frames, Reference
from softswitch.errors import DeviceError
from softswitch.program import ir
from softswitch.runtime.entries import ActionCall, ActionSet, CounterValue, Entry, KeyMatch
from softswitch.switch import EngineChoice, SoftSwitch

SEED = 0xFEEDFACE12345678
NOW_US = 0x1234_5678_9ABC
BATCH = 16  # packets between two comparisons of the whole state

Rows = dict[tuple[tuple[KeyMatch, ...], int], tuple[tuple[ActionCall, ...], CounterValue | None]]


@dataclass(frozen=True)
class Outcome:
    """What an event caused. ``error``: name of the error that it raised, empty if none."""

    frames: Frames
    messages: list[str]
    error: str = ""


@dataclass(frozen=True)
class State:
    registers: dict[str, list[int]]
    counters: dict[str, list[tuple[int, int]]]
    tables: dict[str, Rows]
    lost: dict[str, int]


class Runner(Protocol):
    name: str

    def apply(self, event: Event) -> Outcome: ...

    def state(self) -> State: ...


@contextmanager
def _log_messages() -> Iterator[list[str]]:
    """The messages that programs log inside the block."""
    messages: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, collector = logging.getLogger("softswitch.program"), Collector()
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(collector)
    try:
        yield messages
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagate
        logger.setLevel(level)


class EngineRunner:
    def __init__(self, program: ir.Program | str, engine: EngineChoice) -> None:
        self.name: str = engine
        self._switch = SoftSwitch(program, seed=SEED, engine=engine, clock=lambda: NOW_US)
        self._program = self._switch.loaded.program

    def apply(self, event: Event) -> Outcome:
        frames: Frames = []
        with _log_messages() as messages:
            try:
                frames = self._apply(event)
            except DeviceError as error:
                return Outcome([], messages, type(error).__name__)
        return Outcome(frames, messages)

    def _apply(self, event: Event) -> Frames:
        switch = self._switch
        match event:
            case events.PacketIn(port, frame):
                return [(out, bytes(sent)) for out, sent in switch.process(port, frame)]
            case events.Insert(table, entry):
                switch.insert(table, entry)
            case events.Modify(table, entry):
                switch.modify(table, entry)
            case events.Delete(table, key, priority):
                switch.delete(table, key, priority)
            case events.SetDefault(table, action):
                switch.set_default_action(table, action)
            case events.SetGroup(group, replicas):
                switch.delete_group(group) if replicas is None else switch.set_group(group, replicas)
            case events.SetSession(session, replicas, group):
                switch.delete_session(session) if replicas is None else switch.set_session(session, replicas, group)
            case events.SetValueSet(name, members):
                switch.set_value_set(name, members)
            case events.WriteCounter(counter, index, value):
                switch.write_counter(counter, index, value)
            case events.WriteDirectCounter(table, key, priority, value):
                switch.write_direct_counter(table, key, priority, value)
            case events.WriteRegister(register, index, value):
                switch.write_register(register, index, value)
        return []

    def state(self) -> State:
        switch = self._switch
        counters = {}
        for name, array in self._program.counters.items():
            if array.table is None:
                cells = switch.loaded.counters[name]
                counters[name] = [(cells[index][0], cells[index][1]) for index in range(len(cells))]
        return State(
            {name: switch.registers(name) for name in self._program.registers},
            counters,
            {name: _rows(switch.entries(name)) for name in self._program.tables},
            {"passes": switch.loaded.lost_passes},
        )


def _rows(entries: Sequence[Entry]) -> Rows:
    return {(entry.key, entry.priority): (_calls(entry.action), entry.counter) for entry in entries}


def _calls(action: ActionCall | ActionSet) -> tuple[ActionCall, ...]:
    return action.calls if isinstance(action, ActionSet) else (action,)


class ReferenceRunner:
    """The interpreter. It accepts every write: it only gets writes that the engines have accepted."""

    name = "reference"

    def __init__(self, program: ir.Program) -> None:
        self._reference = Reference(program, SEED, NOW_US)

    def apply(self, event: Event) -> Outcome:  # noqa: PLR0912 - one case per event
        reference = self._reference
        match event:
            case events.PacketIn(port, frame):
                reference.messages = []
                return Outcome(reference.process(port, frame), reference.messages)
            case events.Insert(table, entry):
                reference.tables[table].rows[entry.key, entry.priority] = self._counted(table, entry, CounterValue())
            case events.Modify(table, entry):
                rows = reference.tables[table].rows
                old = rows[entry.key, entry.priority].counter
                rows[entry.key, entry.priority] = self._counted(table, entry, old)
            case events.Delete(table, key, priority):
                del reference.tables[table].rows[key, priority]
            case events.SetDefault(table, action):
                reference.tables[table].default = action
            case events.SetGroup(group, replicas):
                if replicas is None:
                    del reference.groups[group]
                else:
                    reference.groups[group] = tuple((replica.port, replica.instance) for replica in replicas)
            case events.SetSession(session, replicas, group):
                if replicas is None:
                    del reference.sessions[session]
                else:
                    pairs = tuple((replica.port, replica.instance) for replica in replicas)
                    reference.sessions[session] = pairs, group
            case events.SetValueSet(name, members):
                reference.value_sets[name] = members
            case events.WriteCounter(counter, index, value):
                reference.counters[counter][index][:] = value.packets, value.bytes
            case events.WriteDirectCounter(table, key, priority, value):
                rows = reference.tables[table].rows
                rows[key, priority] = rows[key, priority]._replace(counter=value)
            case events.WriteRegister(register, index, value):
                reference.registers[register][index] = value
        return Outcome([], [])

    def _counted(self, table: str, entry: Entry, before: CounterValue | None) -> Entry:
        has_counter = self._reference.program.tables[table].has_counter
        return entry._replace(counter=(entry.counter or before) if has_counter else None)

    def state(self) -> State:
        reference = self._reference
        names = {action.index: action.name for action in reference.program.actions}
        tables: dict[str, Rows] = {}
        for name, table in reference.tables.items():
            described = reference.program.tables[name]
            tables[name] = {
                identity: (
                    tuple(
                        ActionCall(names[reference.action_index(described, call.name)], call.args)
                        for call in _calls(row.action)
                    ),
                    row.counter,
                )
                for identity, row in table.rows.items()
            }
        return State(
            {name: list(cells) for name, cells in reference.registers.items()},
            {name: [(packets, size) for packets, size in cells] for name, cells in reference.counters.items()},
            tables,
            {"passes": reference.lost_passes},
        )


class DifferenceError(AssertionError):
    """Two runners differ at event number ``at``."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.at = at


def run_and_compare(runners: Sequence[Runner], sequence: Sequence[Event]) -> int:
    """Return the number of frames that left. The first runner must be an engine. Raises DifferenceError."""
    packets = left = 0
    for at, event in enumerate(sequence):
        expected = runners[0].apply(event)
        for other in runners[1:]:
            if expected.error and isinstance(other, ReferenceRunner):
                continue
            _compare(runners[0], expected, other, other.apply(event), event, at)
        left += len(expected.frames)
        if isinstance(event, events.PacketIn):
            packets += 1
            if packets % BATCH == 0:
                _compare_states(runners, at)
    _compare_states(runners, len(sequence) - 1)
    return left


def _compare(one: Runner, expected: Outcome, other: Runner, got: Outcome, event: Event, at: int) -> None:
    if got == expected:
        return
    lines = [f"event {at}: {_describe(event)}"]
    for name, outcome in ((one.name, expected), (other.name, got)):
        lines.append(f"{name}: {outcome.error or ''} {outcome.messages or ''}")
        lines += [f"  out {port}: {frame.hex()}" for port, frame in outcome.frames]
    raise DifferenceError("\n".join(lines), at)


def _compare_states(runners: Sequence[Runner], at: int) -> None:
    expected = runners[0].state()
    for other in runners[1:]:
        got = other.state()
        for part in ("registers", "counters", "tables", "lost"):
            ours, theirs = getattr(expected, part), getattr(got, part)
            wrong = [
                f"{name}: {runners[0].name} {ours[name]}, {other.name} {theirs[name]}"
                for name in ours
                if ours[name] != theirs[name]
            ]
            if wrong:
                raise DifferenceError(f"{part} differ after event {at}\n" + "\n".join(wrong), at)


def _describe(event: Event) -> str:
    if isinstance(event, events.PacketIn):
        return f"packet in at port {event.port}, {len(event.frame)} bytes: {event.frame.hex()}"
    return str(event)
