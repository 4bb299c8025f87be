# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Meters and digests of a controller take effect in the data plane: programs/meter.p4 and digest.p4, both engines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.rpc import code_pb2
from helpers.p4runtime.client import (
    CPU_PORT,
    DEVICE_ID,
    Controller,
    Program,
    delete,
    field_match,
    insert,
    modify,
)
from helpers.p4runtime.messages import FRAME, packet_out, update
from helpers.p4runtime.served import primary_of
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.p4runtime.server import serve
from softswitch.switch import EngineChoice, SoftSwitch

INSERT, MODIFY, DELETE = p4rt.Update.INSERT, p4rt.Update.MODIFY, p4rt.Update.DELETE
Running = Callable[[str], tuple[Controller, Program]]


@pytest.fixture(params=["python", pytest.param("native", marks=pytest.mark.cc)])
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    """The primary controller of a switch that runs the program of a name."""
    engine: EngineChoice = request.param
    server = serve(SoftSwitch(engine=engine, cpu_port=CPU_PORT), "127.0.0.1:0", DEVICE_ID, CPU_PORT)
    controller = Controller(server.port)

    def run(name: str) -> tuple[Controller, Program]:
        program = Program(name)
        controller.become(1)
        controller.set_pipeline(program.config())
        return controller, program

    yield run
    controller.close()
    server.stop()


def task(number: int, port: int = CPU_PORT) -> Any:
    return packet_out((1, bytes([port])), (2, bytes([number])))


def meter(program: Program, index: int | None = None, rates: tuple[int, int, int, int] | None = None) -> Any:
    entity = p4rt.Entity()
    entity.meter_entry.meter_id = program.id("meters", "rates")
    if index is not None:
        entity.meter_entry.index.index = index
    if rates is not None:
        config = entity.meter_entry.config
        config.cir, config.cburst, config.pir, config.pburst = rates
    return entity


GREEN, YELLOW, RED = 0, 1, 2


def colour(controller: Controller, asked: int = 3) -> int:
    """Of a packet that meter 1 measures; with another task that of the table's direct meter alone."""
    controller.send(task(asked))
    return int(controller.receive().packet.metadata[1].value[0])


def test_a_meter_colours_packets(running: Running) -> None:
    controller, program = running("meter")
    assert [colour(controller) for _ in range(3)] == [0, 0, 0]
    configured = meter(program, 1, (0, 1, 0, 2))  # tokens that never come back: one green packet, one yellow
    controller.write(update(MODIFY, configured))
    assert controller.read(meter(program, 1)) == [configured]
    others = [meter(program, index) for index in (0, 2, 3)]
    assert sorted(controller.read(p4rt.Entity(meter_entry=p4rt.MeterEntry())), key=str) == sorted(
        [configured, *others], key=str
    )
    assert [colour(controller) for _ in range(3)] == [0, 1, 2]
    controller.write(update(MODIFY, meter(program)))  # all of the array, without a config
    assert [colour(controller) for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("update_type", "make", "code"),
    [
        (INSERT, lambda p: meter(p, 1), "INVALID_ARGUMENT"),
        (MODIFY, lambda p: meter(p, -1), "INVALID_ARGUMENT"),
        (MODIFY, lambda p: meter(p, 4), "OUT_OF_RANGE"),
        (MODIFY, lambda p: meter(p, 1, (2, 1, 1, 1)), "INVALID_ARGUMENT"),
        (MODIFY, lambda p: meter(p, 1, (-1, 1, 1, 1)), "INVALID_ARGUMENT"),
    ],
)
def test_meter_write_is_refused(running: Running, update_type: int, make: Callable[[Program], Any], code: str) -> None:
    controller, program = running("meter")
    [error] = controller.refused(update(update_type, make(program)))
    assert code_pb2.Code.Name(error.canonical_code) == code


def test_a_digest_is_told_from_when_it_is_asked_for(running: Running) -> None:
    controller, program = running("digest")
    entity = p4rt.Entity()
    entity.digest_entry.digest_id = program.id("digests", "learned_t")
    entity.digest_entry.config.max_list_size = 1
    entity.digest_entry.config.ack_timeout_ns = 3600 * 10**9
    controller.send(task(2, port=7))
    assert controller.is_quiet()
    controller.write(update(INSERT, entity))
    assert controller.read(p4rt.Entity(digest_entry=p4rt.DigestEntry())) == [entity]
    controller.send(task(2, port=7))
    told = controller.receive().digest
    assert (told.digest_id, told.list_id) == (entity.digest_entry.digest_id, 1)
    [[source, port]] = [list(each.struct.members) for each in told.data]
    assert (source.bitstring, port.bitstring) == (FRAME[6:12], bytes([CPU_PORT]))
    controller.send(task(2, port=7))
    assert controller.is_quiet()
    acknowledgement = p4rt.StreamMessageRequest()
    acknowledgement.digest_ack.digest_id, acknowledgement.digest_ack.list_id = told.digest_id, told.list_id
    controller.send(acknowledgement)
    controller.send(task(2, port=7))
    assert controller.receive().digest.list_id == 2
    controller.set_pipeline(program.config())  # begins anew, without digests
    controller.send(task(2, port=7))
    assert controller.is_quiet()
    assert controller.read(p4rt.Entity(digest_entry=p4rt.DigestEntry())) == []


def test_an_acknowledgement_of_nothing_is_an_error_of_the_stream(running: Running) -> None:
    controller, _ = running("digest")
    message = p4rt.StreamMessageRequest()
    message.digest_ack.digest_id = 5
    controller.send(message)
    error = controller.receive().error
    assert error.canonical_code == code_pb2.INVALID_ARGUMENT
    assert error.digest_list_ack.digest_list_ack == message.digest_ack


EXTERNS = Program("externs", Path(__file__).parents[3] / "helpers/softswitch/programs")


def members(*pairs: tuple[int, int], value_set: str = "known_pairs") -> Any:
    entity = p4rt.Entity()
    entity.value_set_entry.value_set_id = EXTERNS.id("value_sets", value_set)
    fields = EXTERNS.p4info.value_sets[0].match
    for pair in pairs:
        member = entity.value_set_entry.members.add()
        for field, value in zip(fields, pair, strict=True):
            member.match.append(field_match(field.id, ("exact", bytes([value]))))
    return entity


@pytest.mark.parametrize("engine", ["python", pytest.param("native", marks=pytest.mark.cc)])
def test_members_of_a_value_set_reach_the_parser(engine: EngineChoice) -> None:
    switch = SoftSwitch(engine=engine)
    with primary_of(switch, EXTERNS.config()) as controller:
        assert controller.read(p4rt.Entity(value_set_entry=p4rt.ValueSetEntry())) == [members()]
        controller.write(update(MODIFY, members((9, 7), (7, 9))))
        assert controller.read(members()) == [members((9, 7), (7, 9))]
        known = [switch.process(5, bytes([*pair, 0, 0]))[0][1][3] for pair in ((9, 7), (7, 9), (9, 9))]
        assert known == [1, 1, 0]
        refusals = [
            (update(INSERT, members((1, 1))), "INVALID_ARGUMENT"),
            (update(MODIFY, members(*((number, 0) for number in range(5)))), "RESOURCE_EXHAUSTED"),
        ]
        incomplete = members((1, 1))
        del incomplete.value_set_entry.members[0].match[1]
        refusals.append((update(MODIFY, incomplete), "INVALID_ARGUMENT"))
        errors = controller.refused(*(each for each, _ in refusals))
        assert [code_pb2.Code.Name(each.canonical_code) for each in errors] == [code for _, code in refusals]
        assert controller.read(members()) == [members((9, 7), (7, 9))]


def metered(program: Program, rates: tuple[int, int, int, int] | None = None) -> Any:
    """The entry of table hosts for the source of FRAME."""
    entry = program.entry("hosts", src=("exact", FRAME[6:12].lstrip(b"\0")))
    entry.action.CopyFrom(program.action("measure"))
    if rates is not None:
        config = entry.meter_config
        config.cir, config.cburst, config.pir, config.pburst = rates
    return entry


def direct(program: Program, rates: tuple[int, int, int, int] | None = None) -> Any:
    entity = p4rt.Entity()
    entity.direct_meter_entry.table_entry.table_id = program.id("tables", "hosts")
    entity.direct_meter_entry.table_entry.match.extend(metered(program).match)
    if rates is not None:
        entity.direct_meter_entry.config.CopyFrom(metered(program, rates).meter_config)
    return entity


def test_a_direct_meter_has_its_entrys_rates(running: Running) -> None:
    controller, program = running("meter")
    plenty = 10**9
    asked = p4rt.TableEntry(table_id=program.id("tables", "hosts"), meter_config=p4rt.MeterConfig())
    controller.write(insert(metered(program, (0, 0, 0, plenty))))
    assert colour(controller, asked=0) == YELLOW
    assert controller.read_entries(asked) == [metered(program, (0, 0, 0, plenty))]
    assert controller.read_entries(p4rt.TableEntry(table_id=asked.table_id)) == [metered(program)]
    controller.write(update(MODIFY, direct(program, (0, 0, 0, 0))))
    assert colour(controller, asked=0) == RED
    everything = p4rt.Entity(direct_meter_entry=p4rt.DirectMeterEntry())
    assert controller.read(direct(program)) == controller.read(everything) == [direct(program, (0, 0, 0, 0))]
    controller.write(modify(metered(program)))  # without a config the meter is as at first
    assert colour(controller, asked=0) == GREEN
    assert controller.read(everything) == [direct(program)]
    for wrong in (insert(metered(program, (2, 1, 1, 1))), update(INSERT, direct(program))):
        [error] = controller.refused(wrong)
        assert error.canonical_code == code_pb2.INVALID_ARGUMENT
    controller.write(delete(metered(program)))
    [error] = controller.refused(insert(metered(program, (2, 1, 1, 1))))
    assert controller.read_entries(asked) == []


@pytest.mark.parametrize("engine", ["python", pytest.param("native", marks=pytest.mark.cc)])
def test_members_with_masks_reach_the_parser(engine: EngineChoice) -> None:
    switch = SoftSwitch(engine=engine)
    config = EXTERNS.config()
    first, second = config.p4info.value_sets[0].match
    first.match_type, second.match_type = first.TERNARY, first.RANGE
    entity = p4rt.Entity()
    entity.value_set_entry.value_set_id = EXTERNS.id("value_sets", "known_pairs")
    entry = entity.value_set_entry.members.add()
    entry.match.append(field_match(first.id, ("ternary", b"\x08", b"\x0f")))
    entry.match.append(field_match(second.id, ("range", b"\x03", b"\x05")))
    with primary_of(switch, config) as controller:
        controller.write(update(MODIFY, entity))
        assert controller.read(entity) == [entity]
        pairs = [(0x18, 3), (0xF8, 5), (0x18, 6), (0x19, 3)]
        assert [switch.process(5, bytes([*pair, 0, 0]))[0][1][3] for pair in pairs] == [1, 1, 0, 0]
        del entity.value_set_entry.members[0].match[0]
        controller.write(update(MODIFY, entity))
        assert [switch.process(5, bytes([*pair, 0, 0]))[0][1][3] for pair in pairs] == [1, 1, 0, 1]
        entity.value_set_entry.members[0].match[0].range.low = b"\x06"
        [error] = controller.refused(update(MODIFY, entity))
        assert "low 0x6 is above high 0x5" in error.message


def test_an_idle_entry_is_notified(running: Running) -> None:
    controller, program = running("idle")
    source = b"\x06\x07\x08\x09\x0a\x0b"  # of FRAME
    entry = program.entry("hosts", action=program.action("seen"), src=("exact", source))
    entry.idle_timeout_ns, entry.metadata = 1, b"note"
    controller.write(insert(entry))
    told = controller.receive().idle_timeout_notification
    [idle] = told.table_entry
    assert (idle.table_id, idle.match, idle.metadata, idle.idle_timeout_ns) == (
        entry.table_id,
        entry.match,
        b"note",
        1,
    )
    controller.write(delete(entry))
    entry.idle_timeout_ns = 3600 * 10**9
    controller.write(insert(entry))
    assert controller.read_entries(program.entry("hosts")) == [entry]
    asked = program.entry("hosts")
    asked.time_since_last_hit.SetInParent()
    began = time.monotonic_ns()
    controller.send(task(0, port=7))
    while not controller.is_quiet():  # more notifications came before the entry was deleted; the packet is through now
        pass
    [read] = controller.read_entries(asked)
    # Without the hit it would be longer: the entry was written before.
    assert read.time_since_last_hit.elapsed_ns <= time.monotonic_ns() - began
    assert not read.HasField("counter_data")


def test_what_no_idle_timeout_is(running: Running) -> None:
    controller, program = running("idle")
    negative, written = (program.entry("hosts", action=program.action("seen"), src=("exact", b"\x01")) for _ in "ab")
    negative.idle_timeout_ns = -1
    written.time_since_last_hit.SetInParent()
    default = program.entry("hosts", action=program.action("NoAction"))
    default.is_default_action, default.idle_timeout_ns = True, 1
    errors = controller.refused(insert(negative), insert(written), modify(default))
    assert [error.canonical_code for error in errors] == [code_pb2.INVALID_ARGUMENT] * 3
