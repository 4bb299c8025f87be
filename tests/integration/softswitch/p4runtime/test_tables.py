# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Writes and reads of tables beyond what test_oracle.py compares: texts, limits, long answers, the program's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.rpc import code_pb2
from helpers.p4runtime.client import CPU_PORT, Controller, Program, delete, insert, modify
from helpers.p4runtime.messages import group, session, update
from helpers.p4runtime.served import primary_of
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.p4runtime import rpcs
from softswitch.p4runtime.read import EntityReader
from softswitch.switch import SoftSwitch


def exact(program: Program, dst: bytes = b"\x01", **params: bytes) -> Any:
    action = program.action("forward", **params) if params else program.action("drop")
    return program.entry("exact_t", action=action, dst=("exact", dst))


def prefix(program: Program, value: bytes, length: int) -> Any:
    return insert(program.entry("lpm_t", action=program.action("drop"), src=("lpm", value, length)))


def masked(program: Program, value: bytes, mask: bytes, priority: int = 7) -> Any:
    entry = program.entry("ternary_t", action=program.action("drop"), vlan=("ternary", value, mask))
    entry.match.extend(program.entry("ternary_t", type=("exact", b"\x08\x00")).match)
    entry.priority = priority
    return insert(entry)


def ranged(program: Program, low: bytes, high: bytes) -> Any:
    entry = program.entry("range_t", action=program.action("drop"), type=("range", low, high))
    entry.priority = 7
    return insert(entry)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda p: insert(exact(p, b"")), "field 'dst': the value is empty"),
        (lambda p: insert(exact(p, b"\x01" + bytes(6))), "field 'dst': value 0x1000000000000 does not fit bit<48>"),
        (lambda p: insert(exact(p, port=b"\x02\x00")), "parameter 'port': value 0x200 does not fit bit<9>"),
        (lambda p: insert(p.entry("exact_t", action=p.action("drop"))), "'dst': an exact match cannot be left out"),
        (lambda p: prefix(p, b"\x00", 0), 'prefix length 0; a "don\'t care" match must be left out'),
        (lambda p: prefix(p, b"\x00", 49), "prefix length 49 is not in 1..48"),
        (lambda p: prefix(p, b"\x0a\x00\x00\x00\x00\x01", 47), "bits set beyond its prefix length 47"),
        (lambda p: masked(p, b"\x05", b"\x04"), "value 0x5 has bits set outside its mask 0x4"),
        (lambda p: masked(p, b"\x04", b"\x0f", -1), "priority -1, its key needs one above 0"),
        (lambda p: ranged(p, b"\x03", b"\x02"), "low 0x3 is above high 0x2"),
        (lambda p: modify(exact(p)), "no entry"),
        (lambda p: update(p4rt.Update.INSERT, group(65536)), "multicast group id 65536 is not in 1..65535"),
        (lambda p: update(p4rt.Update.INSERT, group(2, (1, 1), (b"\x01", 1))), "port 1, instance 1 is given twice"),
        (lambda p: update(p4rt.Update.INSERT, session(0)), "clone session id 0 is not in 1..32767"),
        (lambda p: update(p4rt.Update.INSERT, session(5, packet_length_bytes=64)), "packet_length_bytes is 64"),
    ],
)
def test_what_a_refusal_says(primary: Controller, program: Program, make: Callable[[Program], Any], text: str) -> None:
    [error] = primary.refused(make(program))
    assert text in error.message


def test_metadata_beyond_what_is_kept_is_refused(primary: Controller, program: Program) -> None:
    entry = exact(program)
    entry.metadata = bytes(1024)
    primary.write(insert(entry))
    entry.metadata = bytes(1025)
    [error] = primary.refused(modify(entry))
    assert error.canonical_code == code_pb2.RESOURCE_EXHAUSTED
    assert "metadata of 1025 bytes: at most 1024 are kept" in error.message
    [kept] = primary.read_entries(program.entry("exact_t"))
    assert len(kept.metadata) == 1024


def test_initial_entries_may_change_and_others_come_beside_them(primary: Controller, program: Program) -> None:
    """The table has room for eight, though the JSON counts its two entries only."""
    arp, ip = (
        program.entry("initial_t", action=program.action("drop"), type=("exact", t)) for t in (b"\x08\x06", b"\x08\x00")
    )
    primary.write(modify(arp), delete(ip))
    assert primary.read_entries(program.entry("initial_t")) == [arp]
    more = [program.entry("initial_t", action=program.action("drop"), type=("exact", bytes([n]))) for n in range(1, 9)]
    primary.write(*map(insert, more[:7]))
    [error] = primary.refused(insert(more[7]))
    assert error.canonical_code == code_pb2.RESOURCE_EXHAUSTED
    primary.set_pipeline(program.config())
    assert len(primary.read_entries(program.entry("initial_t"))) == 2


def test_a_batch_changes_each_table_once(program: Program) -> None:
    """A table with an order is built from all of its rows: once for each of them would take quadratic time."""
    switch = SoftSwitch(engine="python", cpu_port=CPU_PORT)
    with primary_of(switch, program.config(), CPU_PORT) as controller:
        built: list[tuple[str, int]] = []
        prefixes, ranges = (switch.loaded.tables[f"ingress.{name}_t"]._backend for name in ("lpm", "range"))
        prefixes.change = lambda _removed, put, _default: built.append(("lpm", len(put)))
        ranges.publish = lambda rows, _default: built.append(("range", len(rows)))
        each = [bytes([number]) for number in range(16)]
        controller.write(*(prefix(program, one, 48) for one in each), *(ranged(program, one, one) for one in each))
        assert sorted(built) == [("lpm", 16), ("range", 16)]


# --- reads


def test_entries_of_the_program_are_read_by_everybody(
    primary: Controller, program: Program, connect: Callable[[], Controller]
) -> None:
    """Those that programs/tables.p4 declares, as its source says; neither a stream nor a primary is needed."""
    first = program.entry("const_t", action=program.action("mark", vlan=b"\x01", wide=b"\x02"))
    first.match.extend(program.entry("const_t", type=("ternary", b"\x08\x06", b"\xff\xff")).match)
    second = program.entry("const_t", action=program.action("drop"), type=("ternary", b"\x08\x00", b"\xff\x00"))
    first.priority, second.priority = 2, 1
    first.is_const = second.is_const = True
    arp = program.entry("initial_t", action=program.action("forward", port=b"\x01"), type=("exact", b"\x08\x06"))
    ip = program.entry("initial_t", action=program.action("forward", port=b"\x02"), type=("exact", b"\x08\x00"))
    assert sorted(connect().read_entries(p4rt.TableEntry()), key=str) == sorted([first, second, arp, ip], key=str)


def test_a_read_of_little_takes_one_turn(primary: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads take turns, piece by piece: a second piece would wait for one of every other read in progress."""
    pieces: list[bytes | None] = []
    serialised = rpcs._serialised

    def counted(reading: EntityReader) -> bytes | None:
        pieces.append(serialised(reading))
        return pieces[-1]

    monkeypatch.setattr(rpcs, "_serialised", counted)
    assert len(primary.read_entries(p4rt.TableEntry())) == 4
    assert len(pieces) == 1


def test_a_long_answer_comes_in_parts(primary: Controller, program: Program) -> None:
    entry = exact(program)
    entry.metadata = bytes(1000)
    primary.write(insert(entry))
    request = p4rt.Entity(table_entry=program.entry("exact_t"))
    responses: Iterator[Any] = primary.read_responses(*[request] * 400)
    sizes = [len(response.entities) for response in responses]
    assert sum(sizes) == 400
    assert len(sizes) > 1
