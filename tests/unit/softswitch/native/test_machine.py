# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The run-time library without the emitter: a hand-written program returns what it looked up."""

from __future__ import annotations

import logging
import random
import resource
import struct
import threading
import weakref
from pathlib import Path

import pytest
from differential.reference import matches
from helpers.logs import events_of
from softswitch.errors import TableFullError
from softswitch.events import SwitchEvent
from softswitch.native import engine as native_machine
from softswitch.native.emit import CProgram
from softswitch.native.emit_code import Message, MessageValue
from softswitch.native.engine import NativeMachine
from softswitch.program import ir
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, Exact, KeyMatch, Lpm, Range, Ternary
from softswitch.runtime.impair import SplitMix
from softswitch.switch import SoftSwitch

pytestmark = pytest.mark.cc

# A frame to port n is the key of table n, limb by limb; the frame that leaves tells action, hit and action data.
# The other ports show groups, registers, counters, random numbers, log messages and a sink that runs full.
SOURCE = r"""
#include "lookup.h"

static void show(struct ss_sink *sink, uint32_t port, const void *data, size_t size_bytes) {
  uint8_t *out = ss_reserve(sink, size_bytes);
  if (out == NULL) return;
  memcpy(out, data, size_bytes);
  ss_commit(sink, port, size_bytes);
}

static void show_entry(struct ss_sink *sink, const struct ss_entry *entry, uint32_t length) {
  if (entry->cell) {
    entry->cell[0] += 1;
    entry->cell[1] += length;
  }
  uint64_t told[6] = {entry->action, entry->hit, (uintptr_t)entry->args % 64};
  if (entry->action == 1) memcpy(told + 3, entry->args, 24);
  show(sink, 1, told, sizeof told);
}

static void process(struct ss_machine *machine, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now_us,
                    struct ss_sink *sink) {
  uint64_t key[40] = {0};
  memcpy(key, frame, length < sizeof key ? length : sizeof key);
  struct ss_table **tables = machine->tables;
  switch (port) {
    case 0: show_entry(sink, ss_lookup_exact(tables[0], key, 1), length); break;
    case 1: show_entry(sink, ss_lookup_exact(tables[1], key, 34), length); break;
    case 2: show_entry(sink, ss_lookup_lpm(tables[2], key, 1), length); break;
    case 3: show_entry(sink, ss_lookup_ranked(tables[3], key, 1), length); break;
    case 4: show_entry(sink, ss_lookup_ranked(tables[4], key, 3), length); break;
    case 5: show_entry(sink, ss_lookup_ranked(tables[5], key, 4), length); break;
    case 6: show_entry(sink, ss_default(tables[6]), length); break;
    case 100: {
      struct ss_group group = machine->groups[key[0]];
      for (uint32_t i = 0; i < group.count; i++) show(sink, group.replicas[i].port, &group.replicas[i].instance, 4);
      break;
    }
    case 101:
      for (uint64_t i = 0; i < key[0]; i++) show(sink, i % 500, frame, length);
      break;
    case 102: machine->registers[0][key[0] * 1] += key[1]; break;
    case 103: memcpy(machine->registers[1] + key[0] * 16, key + 1, 128); break;
    case 104: machine->counters[0][key[0] * 2] += 1; machine->counters[0][key[0] * 2 + 1] += length; break;
    case 105: key[0] = ss_random(machine->random); show(sink, 1, key, 8); break;
    case 106: machine->log(machine, 0, key); break;
    case 107: show(sink, 1, &now_us, 8); break;
    default: break;
  }
}

static const struct ss_array registers[] = {{5, 1}, {3, 16}};
static const struct ss_array counters[] = {{4, 2}};
const struct ss_program ss_program = {7, 2, 1, registers, counters, process};
"""

E, L, T, R = ir.MatchKind.EXACT, ir.MatchKind.LPM, ir.MatchKind.TERNARY, ir.MatchKind.RANGE
#: (kind of the table, (kind, width) of its keys), in the order of the program's tables
SHAPES = (
    (E, ((E, 20),)),
    (E, ((E, 64), (E, 2048), (E, 3))),
    (L, ((L, 32),)),
    (T, ((T, 16),)),
    (T, ((E, 8), (T, 100))),
    (R, ((T, 8), (R, 128), (L, 12))),
    (E, ()),
)
WIDTHS = (40, 128)  # of the parameters of action 1
BIG = 16  # parameters of action 2, of 2048 bits
SIZE = 300


def make_table(number: int) -> ir.Table:
    kind, fields = SHAPES[number]
    keys = tuple(
        ir.Key(f"k{i}", field, ir.FieldRef("h", f"f{i}", width), width) for i, (field, width) in enumerate(fields)
    )
    return ir.Table(
        f"t{number}", kind, keys, SIZE, (7, 8, 9), 7, (), False, None, {7: None, 8: None, 9: None}, has_counter=True
    )


def make_program() -> ir.Program:
    nodes: dict[str, ir.Node] = {f"t{number}": make_table(number) for number in range(len(SHAPES))}
    parameters = tuple(ir.Parameter(f"p{i}", width) for i, width in enumerate(WIDTHS))
    big = tuple(ir.Parameter(f"p{i}", 2048) for i in range(BIG))
    return ir.Program(
        headers={},
        errors={},
        parser=ir.Parser("p", "start", {}),
        ingress=ir.Pipeline("ingress", "t0", nodes),
        egress=ir.Pipeline("egress", None, {}),
        deparser=(),
        actions=(ir.Action(7, "none", (), ()), ir.Action(8, "set", parameters, ()), ir.Action(9, "big", big, ())),
        registers={"small": ir.Register("small", 5, 9, signed=True), "wide": ir.Register("wide", 3, 1000)},
        counters={"direct": ir.CounterArray("direct", SIZE, "t0"), "indirect": ir.CounterArray("indirect", 4)},
    )


@pytest.fixture(autouse=True)
def written_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    message = Message("{} and {}", (MessageValue(8, signed=True), MessageValue(600, signed=False)))
    emitted = CProgram(SOURCE, (message,))
    monkeypatch.setattr(native_machine, "emit_c", lambda _, **_options: emitted)


@pytest.fixture
def machine() -> NativeMachine:
    return NativeMachine(make_program(), SplitMix(1), lambda: (1 << 48) + 77)


def limbs_of(values: tuple[int, ...], widths: tuple[int, ...]) -> bytes:
    """The layout of engine.h, computed independently: 64-bit words, wide numbers in whole vectors of eight."""
    packed = b""
    for value, width in zip(values, widths, strict=True):
        words = -(-width // 64)
        if width >= 512:
            words = -(-words // 8) * 8
        packed += b"".join(struct.pack("=Q", value >> (64 * i) & (2**64 - 1)) for i in range(words))
    return packed


def look_up(machine: NativeMachine | SoftSwitch, number: int, values: tuple[int, ...]) -> tuple[int, ...]:
    """(action, hit, the two arguments of action 1)."""
    widths = tuple(width for _, width in SHAPES[number][1])
    ((port, frame),) = machine.process(number, limbs_of(values, widths))
    assert port == 1
    action, hit, misaligned, first, low, high = struct.unpack("=6Q", frame)
    assert misaligned == 0
    return action, hit, first, low | high << 64


# ---------------------------------------------------------------- a model of tables


def expected(entries: list[Entry], number: int, values: tuple[int, ...], default: tuple[int, ...]) -> tuple[int, ...]:
    fields = SHAPES[number][1]
    best: tuple[int, Entry] | None = None
    for entry in entries:
        if not all(matches(m, v, width) for m, (_, width), v in zip(entry.key, fields, values, strict=True)):
            continue
        rank = entry.priority or sum(m.prefix_len for m in entry.key if isinstance(m, Lpm))
        if best is None or rank > best[0]:
            best = rank, entry
    if best is None:
        return default
    call = best[1].action
    return (1, 1, *call.args) if call.args else (0, 1, 0, 0)


def draw_value(draw: random.Random, width: int) -> int:
    """Few different values, in the lowest and the highest bits, so that keys hit entries."""
    return draw.randrange(6) | draw.randrange(3) << max(width - 2, 0) & (1 << width) - 1


def draw_match(draw: random.Random, kind: ir.MatchKind, width: int) -> KeyMatch:
    value, full = draw_value(draw, width), (1 << width) - 1
    match kind:
        case ir.MatchKind.EXACT:
            return Exact(value)
        case ir.MatchKind.LPM:
            length = draw.choice([0, 1, 2, width - 2, width])
            return Lpm(value & (full ^ full >> length), length)
        case ir.MatchKind.TERNARY:
            mask = draw.choice([0, full, 1, full ^ 1, 1 << (width - 1)])
            return Ternary(value & mask, mask)
        case ir.MatchKind.RANGE:
            low, high = sorted((value, draw_value(draw, width)))
            return Range(low, high)


def draw_entry(draw: random.Random, number: int, priority: int) -> Entry:
    kind, fields = SHAPES[number]
    key = tuple(draw_match(draw, field, width) for field, width in fields)
    args = tuple(draw.randrange(1 << width) for width in WIDTHS)
    call = ActionCall("set", args) if draw.random() < 0.8 else ActionCall("none")
    return Entry(key, call, priority if kind in (T, R) else 0)


@pytest.mark.parametrize("number", range(6))
def test_packets_find_what_a_scan_by_rank_finds(machine: NativeMachine, number: int) -> None:
    draw = random.Random(number)
    table = machine.tables[f"t{number}"]
    present: dict[tuple[tuple[KeyMatch, ...], int], Entry] = {}
    default: tuple[int, ...] = (0, 0, 0, 0)
    widths = [width for _, width in SHAPES[number][1]]
    for priority in range(1, 80):
        entry = draw_entry(draw, number, priority)
        identity = entry.key, entry.priority
        if identity in present:
            table.modify(entry)
        else:
            table.insert(entry)
        present[identity] = entry
        if draw.random() < 0.3:
            gone = draw.choice(list(present))
            table.delete(*gone)
            del present[gone]
        if draw.random() < 0.1:
            args = tuple(draw.randrange(1 << width) for width in WIDTHS)
            table.set_default(ActionCall("set", args))
            default = (1, 0, *args)
        for _ in range(20):
            values = tuple(draw_value(draw, width) for width in widths)
            assert look_up(machine, number, values) == expected(list(present.values()), number, values, default)


def test_a_full_exact_table(machine: NativeMachine) -> None:
    table = machine.tables["t0"]
    for value in range(SIZE):
        table.insert(Entry((Exact(value * 1000),), ActionCall("set", (value, value << 64))))
    assert [look_up(machine, 0, (value * 1000,)) for value in range(SIZE)] == [
        (1, 1, value, value << 64) for value in range(SIZE)
    ]
    assert look_up(machine, 0, (999,)) == (0, 0, 0, 0)
    with pytest.raises(TableFullError):
        table.insert(Entry((Exact(1),), ActionCall("none")))


def test_more_keys_than_the_memo_holds(machine: NativeMachine) -> None:
    table = machine.tables["t3"]
    table.insert(Entry((Ternary(1, 1),), ActionCall("set", (5, 6)), 2))
    for turn in range(2):
        for value in range(1 << 13):
            assert look_up(machine, 3, (value,))[0] == value & 1, (turn, value)


def test_keys_that_differ_in_their_last_limb_only(machine: NativeMachine) -> None:
    machine.tables["t1"].insert(Entry((Exact(5), Exact(6), Exact(1)), ActionCall("set", (7, 8))))
    assert [look_up(machine, 1, (5, 6, last))[1] for last in range(8)] == [0, 1, 0, 0, 0, 0, 0, 0]
    # More keys than the memo has places.
    machine.tables["t4"].insert(Entry((Exact(9), Ternary(1 << 64, 1 << 64)), ActionCall("set", (7, 8)), 1))
    asked = [last << 64 for last in range(5000)]
    for values in ([value for last in asked for value in (last, 0)], asked, asked[::-1]):
        assert [look_up(machine, 4, (9, value))[1] for value in values] == [value >> 64 & 1 for value in values]


def test_a_table_without_keys_has_its_default_action(machine: NativeMachine) -> None:
    assert look_up(machine, 6, ()) == (0, 0, 0, 0)
    machine.tables["t6"].set_default(ActionCall("set", (3, 4)))
    assert look_up(machine, 6, ()) == (1, 0, 3, 4)


# ---------------------------------------------------------------- counters


def counts(machine: NativeMachine, number: int) -> list[CounterValue | None]:
    return [entry.counter for entry in machine.tables[f"t{number}"].entries()]


@pytest.mark.parametrize("number", [0, 3])
def test_rows_keep_their_counts_while_others_come_and_go(machine: NativeMachine, number: int) -> None:
    table = machine.tables[f"t{number}"]
    priority = 5 if number else 0
    first = (Ternary(9, 0xFFFF),) if number else (Exact(9),)
    other = (Ternary(10, 0xFFFF),) if number else (Exact(10),)
    table.insert(Entry(first, ActionCall("none"), priority, counter=CounterValue(100, 1000)))
    look_up(machine, number, (9,))
    table.insert(Entry(other, ActionCall("none"), priority))
    look_up(machine, number, (9,))
    table.delete(other, priority)
    look_up(machine, number, (9,))
    assert counts(machine, number) == [CounterValue(103, 1024)]
    table.modify(Entry(first, ActionCall("set", (1, 2)), priority))
    look_up(machine, number, (9,))
    assert counts(machine, number) == [CounterValue(104, 1032)]
    table.write_counter(first, priority, CounterValue())
    look_up(machine, number, (9,))
    assert counts(machine, number) == [CounterValue(1, 8)]


def test_misses_count_nothing(machine: NativeMachine) -> None:
    machine.tables["t0"].insert(Entry((Exact(1),), ActionCall("none")))
    look_up(machine, 0, (2,))
    assert counts(machine, 0) == [CounterValue(0, 0)]


def test_indirect_counters(machine: NativeMachine) -> None:
    for _ in range(3):
        machine.process(104, struct.pack("=Q", 2))
    cells = machine.counters["indirect"]
    assert [tuple(cells[index]) for index in range(len(cells))] == [(0, 0), (0, 0), (3, 24), (0, 0)]
    cells[2][0], cells[2][1] = 7, 8
    machine.process(104, struct.pack("=Q", 2))
    assert tuple(cells[2]) == (8, 16)
    assert list(machine.counters) == ["indirect"]
    for index in (-1, 4):
        with pytest.raises(IndexError):
            _ = cells[index]


# ---------------------------------------------------------------- the other state


def test_registers(machine: NativeMachine) -> None:
    machine.process(102, struct.pack("=QQ", 3, 0x1FE))  # -2 in 9 bits
    assert list(machine.registers["small"]) == [0, 0, 0, -2, 0]
    machine.registers["small"][3] = -3
    machine.process(102, struct.pack("=QQ", 3, 1))
    assert machine.registers["small"][3] == -2
    value = random.Random(5).randrange(1 << 1000)
    machine.process(103, struct.pack("=Q", 2) + limbs_of((value,), (1000,)))
    assert list(machine.registers["wide"]) == [0, 0, value]
    machine.registers["wide"][1] = value - 1
    assert list(machine.registers["wide"]) == [0, value - 1, value]
    for index in (-1, 3):
        with pytest.raises(IndexError, match="wide"):
            machine.registers["wide"][index] = 0


def test_groups_come_change_and_go(machine: NativeMachine) -> None:
    def left(group: int) -> list[tuple[int, int]]:
        return [(port, *struct.unpack("=I", frame)) for port, frame in machine.process(100, struct.pack("=Q", group))]

    assert left(65535) == []
    machine.set_group(65535, [(1, 2), (3, 65535), (1, 0)])
    machine.set_group(7, [(9, 9)])
    assert (left(65535), left(7)) == ([(1, 2), (3, 65535), (1, 0)], [(9, 9)])
    machine.set_group(65535, [(4, 4)])
    assert left(65535) == [(4, 4)]
    machine.set_group(65535, [])
    assert left(65535) == []
    machine.delete_group(7)
    assert left(7) == []
    assert machine.groups == {65535: ()}
    with pytest.raises(KeyError):
        machine.delete_group(7)


@pytest.mark.parametrize(("count", "size_bytes"), [(64, 8), (65, 8), (3, 70000), (1000, 1500), (1, 1 << 20)])
def test_frames_collect_whole_and_in_order(machine: NativeMachine, count: int, size_bytes: int) -> None:
    frame = struct.pack("=Q", count) + random.Random(count).randbytes(size_bytes - 8)
    assert machine.process(101, frame) == [(index % 500, frame) for index in range(count)]
    assert machine.process(101, struct.pack("=Q", 1)) == [(0, struct.pack("=Q", 1))]


def test_random_numbers_are_those_of_the_generator(machine: NativeMachine) -> None:
    drawn = [struct.unpack("=Q", machine.process(105, b"")[0][1])[0] for _ in range(3)]
    python = SplitMix(1)
    assert drawn == [python.next() for _ in range(3)]


def test_log_messages(machine: NativeMachine, caplog: pytest.LogCaptureFixture) -> None:
    wide = 1 << 599 | 5
    values = struct.pack("=Q", 200) + bytes(7 * 8) + limbs_of((wide,), (600,))
    with caplog.at_level(logging.INFO, "softswitch.program"):
        machine.process(106, values)
    assert caplog.messages == [f"-56 and {wide}"]
    assert events_of(caplog.records) == [SwitchEvent.PROGRAM_SAID]


def test_timestamps_have_48_bits(machine: NativeMachine) -> None:
    assert machine.process(107, b"") == [(1, struct.pack("=Q", 77))]


def test_machines_of_one_program_share_nothing(
    machine: NativeMachine,
) -> None:
    other = NativeMachine(make_program(), SplitMix(2), lambda: 0)
    machine.process(102, struct.pack("=QQ", 0, 1))
    machine.tables["t0"].insert(Entry((Exact(1),), ActionCall("set", (1, 1))))
    assert list(other.registers["small"]) == [0] * 5
    assert look_up(other, 0, (1,)) == (0, 0, 0, 0)


def test_a_packet_sees_a_write_whole_or_not_at_all() -> None:
    """Packets run without the GIL while other threads run theirs and one replaces the table and the program."""
    switch = SoftSwitch(make_program(), engine="native")
    key = (Exact(3),)
    ending = threading.Event()
    seen: set[tuple[int, ...]] = set()
    mixed: list[int] = []

    def ask() -> None:
        while not ending.is_set():
            seen.add(look_up(switch, 0, (3,)))

    def copy(mark: int) -> None:
        frame = struct.pack("=Q", 500) + bytes([mark]) * 1000
        while not ending.is_set():
            if [sent for _, sent in switch.process(101, frame)] != [frame] * 500:
                mixed.append(mark)

    threads = [threading.Thread(target=ask), *(threading.Thread(target=copy, args=(mark,)) for mark in (1, 2))]
    for thread in threads:
        thread.start()
    for value in range(200):
        if value % 50 == 0:
            switch.load(make_program())
            switch.insert("t0", Entry(key, ActionCall("none")))
        switch.modify("t0", Entry(key, ActionCall("set", (value, value << 64 | value))))
    ending.set()
    for thread in threads:
        thread.join()
    whole = {(1, 1, value, value << 64 | value) for value in range(200)}
    assert seen <= whole | {(0, 0, 0, 0), (0, 1, 0, 0)}
    assert len(seen) > 1
    assert mixed == []


def test_a_write_that_finds_no_memory_leaves_what_packets_see(
    machine: NativeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, key = machine.tables["t0"], (Exact(3),)
    table.insert(Entry(key, ActionCall("set", (1, 2))))
    freed: list[int] = []
    weakref.finalize(table._rows[key, 0].made, freed.append, 1)
    with monkeypatch.context() as patched:
        patched.setattr(machine._library, "ss_table_change", lambda *_: 0)
        with pytest.raises(MemoryError):
            table.modify(Entry(key, ActionCall("set", (3, 4))))
    assert freed == []
    assert look_up(machine, 0, (3,)) == (1, 1, 1, 2)
    table.modify(Entry(key, ActionCall("set", (5, 6))))
    assert freed == [1]
    assert look_up(machine, 0, (3,)) == (1, 1, 5, 6)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_writes_cost_no_memory(machine: NativeMachine) -> None:
    """Old tables, rows, groups and frames go: any of them, kept, would be 4 MB or more."""

    def write(times: int) -> None:
        table = machine.tables["t4"]
        for value in range(times):
            entry = Entry((Exact(1), Ternary(value, (1 << 100) - 1)), ActionCall("big", (value,) * BIG), 1)
            table.insert(entry)
            table.delete(entry.key, 1)
            machine.set_group(1, [(1, instance) for instance in range(500)])
            for _ in range(10):
                machine.process(101, struct.pack("=Q", 1) + bytes(1000))

    write(100)
    before = resident_bytes()
    write(1000)
    assert resident_bytes() - before < 2 << 20
