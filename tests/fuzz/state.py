# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The state that a fuzzed program starts with: as JSON, and as the words that fuzz.c reads."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from softswitch.native.limbs import LIMB_BYTES, limbs
from softswitch.native.table import ActionDataPacking, KeyPacking, kind_of
from softswitch.program import ir
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, Exact, KeyMatch, Lpm, MeterRates, Range, Ternary
from softswitch.runtime.tables import RuntimeTable
from softswitch.switch import SoftSwitch

MOST_BYTES = 4096  # MOST_BYTES of fuzz.c
_KINDS: dict[str, type] = {"exact": Exact, "lpm": Lpm, "ternary": Ternary, "range": Range}
_NAMES = {kind: name for name, kind in _KINDS.items()}

Json = Any


def describe(switch: SoftSwitch, frames: Sequence[tuple[int, bytes]]) -> Json:
    """The state of ``switch`` as JSON: its entries, default actions and groups, and ``frames`` to start from."""
    tables = {}
    for name, table in switch.loaded.program.tables.items():
        written = [] if table.entries is not None else [_entry_to_json(entry) for entry in switch.entries(name)]
        default = None if table.default_const else switch.default_action(name)
        tables[name] = {"entries": written, "default": default and [default.name, list(default.args)]}
    groups = {
        str(group): [[replica.port, replica.instance] for replica in replicas]
        for group, replicas in switch.groups().items()
    }
    return {"tables": tables, "groups": groups, "frames": [[port, frame.hex()] for port, frame in frames]}


def _entry_to_json(entry: Entry) -> Json:
    key = [[_NAMES[type(match)], *match] for match in entry.key]
    assert isinstance(entry.action, ActionCall), "states for fuzzing have no entries with several actions"
    return {"key": key, "action": [entry.action.name, list(entry.action.args)], "priority": entry.priority}


def _entry_of(node: Json) -> Entry:
    key = tuple(_KINDS[kind](*numbers) for kind, *numbers in node["key"])
    name, args = node["action"]
    return Entry(key, ActionCall(name, tuple(args)), node["priority"])


# ---------------------------------------------------------------- what fuzz.c reads


class _Words:
    def __init__(self) -> None:
        self.data = bytearray()

    def numbers(self, *values: int) -> None:
        self.data += struct.pack(f"<{len(values)}Q", *values)

    def raw(self, data: bytes) -> None:
        self.data += data + bytes(-len(data) % LIMB_BYTES)


@dataclass
class _Recorder:
    """A table's backend that keeps the rows as fuzz.c reads them."""

    table: ir.Table
    actions: dict[int, ir.Action]
    shown: list[bytes] = field(default_factory=list)

    def row(
        self, key: tuple[KeyMatch, ...] | None, position: int, args: tuple[int, ...], counter: CounterValue | None
    ) -> bytes:
        words = _Words()
        action = self.actions[self.table.actions[position]]
        data = ActionDataPacking([parameter.width for parameter in action.parameters]).pack(args)
        exact = self.table.kind is ir.MatchKind.EXACT
        key_limbs = 0 if key is None else sum(limbs(part.width) for part in self.table.keys)
        words.numbers(position, key is not None, not exact, counter is not None, len(data) // LIMB_BYTES, key_limbs)
        words.raw(data)
        if key is not None:
            words.raw(KeyPacking(self.table).pack(key))
        return bytes(words.data)

    def rows(
        self, keys: Sequence[tuple[KeyMatch, ...]], position: int, args: Sequence[tuple[int, ...]], *, counts: bool
    ) -> list[bytes]:
        counter = CounterValue() if counts else None
        return [self.row(key, position, each, counter) for key, each in zip(keys, args, strict=True)]

    def row_of_set(
        self, key: tuple[KeyMatch, ...], calls: Sequence[tuple[int, tuple[int, ...]]], counter: CounterValue | None
    ) -> bytes:
        raise AssertionError("states for fuzzing have no entries with several actions")

    def publish(self, rows: Sequence[bytes], default: bytes) -> None:
        self.shown = [default, *rows]

    def change(self, removed: Sequence[bytes], put: Sequence[bytes], default: bytes) -> None:
        assert not removed, "the state is written once"
        self.shown = [default, *self.shown[1:], *put]

    def read_counter(self, row: bytes) -> CounterValue | None:
        return None

    def write_counter(self, row: bytes, value: CounterValue) -> None:
        raise AssertionError("the fuzzer writes no counters")

    def set_meter(self, row: bytes, rates: MeterRates | None) -> None:
        raise AssertionError("the fuzzer configures no meters")


def pack_state(program: ir.Program, state: Json) -> bytes:
    """The words that fuzz.c reads. Raises DeviceError if ``state`` does not fit the program."""
    words = _Words()
    actions = {action.index: action for action in program.actions}
    for name, table in program.tables.items():
        recorder = _Recorder(table, actions)
        runtime = RuntimeTable(table, actions, recorder)
        written = state["tables"].get(name, {})
        for node in written.get("entries", []):
            runtime.insert(_entry_of(node))
        if written.get("default"):
            action, args = written["default"]
            runtime.set_default(ActionCall(action, tuple(args)))
        words.numbers(kind_of(table), len(table.keys))
        for key in table.keys:
            words.numbers(limbs(key.width), key.kind is ir.MatchKind.RANGE)
        default, *rows = recorder.shown
        words.raw(default)
        words.numbers(len(rows))
        words.raw(b"".join(rows))
    words.numbers(len(state["groups"]))
    for group, replicas in state["groups"].items():
        words.numbers(int(group), len(replicas), *(number for replica in replicas for number in replica))
    frames = [(port, bytes.fromhex(text)[:MOST_BYTES]) for port, text in state["frames"]] or [(1, bytes(64))]
    words.numbers(len(frames))
    for port, frame in frames:
        words.numbers(port, len(frame))
        words.raw(frame)
    return bytes(words.data)
