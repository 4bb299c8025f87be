# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A chunk's life, from packets of the golden model."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable

import pytest
from golden import ops
from golden import packets as golden
from golden.packets import Host, Packet, udp_frame
from helpers.see import pcaps
from sumwire.errors import CaptureError
from sumwire.see import show, timeline
from sumwire.see.captures import CaptureCounts, CaptureReader, Frame, packets_of
from sumwire.see.timeline import PacketEvent, PacketFilter, Timelines

WORKER = Host(1, bytes.fromhex("020000000001"), bytes([10, 0, 0, 1]))
SWITCH = Host(2, bytes.fromhex("020000000009"), bytes([10, 0, 0, 9]))
ALL = PacketFilter()
SENT = Packet(golden.CONTRIBUTE, ops.SUM32, 7, 2, 1, 1, 3, 0, 0, 8, 4, 6, payload=bytes(1024), token=5)
COPY = SENT._replace(flags=golden.RESYNC)
RESULT = SENT._replace(kind=golden.RESULT, count=2, contributors=3)
STALE = SENT._replace(kind=golden.STALE, round=9, words=0, payload=b"", contributors=0)
REFUSED = SENT._replace(kind=golden.REFUSED, count=21, words=0, payload=b"")
HELLO = Packet(golden.PROBE, 0, 7, 0, 1, 1, 0, 0, 0, 0, 0, 0)
# The job's generation is in the token's place.
TOLD = HELLO._replace(kind=golden.INFORM, round=57, contributors=5, count=2, token=9)


def _frame(packet: Packet) -> bytes:
    up = packet.kind in (golden.CONTRIBUTE, golden.PROBE)
    return udp_frame(*((WORKER, SWITCH) if up else (SWITCH, WORKER)), packet.encode())


def _timelines(seen: Iterable[tuple[float, str, Packet]], wanted: PacketFilter = ALL) -> Timelines:
    """Packets in milliseconds, at points."""
    data = pcaps.pcapng((at_ms / 1000, point, _frame(packet)) for at_ms, point, packet in seen)
    return timeline.read([("run", CaptureReader(io.BytesIO(data), "run"))], wanted)


def _events(timelines: Timelines) -> list[list[str]]:
    return [[event.what for event in life.events] for life in timelines.chunks.values()]


def test_a_lost_contribution_is_sent_again_and_answered() -> None:
    timelines = _timelines([(0, "h1", SENT), (2, "h1", COPY), (3, "h1", RESULT), (4, "h1", RESULT)])
    assert _events(timelines) == [["sent", "resent", "result", "result again"]]
    (life,) = timelines.chunks.values()
    texts = [show.event_as_dict(event)["text"] for event in life.events]
    assert texts == [
        "worker 1 (10.0.0.1) sends to 10.0.0.9",
        "worker 1 (10.0.0.1) sends copy 2, no answer for 2.000 ms [RESYNC]",
        "worker 1 (10.0.0.1) gets the result: count 2, workers 0, 1 are in, after 1.000 ms",
        "worker 1 (10.0.0.1) gets the result again: count 2, workers 0, 1 are in, after 2.000 ms",
    ]
    assert life.closed_s == pytest.approx(0.003)


def test_an_answer_with_another_round_belongs_to_its_question() -> None:
    timelines = _timelines(
        [(0, "h1", SENT), (1, "h1", STALE), (2, "h1", COPY), (3, "h1", REFUSED), (4, "h1", HELLO), (5, "h1", TOLD)]
    )
    assert _events(timelines) == [["sent", "stale", "resent", "refused"], ["asked", "informed"]]
    first, second = timelines.chunks.values()
    assert "too late: the slot is in round 9, after 1.000 ms" in show.event_as_dict(first.events[1])["text"]
    assert show.event_as_dict(first.events[2])["text"].endswith("sends copy 2, the one before was answered [RESYNC]")
    assert show.event_as_dict(first.events[3])["reason"] == "TOKEN"
    assert show.event_as_dict(second.events[1])["text"].endswith(
        "is told: round 57, workers 0, 2 are in, after 1.000 ms"
    )


def test_what_one_end_of_a_link_saw_and_the_other_did_not_was_lost() -> None:
    """The first contribution and the first result are lost, on the link between h1 and s1."""
    other = SENT._replace(slot=3, chunk=7)
    seen = [
        (0.0, "h1", SENT), (0.1, "h1", other), (0.2, "s1", other),
        (2.0, "h1", COPY), (2.1, "s1", COPY), (2.2, "s1", RESULT),
        (5.0, "h1", COPY), (5.1, "s1", COPY), (5.2, "s1", RESULT), (5.3, "h1", RESULT),
    ]  # fmt: skip
    timelines = _timelines(seen)
    life = next(iter(timelines.chunks.values()))
    lost = [
        (event.point, event.seen.kind, round(event.at_s * 1000, 1)) for event in life.events if event.what == "lost"
    ]
    assert lost == [("h1", golden.CONTRIBUTE, 0.0), ("s1", golden.RESULT, 2.2)]
    assert timelines.totals()["lost"] == 2
    text = list(show.as_text(timelines, PacketFilter(troubled=True)))
    assert "2 lost" in text[1] and "slot 3" not in "\n".join(text)


def test_filters_choose_packets_and_chunks() -> None:
    other = SENT._replace(slot=3, chunk=7, worker=0, job=8)
    seen = [(0, "h1", SENT), (1, "h1", other), (2, "h1", COPY)]
    for wanted in (PacketFilter(job=7), PacketFilter(worker=1), PacketFilter(slot=2), PacketFilter(chunk=6)):
        assert _events(_timelines(seen, wanted)) == [["sent", "resent"]]
    assert len(_timelines(seen, PacketFilter(troubled=True)).chosen(PacketFilter(troubled=True))) == 1
    assert _events(_timelines(seen, PacketFilter(job=9))) == []
    assert next(iter(show.as_text(_timelines([], ALL), ALL))).startswith("0 packets of Sumwire")


def test_a_capture_of_the_headers_alone_is_enough() -> None:
    """`tcpdump -s 80`."""
    counts = CaptureCounts()
    (seen,) = packets_of(Frame(0.0, "", 1, _frame(SENT)[:80]), counts)
    assert (seen.token, seen.words, counts.behind) == (5, 8, 0)


def _train(packets: list[Packet], tag: bytes = b"") -> bytes:
    """Packets as a host that sends trains has them in a capture: one datagram."""
    first, *rest = packets
    more = b"".join(packet.encode() + tag for packet in rest)
    return udp_frame(WORKER, SWITCH, first.encode() + tag + more)


@pytest.mark.parametrize("tag", [b"", b"\x25" * 8])
def test_the_packets_of_a_train_are_told_one_by_one(tag: bytes) -> None:
    counts = CaptureCounts()
    chunks = [SENT._replace(slot=slot, chunk=slot) for slot in range(5)]
    last = SENT._replace(slot=5, chunk=5, words=1, payload=bytes(128))
    found = packets_of(Frame(1.0, "h1", 1, _train([*chunks, last], tag)), counts)
    assert [(seen.slot, seen.words) for seen in found] == [(slot, 8) for slot in range(5)] + [(5, 1)]
    assert (counts.frames, counts.packets, counts.malformed, counts.behind) == (1, 6, 0, 0)
    alone = [
        packets_of(Frame(1.0, "h1", 1, udp_frame(WORKER, SWITCH, one.encode() + tag)), CaptureCounts())
        for one in chunks
    ]
    assert [seen.identity for seen in found[:5]] == [seen.identity for (seen,) in alone]


def test_what_lies_behind_the_captured_bytes_of_a_train_is_counted() -> None:
    chunks = [SENT._replace(slot=slot, chunk=slot) for slot in range(5)]
    for kept, seen, behind in ((80, 1, 4), (42 + 1056 + 20, 1, 4), (42 + 1056 + 40, 2, 3), (42 + 5 * 1056, 5, 0)):
        counts = CaptureCounts()
        assert len(packets_of(Frame(1.0, "", 1, _train(chunks)[:kept]), counts)) == seen
        assert (counts.packets, counts.behind, counts.malformed) == (seen, behind, 0)
    data = pcaps.pcap([(1.0, _train(chunks)[:80])])
    timelines = timeline.read([("run", CaptureReader(io.BytesIO(data), "run"))], ALL)
    assert "4 packets of trains were not captured: capture whole frames (tcpdump -s 0)" in list(show.summary(timelines))


def test_bytes_behind_a_packet_that_are_none_make_it_malformed() -> None:
    counts = CaptureCounts()
    for more in (b"\xff" * 1056, b"\x11" * 1056, SENT.encode()[:20]):
        packets_of(Frame(1.0, "", 1, udp_frame(WORKER, SWITCH, SENT.encode() + more)), counts)
    assert (counts.packets, counts.malformed) == (0, 3)


def test_frames_of_others_and_malformed_ones_are_counted_apart() -> None:
    counts = CaptureCounts()
    good = _frame(SENT)
    broken = bytearray(good)
    broken[42] = 0x11
    arp, tcp = bytes(12) + b"\x08\x06" + bytes(28), bytearray(good)
    tcp[23] = 6
    port = bytearray(good)
    port[34:38] = bytes(4)
    for data in (good, bytes(broken), good[:60] + bytes(3), arp, bytes(tcp), bytes(port), b"", good[:20]):
        packets_of(Frame(0.0, "", 1, data), counts)
    assert (counts.packets, counts.malformed, counts.headless, counts.others) == (1, 1, 1, 5)


def test_of_a_damaged_capture_the_beginning_is_told() -> None:
    whole = pcaps.pcap([(1.0, _frame(SENT)), (2.0, _frame(SENT._replace(slot=1)))])
    second = len(whole) - len(_frame(SENT)) - 8  # the second packet's length
    data = whole[:second] + b"\xff" * 4 + whole[second + 4 :]
    timelines = timeline.read([("run", CaptureReader(io.BytesIO(data), "run"))], ALL)
    (told,) = [line for line in show.summary(timelines) if "damaged" in line]
    assert timelines.counts.packets == 1 and told.startswith(
        f"run is damaged at byte {second + 8}: a packet of 4294967295"
    )
    with pytest.raises(CaptureError, match="a packet of 4294967295"):
        timeline.read([("run", CaptureReader(io.BytesIO(data[:24] + data[second - 8 :]), "run"))], ALL)


@pytest.mark.parametrize(
    ("link", "data"),
    [
        (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00"),
        (101, b""),
        (113, bytes(14) + b"\x08\x00"),
        (113, bytes(14) + b"\x81\x00\x00\x05\x08\x00"),
        (276, b"\x08\x00" + bytes(2) + struct.pack("!I", 7) + bytes(12)),
        (0, bytes(4)),
    ],
)
def test_links_of_other_types(link: int, data: bytes) -> None:
    (seen,) = packets_of(Frame(0.0, "any", link, data + _frame(SENT)[14:]), CaptureCounts())
    assert seen.point == ("any#7" if link == 276 else "any")


def test_a_link_that_is_not_known_is_refused() -> None:
    with pytest.raises(CaptureError, match="type 147, known are"):
        packets_of(Frame(0.0, "", 147, b""), CaptureCounts())


def test_too_many_packets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "PACKETS_MOST", 2)
    with pytest.raises(CaptureError, match="more than 2 packets of Sumwire"):
        _timelines([(0, "h1", SENT)] * 3)


def test_packets_are_told_as_they_come() -> None:
    frames = [Frame(at, "h1", 1, _frame(packet)) for at, packet in ((1.0, SENT), (1.5, COPY), (2.0, RESULT))]
    told: list[str] = []

    def say(event: PacketEvent, began_s: float) -> None:
        told.append(show.line(event, began_s).rpartition("  ")[2].strip())

    show.follow(iter(frames), PacketFilter(troubled=True), say)
    assert told == ["worker 1 (10.0.0.1) sends copy 2, no answer for 500.000 ms [RESYNC]"]
