# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What goes out on streams: the queue of a stream, idle timeouts, digests."""

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
from softswitch.p4runtime.calls import Stream
from softswitch.p4runtime.digests import MAX_LIST, Digests, encoded, encoder_of, numbers_of
from softswitch.p4runtime.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotThereError,
    UnavailableError,
    UnimplementedError,
)
from softswitch.p4runtime.idle import SHORTEST_NS, IdleTimeouts
from softswitch.p4runtime.p4info import parse
from softswitch.p4runtime.pipeline import fitted
from softswitch.p4runtime.profiles import EntryKey
from softswitch.p4runtime.roles import Arbiter
from softswitch.program.load.program import load_program
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, Exact
from softswitch.switch import SoftSwitch


def taken(stream: Stream) -> list[Any]:
    """What is queued. Raises the error that the stream was closed with."""
    found = []
    while (message := stream.take()) is not None:
        found.append(message)
    return found


def test_packets_are_bounded_and_other_messages_are_not() -> None:
    stream = Stream(packet_limit=2)
    assert [stream.offer_packet(n) for n in range(3)] == [True, True, False]
    stream.send("news")
    assert stream.replies == 1
    stream.close()
    assert not stream.ended
    assert taken(stream) == [0, 1, "news"]
    assert stream.ended
    assert stream.replies == 0


def test_after_close_nothing_is_queued() -> None:
    stream = Stream(packet_limit=2)
    stream.close()
    stream.send(1)
    assert not stream.offer_packet(2)
    assert taken(stream) == []


def test_an_error_ends_at_once_and_only_the_first_close_counts() -> None:
    stream = Stream(packet_limit=2)
    stream.send(1)
    stream.offer_packet(2)
    stream.close(UnavailableError("first"))
    stream.close()
    stream.close(UnavailableError("second"))
    assert (stream.ended, stream.replies) == (True, 0)
    with pytest.raises(UnavailableError, match="first"):
        stream.take()


def test_every_change_is_told_once() -> None:
    changes: list[int] = []
    stream = Stream(packet_limit=1, changed=lambda: changes.append(1))
    stream.send("news")
    assert not stream.offer_packet(1)
    stream.take()
    stream.offer_packet(1)
    stream.close()
    stream.close()
    assert len(changes) == 3


class RecordingStream(Stream):
    """Remembers the status code of each notification."""

    def __init__(self) -> None:
        super().__init__(packet_limit=1)
        self.codes: list[int] = []

    def send(self, message: Any) -> None:
        self.codes.append(message.arbitration.status.code)


class RecordingLock:
    """A write lock that looks, when it is entered, at what has happened so far."""

    def __init__(self) -> None:
        self.arbiter: Arbiter | None = None
        self.streams: list[RecordingStream] = []
        self.seen: list[Any] = []

    def __enter__(self) -> None:
        assert self.arbiter is not None
        self.seen.append((self.arbiter.primary, [list(stream.codes) for stream in self.streams]))

    def __exit__(self, *_: object) -> None:
        pass


def test_steps_of_a_change_of_primary() -> None:
    """The previous primary is refused and told before the running writes are waited for, the new one told after."""
    lock = RecordingLock()
    arbiter = lock.arbiter = Arbiter(3, lock)
    old, new = lock.streams = [RecordingStream(), RecordingStream()]
    ok, backup = 0, 6
    for stream, election_id in ((old, 1), (new, 2)):
        arbiter.update(stream, p4rt.MasterArbitrationUpdate(device_id=3, election_id=p4rt.Uint128(low=election_id)))
    assert lock.seen == [(None, [[], []]), (None, [[ok, backup], []])]
    assert (arbiter.primary, old.codes, new.codes) == (new, [ok, backup], [ok])


TABLE = "ingress.hosts"
HOUR_NS = 3600 * 10**9


class Switch:
    """Entries by the number that they match."""

    def __init__(self) -> None:
        program = Program("idle")
        self.device = SoftSwitch(engine="python")
        self.device.load(fitted(load_program(program.json.decode()), parse(program.p4info)))
        self.now_ns = 0
        self.idle_ones: list[int] = []
        self.timeouts = IdleTimeouts(self.device, self._notify, lambda: self.now_ns)
        self.timeouts._start = lambda: None  # type: ignore[method-assign] # only the test looks

    def _notify(self, entries: list[EntryKey]) -> None:
        self.idle_ones += sorted(key[0].value for _, key, _ in entries if isinstance(key[0], Exact))

    def insert(self, number: int, timeout_ns: int) -> EntryKey:
        key = (Exact(number),)
        self.device.insert(TABLE, Entry(key, ActionCall("ingress.seen")))
        self.timeouts.write((TABLE, key, 0), timeout_ns)
        return TABLE, key, 0

    def hit(self, number: int, packets: int) -> None:
        self.device.write_direct_counter(TABLE, (Exact(number),), 0, CounterValue(packets, 0))

    def look(self, now_ns: int) -> list[int]:
        self.now_ns = now_ns
        self.timeouts.look()
        found, self.idle_ones = self.idle_ones, []
        return found


def test_an_entry_is_notified_after_each_timeout_without_a_hit() -> None:
    switch = Switch()
    first, _ = switch.insert(1, HOUR_NS), switch.insert(2, 2 * HOUR_NS)
    switch.insert(3, 0)
    assert switch.look(HOUR_NS - 1) == []
    assert switch.look(HOUR_NS) == [1]
    assert switch.look(2 * HOUR_NS - 1) == []
    switch.hit(2, 5)
    assert switch.look(2 * HOUR_NS) == [1]
    assert switch.look(3 * HOUR_NS - 1) == []
    assert switch.look(4 * HOUR_NS) == [1, 2]
    switch.timeouts.write(first, 0)
    assert switch.look(9 * HOUR_NS) == [2]
    switch.device.delete(TABLE, (Exact(2),))
    switch.timeouts.delete((TABLE, (Exact(2),), 0))
    assert switch.look(99 * HOUR_NS) == []
    switch.timeouts.end()


def test_time_since_the_last_hit() -> None:
    switch = Switch()
    where = switch.insert(1, 0)
    switch.now_ns = 70
    assert switch.timeouts.elapsed_ns(where, 0) == 70
    assert switch.timeouts.elapsed_ns(where, 3) == 0
    switch.now_ns = 100
    assert switch.timeouts.elapsed_ns(where, 3) == 30
    assert switch.timeouts.timeout_ns(where) == 0
    switch.timeouts.end()


def test_looks_are_a_quarter_of_the_shortest_timeout_apart_and_not_closer_than_the_least() -> None:
    switch = Switch()
    assert switch.timeouts.look() == SHORTEST_NS
    switch.insert(1, HOUR_NS)
    switch.insert(2, 8 * HOUR_NS)
    assert switch.timeouts.look() == HOUR_NS // 4
    switch.timeouts.end()


INSERT, MODIFY, DELETE = p4rt.Update.INSERT, p4rt.Update.MODIFY, p4rt.Update.DELETE


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
