# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The queue of one controller, and the order of steps when the primary changes."""

from __future__ import annotations

from typing import Any

import pytest
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.p4runtime.calls import Stream
from softswitch.p4runtime.errors import UnavailableError
from softswitch.p4runtime.roles import Arbiter


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
