# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Lists of digests: when they are sent, what is told once only, and how it ends. Time is the test's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import text_format
from helpers.p4runtime.client import Program
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.p4runtime import p4info
from softswitch.p4runtime.digests import MAX_LIST, Digests, encoded, encoder_of, numbers_of
from softswitch.p4runtime.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotThereError,
    UnimplementedError,
)

INSERT, MODIFY, DELETE = p4rt.Update.INSERT, p4rt.Update.MODIFY, p4rt.Update.DELETE
HOUR_NS = 3600 * 10**9


class Told:
    """What a controller gets, as (list id, numbers); ``now_ns`` is the time."""

    def __init__(self) -> None:
        self.info = p4info.parse(Program("digest").p4info)
        [self.id] = self.info.digests
        self.now_ns = 0
        self.lists: list[tuple[int, list[tuple[int, ...]]]] = []
        self.came = threading.Event()
        self.digests = Digests(self.info, self._send, lambda: self.now_ns)

    def _send(self, digest_id: int, message: Any) -> None:
        assert digest_id == message.digest.digest_id == self.id
        data = [
            tuple(int.from_bytes(member.bitstring, "big") for member in each.struct.members)
            for each in message.digest.data
        ]
        self.lists.append((message.digest.list_id, data))
        self.came.set()

    def entry(self, timeout: int = 0, size: int = 0, ack: int = 0) -> Any:
        entry = p4rt.DigestEntry(digest_id=self.id)
        entry.config.max_timeout_ns, entry.config.max_list_size, entry.config.ack_timeout_ns = timeout, size, ack
        return entry

    def learn(self, *numbers: int) -> None:
        for number in numbers:
            self.digests.learn("learned_t", (number, 3))

    def acknowledge(self, list_id: int) -> None:
        self.digests.acknowledge(p4rt.DigestListAck(digest_id=self.id, list_id=list_id))


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told()
    yield made
    made.digests.end()


def test_nothing_is_told_that_nobody_asked_for(told: Told) -> None:
    told.learn(1)
    assert not told.digests
    assert told.lists == []


def test_without_a_timeout_each_is_told_at_once_and_again(told: Told) -> None:
    told.digests.write(INSERT, told.entry())
    told.learn(1, 1, 2)
    assert told.lists == [(1, [(1, 3)]), (2, [(1, 3)]), (3, [(2, 3)])]


def test_a_full_list_has_different_digests(told: Told) -> None:
    told.digests.write(INSERT, told.entry(timeout=HOUR_NS, size=3))
    told.learn(1, 2, 1, 1, 2, 5, 6)
    assert told.lists == [(1, [(1, 3), (2, 3), (5, 3)])]


def test_a_list_is_never_longer_than_the_switch_bears(told: Told) -> None:
    told.digests.write(INSERT, told.entry(timeout=HOUR_NS))
    told.learn(*range(MAX_LIST + 1))
    assert [len(data) for _, data in told.lists] == [MAX_LIST]


def test_a_list_that_has_waited_is_sent(told: Told) -> None:
    told.digests.write(INSERT, told.entry(timeout=1_000_000, size=100))
    told.learn(1, 2)
    told.now_ns = 2_000_000
    assert told.came.wait(60)
    assert told.lists == [(1, [(1, 3), (2, 3)])]


def test_what_is_not_acknowledged_is_not_told_again_until_it_is_old(told: Told) -> None:
    told.digests.write(INSERT, told.entry(ack=1000))
    told.learn(1, 1, 2)
    assert [data for _, data in told.lists] == [[(1, 3)], [(2, 3)]]
    told.acknowledge(1)
    told.learn(1, 2)
    assert told.lists[2:] == [(3, [(1, 3)])]
    told.now_ns = 1000
    told.learn(2)
    assert told.lists[3:] == [(4, [(2, 3)])]
    told.acknowledge(77)  # forgotten, or never sent


def test_configurations(told: Told) -> None:
    for kind in (MODIFY, DELETE):
        with pytest.raises(NotThereError):
            told.digests.write(kind, told.entry())
    told.digests.write(INSERT, told.entry(timeout=5))
    with pytest.raises(AlreadyExistsError):
        told.digests.write(INSERT, told.entry())
    told.digests.write(MODIFY, told.entry(timeout=6, size=7, ack=8))
    for asked in (p4rt.DigestEntry(), p4rt.DigestEntry(digest_id=told.id)):
        assert [each.digest_entry for each in told.digests.read(asked)] == [told.entry(timeout=6, size=7, ack=8)]
    told.digests.write(DELETE, told.entry())
    assert list(told.digests.read(p4rt.DigestEntry())) == []
    with pytest.raises(NotThereError):
        told.digests.read(p4rt.DigestEntry(digest_id=told.id))
    with pytest.raises(InvalidArgumentError, match="not the id of a digest"):
        told.digests.read(p4rt.DigestEntry(digest_id=5))
    with pytest.raises(InvalidArgumentError, match="max_list_size is -1"):
        told.digests.write(INSERT, told.entry(size=-1))


def test_values_of_every_type_that_is_offered() -> None:
    types = p4info_pb2.P4Info()
    text_format.Parse(
        """type_info {
          structs { key: "inner" value { members { name: "b" type_spec { bool {} } } } }
          new_types { key: "port" value { original_type { bitstring { bit { bitwidth: 9 } } } } }
        }""",
        types,
    )
    members = """tuple { members { struct { name: "inner" } } members { new_type { name: "port" } }
      members { bitstring { int { bitwidth: 8 } } } }"""
    spec = text_format.Parse(members, p4info_pb2.Digest().type_spec)
    encoder = encoder_of(spec, types.type_info, "x")
    assert numbers_of(encoder) == 3
    first, second, third = encoded(encoder, (1, 300, -1)).tuple.members
    assert (first.struct.members[0].bool, second.bitstring, third.bitstring) == (True, b"\x01\x2c", b"\xff")
    with pytest.raises(UnimplementedError, match="type error"):
        encoder_of(text_format.Parse("error {}", p4info_pb2.Digest().type_spec), types.type_info, "x")
