# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Batches of updates that differ in values alone are read and written as one by one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from helpers.p4runtime.client import Program, insert
from p4.v1 import p4runtime_pb2
from softswitch.p4runtime import pipeline, write
from softswitch.p4runtime.batching import FEWEST, MOST_LAYOUTS, BatchedUpdates, UpdateBatch, batched
from softswitch.p4runtime.errors import BatchError
from softswitch.p4runtime.pipeline import ForwardingPipeline
from softswitch.p4runtime.roles import FULL, Access
from softswitch.switch import EngineChoice, SoftSwitch

LPM, EXACT = "ingress.lpm_t", "ingress.exact_t"
_ROOM = 300
_ETHERNET = bytes.fromhex("0800") + bytes(46)


@pytest.fixture(scope="module")
def program() -> Program:
    return Program("tables")


# ------------------------------------------------------------ bytes


def _like(rng: random.Random, update: Any) -> Any:
    """With other values of as many bytes, and another prefix length."""
    other = p4runtime_pb2.Update()
    other.CopyFrom(update)
    entry = other.entity.table_entry
    for match in entry.match:
        part = getattr(match, match.WhichOneof("field_match_type"))
        part.value = rng.randbytes(len(part.value))
        if match.HasField("lpm"):
            part.prefix_len = rng.randint(1, 127) if part.prefix_len < 128 else rng.randint(128, 300)
    for param in entry.action.action.params:
        param.value = rng.randbytes(len(param.value))
    return other


def _layout(rng: random.Random) -> Any:
    update = p4runtime_pb2.Update(type=rng.randint(1, 3))
    entry = update.entity.table_entry
    entry.table_id = rng.choice((1, 300, 0xFFFFFFFF))
    for _ in range(rng.randint(0, 3)):
        match = entry.match.add(field_id=rng.choice((1, 200)))
        if rng.random() < 0.5:
            match.lpm.value, match.lpm.prefix_len = bytes(rng.choice((1, 3, 4, 16))), rng.choice((1, 128))
        else:
            match.exact.value = bytes(rng.choice((1, 2, 6, 8)))
    entry.action.action.action_id = rng.choice((1, 1 << 24))
    for _ in range(rng.randint(0, 2)):
        entry.action.action.params.add(param_id=rng.choice((1, 128)), value=bytes(rng.choice((1, 2, 3, 5))))
    return update


def _batch(rng: random.Random, layouts: int) -> list[bytes]:
    known = [_layout(rng) for _ in range(layouts)]
    first = [each for each in known for _ in range(FEWEST)]
    updates = [_like(rng, each) for each in (*first, *rng.choices(known, k=20))]
    rng.shuffle(updates)
    return [update.SerializeToString() for update in updates]


def _as_protobuf(layout: UpdateBatch) -> dict[int, Any]:
    """The updates of a layout, by number, from its first and its columns."""
    made = {}
    for at, number in enumerate(layout.numbers):
        update, columns = p4runtime_pb2.Update.FromString(layout.first.raw), iter(layout.columns)
        entry = update.entity.table_entry
        for match in entry.match:
            part = getattr(match, match.WhichOneof("field_match_type"))
            part.value = next(columns)[at].to_bytes(len(part.value), "big")
            if match.HasField("lpm"):
                part.prefix_len = next(columns)[at]
        for param in entry.action.action.params:
            param.value = next(columns)[at].to_bytes(len(param.value), "big")
        made[number] = update
    return made


def _check(found: BatchedUpdates, chunks: Sequence[bytes]) -> None:
    read = [p4runtime_pb2.Update.FromString(chunk) for chunk in chunks]
    made = {number: update for layout in found.layouts for number, update in _as_protobuf(layout).items()}
    assert [made[number] for number in range(len(chunks))] == read
    assert [update.type for update in found] == [update.type for update in read]


def test_columns_have_what_protobuf_reads() -> None:
    rng = random.Random(1)
    for _ in range(40):
        chunks = _batch(rng, rng.randint(1, 4))
        found = batched(chunks)
        if max(map(len, chunks)) > 131:  # of the entity, in which all is but four bytes, 127
            assert found is None
        else:
            assert found is not None
            _check(found, chunks)


def test_changed_bytes_are_read_as_by_protobuf_or_not_at_all() -> None:
    rng = random.Random(2)
    taken = 0
    for _ in range(100):
        chunks = _batch(rng, 1)
        number = rng.randrange(len(chunks))
        at = rng.randrange(len(chunks[number]))
        changed = bytearray(chunks[number])
        changed[at] ^= 1 << rng.randrange(8)
        chunks[number] = bytes(changed)
        found = batched(chunks)
        if found is not None:
            taken += 1
            _check(found, chunks)
    assert 10 < taken < 90


def test_what_is_no_insert_of_this_form_leaves_all_to_others() -> None:
    rng = random.Random(3)
    chunks = _batch(rng, 1)
    odd = p4runtime_pb2.Update.FromString(chunks[0])
    odd.entity.table_entry.metadata = b"m"
    assert batched(chunks) is not None
    assert batched([*chunks, odd.SerializeToString()]) is None
    odd.entity.table_entry.ClearField("metadata")
    odd.entity.table_entry.action.action.params.add(param_id=9, value=b"")
    assert batched([*chunks, odd.SerializeToString()]) is None


def test_many_layouts_are_not_sought() -> None:
    updates = []
    for action in range(1, MOST_LAYOUTS + 2):
        update = p4runtime_pb2.Update(type=1)
        update.entity.table_entry.table_id = 1
        update.entity.table_entry.match.add(field_id=1).exact.value = b"\1"
        update.entity.table_entry.action.action.action_id = action
        updates += [update.SerializeToString()] * FEWEST
    assert batched(updates) is None
    assert batched(updates[: MOST_LAYOUTS * FEWEST]) is not None
    assert batched(updates[: FEWEST - 1]) is None


# ------------------------------------------------------------ entries


Loaded = tuple[SoftSwitch, ForwardingPipeline]


def _loaded(program: Program, engine: EngineChoice) -> Loaded:
    """With room for batches, and with lpm_t as the last table: where a packet goes shows what it found."""
    config = program.config()
    text = json.loads(config.p4_device_config)
    for table in (table for each in text["pipelines"] for table in each["tables"]):
        if table["name"] in (LPM, EXACT):
            table["max_size"] = _ROOM
        if table["name"] == LPM:
            table["next_tables"] = dict.fromkeys(table["next_tables"])
            table["base_default_next"] = None
    config.p4_device_config = json.dumps(text).encode()
    parsed, loaded = pipeline.parse_pipeline(config)
    switch = SoftSwitch(engine=engine, seed=1)
    switch.load(loaded)
    return switch, parsed


def _insert(program: Program, rng: random.Random, table: str) -> Any:
    match rng.randrange(3):
        case 0:
            action = program.action("forward", port=bytes([rng.randrange(200)]))
        case 1:
            action = program.action("forward", port=bytes([1, rng.randrange(200)]))
        case _:
            action = program.action("drop")
    value = rng.randrange(1 << 20)
    if table == "exact_t":
        return insert(program.entry(table, action=action, dst=("exact", (value % 500).to_bytes(6, "big"))))
    length = rng.randint(32, 48)
    shifted = value >> (48 - length) << (48 - length)
    return insert(program.entry(table, action=action, src=("lpm", shifted.to_bytes(6, "big"), length)))


def _wrong(program: Program, rng: random.Random) -> Any:
    """An insert that the server refuses."""
    update = _insert(program, rng, "lpm_t")
    entry = update.entity.table_entry
    match rng.randrange(6):
        case 0:
            entry.match[0].lpm.prefix_len = 49
        case 1:
            entry.match[0].lpm.value = b"\1\1\1\1\1\1"
            entry.match[0].lpm.prefix_len = 40
        case 2:
            entry.action.CopyFrom(program.action("forward", port=b"\2\0"))
        case 3:
            entry.table_id += 77
        case 4:
            entry.match[0].field_id = 9
        case _:
            entry.action.action.action_id = program.id("actions", "mark")
    return update


def _outcomes(loaded: Loaded, updates: Iterable[Any], access: Access = FULL) -> list[tuple[type, str] | None]:
    """None for each update where all went well."""
    try:
        write.apply(*loaded, updates, access)
    except BatchError as error:
        return [None if each is None else (type(each), str(each)) for each in error.outcomes]
    return []


def _frames(rng: random.Random) -> list[bytes]:
    places = [rng.randrange(1 << 20).to_bytes(6, "big") for _ in range(60)]
    return [rng.randrange(500).to_bytes(6, "big") + place + _ETHERNET for place in places]


def test_batches_end_as_one_insert_after_the_other(program: Program, engine: EngineChoice) -> None:
    rng = random.Random(4)
    whole = 0
    for number in range(6):
        one, other, tried = (_loaded(program, engine) for _ in range(3))
        tables = rng.choice((["lpm_t"], ["exact_t"], ["lpm_t", "exact_t"]))
        updates = [_insert(program, rng, rng.choice(tables)) for _ in range(rng.choice((100, 160, 320)))]
        updates += [_wrong(program, rng)] if number % 3 == 2 else []
        found = batched([update.SerializeToString() for update in updates])
        assert found is not None
        whole += write.insert_batch(*tried, found, FULL) is not None
        assert _outcomes(one, found) == _outcomes(other, updates)
        ports = _compare(one[0], other[0], _frames(rng))
    assert whole == 4
    assert len(ports) > 5


def _compare(one: SoftSwitch, other: SoftSwitch, frames: Sequence[bytes]) -> set[int]:
    """Assert that both are the same; returns the ports that frames leave by."""
    left = [one.process(1, frame) for frame in frames]
    assert left == [other.process(1, frame) for frame in frames]
    for table in (LPM, EXACT):
        assert one.entries(table) == other.entries(table)  # with counts
    return {port for each in left for port, _ in each}


def _drops(program: Program, count: int) -> BatchedUpdates:
    keys = [("lpm", bytes([number] * 6), 48) for number in range(count)]
    updates = [insert(program.entry("lpm_t", action=program.action("drop"), src=key)) for key in keys]
    found = batched([update.SerializeToString() for update in updates])
    assert found is not None
    return found


def test_a_batch_reaches_packets_at_its_end(program: Program, engine: EngineChoice) -> None:
    switch, parsed = _loaded(program, engine)
    entry = program.entry("lpm_t", action=program.action("forward", port=b"\3"), src=("lpm", bytes(6), 1))
    write.apply(switch, parsed, [insert(entry)])
    frame = bytes(6) + bytes([7] * 6) + _ETHERNET
    before = switch.process(1, frame)
    assert before
    with switch.batch():
        assert write.insert_batch(switch, parsed, _drops(program, 40), FULL) == [None] * 40
        assert switch.process(1, frame) == before
    assert switch.process(1, frame) == []


def test_what_was_deleted_in_part_comes_back_in_part(program: Program, engine: EngineChoice) -> None:
    switch, parsed = _loaded(program, engine)
    found = _drops(program, 40)
    write.apply(switch, parsed, found)
    for update in list(found)[:20]:
        update.type = p4runtime_pb2.Update.DELETE
        write.apply(switch, parsed, [update])
    assert len(switch.entries(LPM)) == 20
    again = _outcomes((switch, parsed), found)
    assert [each is None for each in again] == [True] * 20 + [False] * 20


def test_a_role_without_the_table_writes_nothing(program: Program) -> None:
    switch, parsed = _loaded(program, "python")
    found = _drops(program, 40)
    table = program.id("tables", "exact_t")
    outcomes = _outcomes((switch, parsed), found, Access(ids=frozenset({table})))
    assert [each is not None for each in outcomes] == [True] * 40
    assert switch.entries(LPM) == []
