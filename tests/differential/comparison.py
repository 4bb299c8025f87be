# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Gives the same events to several implementations of a program and compares everything that can be observed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from differential.events import Event
from differential.reference import Frames, Reference
from softswitch.errors import DeviceError
from softswitch.program import ir
from softswitch.runtime.engine import Tracer
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
    def __init__(self, program: ir.Program | str, engine: EngineChoice, trace: Tracer | None = None) -> None:
        self.name: str = engine
        self._switch = SoftSwitch(program, seed=SEED, engine=engine, clock=lambda: NOW_US, trace=trace)
        self._program = self._switch.loaded.program

    def apply(self, event: Event) -> Outcome:
        with _log_messages() as messages:
            try:
                frames = getattr(self._switch, event.call)(*event.args)
            except DeviceError as error:
                return Outcome([], messages, type(error).__name__)
        return Outcome([(out, bytes(sent)) for out, sent in frames or ()], messages)

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
    """The interpreter."""

    name = "reference"

    def __init__(self, program: ir.Program, reference: Reference | None = None) -> None:
        self._reference = reference or Reference(program, SEED, NOW_US)

    def apply(self, event: Event) -> Outcome:
        self._reference.messages = []
        frames = getattr(self._reference, event.call)(*event.args)
        return Outcome(frames or [], self._reference.messages)

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
        if event.is_packet:
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
    if event.is_packet:
        port, frame = event.args
        return f"packet in at port {port}, {len(frame)} bytes: {frame.hex()}"
    return str(event)
