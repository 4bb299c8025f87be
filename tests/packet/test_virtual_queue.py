# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Virtual queues: what is marked, lost and cut at which length, class by class. The queues here drain by a byte in a
millisecond, so that their length is what went in; how they drain is tested in test_queue_drain.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from golden import model
from golden.model import Queue, udp_frame
from helpers.packet.layers import encoded
from helpers.packet.play import Game, Rig, contribution, random_payload
from helpers.packet.star import AGGREGATOR, EVERY, HOSTS, LEAF, PARENT, SINGLE

FAR = 2**31
SLOW = 1
# Frames of 1000 bytes and thresholds between their multiples: what has drained meanwhile does not matter.
BYTES = 1000
# The frame that is in the queue when a test begins: it takes a second to drain, longer than a step of a test.
FIRST = 1000


def tos(drop_class: int, ecn: int = 0, priority: int = 0) -> int:
    return (priority << 3 | drop_class << 1) << 2 | ecn


def fill(game: Game, tos_: int, frames: int) -> list[bytes | None]:
    """What becomes of frames from the first host to the second."""
    out = []
    for _ in range(frames):
        frame = udp_frame(HOSTS[0], HOSTS[1], game.rng.bytes(BYTES - 42), dscp_ecn=tos_)
        got = game.frame(HOSTS[0].port, frame)
        out.append(got[0][1] if got else None)
    return out


def queue(**fields: object) -> Queue:
    """Thresholds are lengths beside the first frame; 0 is 0, and always exceeded."""
    base = {"rate": SLOW, "mark": FAR, "drop": (FAR,) * 4, "drop_all": FAR, "trims": False}
    made = Queue(**{**base, **fields})  # type: ignore[arg-type]
    one, two, three, four = (beside(length) for length in made.drop)
    return replace(made, mark=beside(made.mark), drop=(one, two, three, four), drop_all=beside(made.drop_all))


def beside(length: int) -> int:
    return length + FIRST if 0 < length < FAR else length


def begin(game: Game, queue: Queue, port: int = 2) -> None:
    game.limit((port, queue), first=FIRST)
    # The switch's queue drains by its clock, the model's does not.
    queue.backlog, queue.rate = [1024 * FIRST] * 2, 0


@pytest.mark.parametrize("drop_class", range(4))
def test_each_class_is_lost_above_its_own_length(game: Game, drop_class: int) -> None:
    """Class 3 first: the thresholds are for classes 0, 1, 2, 3."""
    begin(game, queue(drop=(8050, 6050, 4050, 2050)))
    out = fill(game, tos(drop_class), 12)
    kept = (9, 7, 5, 3)[drop_class]
    assert [frame is not None for frame in out] == [True] * kept + [False] * (12 - kept)
    assert game.golden.decisions == {(2, 0, drop_class, model.PASS): kept, (2, 0, drop_class, model.DROP): 12 - kept}


@pytest.mark.parametrize("ecn", [1, 2, 3])
def test_protected_packets_are_marked_and_lost_only_at_the_very_end(game: Game, ecn: int) -> None:
    begin(game, queue(mark=2050, drop=(50, 50, 50, 50), drop_all=5050))
    out = fill(game, tos(0, ecn), 8)
    assert [None if frame is None else frame[15] & 3 for frame in out] == [ecn] * 3 + [3] * 3 + [None] * 2


def test_nobody_is_spared_above_the_last_threshold(game: Game) -> None:
    begin(game, queue(drop_all=1050))
    assert fill(game, tos(0), 2) != [None, None]
    for tos_ in (tos(0), tos(3), tos(0, 1), tos(0, 2), tos(0, 3)):
        assert fill(game, tos_, 1) == [None]


def test_what_is_lost_takes_no_room(game: Game) -> None:
    begin(game, queue(drop=(4050, 4050, 4050, 1050)))
    fill(game, tos(3), 10)
    out = fill(game, tos(0), 5)
    assert [frame is not None for frame in out] == [True] * 3 + [False] * 2


def test_a_marked_packets_checksum_is_right_with_options_and_fragments(game: Game) -> None:
    begin(game, queue(mark=0))
    for ihl, fragment in ((5, 0), (6, 0), (15, 0), (5, 0x2000), (5, 0x0010)):
        plain = udp_frame(HOSTS[0], HOSTS[1], bytes(50), dscp_ecn=tos(1, 2), ident=ihl)
        options = b"\x01" * (4 * ihl - 20)
        head = bytes([0x40 | ihl]) + plain[15:20] + fragment.to_bytes(2) + plain[22:34] + options
        frame = model.with_ipv4(plain[:14] + head + plain[34:], tos=tos(1, 2), total=78 + len(options))
        ((_, out),) = game.frame(HOSTS[0].port, frame)
        assert out[15] == tos(1, 3)
        assert model.ones_complement_sum(out[14 : 14 + 4 * ihl]) == 0xFFFF


def test_checksums_of_many_headers_stay_right(game: Game) -> None:
    begin(game, queue(mark=0, drop=(0, 0, 0, 0), trims=True))
    for ident in (*range(0, 65536, 1031), 65535):
        frame = udp_frame(HOSTS[0], HOSTS[1], b"x", ident=ident, dscp_ecn=tos(2, 1 + ident % 2))
        ((_, out),) = game.frame(HOSTS[0].port, frame)
        packet = contribution(EVERY, 0, 0, 0, random_payload(game.rng, model.THC))
        frame = udp_frame(HOSTS[0], HOSTS[1], encoded(packet), ident=ident)
        ((_, cut),) = game.frame(HOSTS[0].port, frame)
        assert model.ones_complement_sum(out[14:34]) == model.ones_complement_sum(cut[14:34]) == 0xFFFF


def test_a_wrong_checksum_is_not_made_right(rig: Rig) -> None:
    begin(game := Game(rig), queue(mark=0))
    frame = bytearray(udp_frame(HOSTS[0], HOSTS[1], b"x", dscp_ecn=tos(0, 2)))
    frame[24] ^= 0x10
    game.golden.queues[2].mark = FAR  # so that the model lets it alone
    ((_, out),) = rig.exchange(HOSTS[0].port, bytes(frame))
    assert out[15] == tos(0, 3)
    assert model.ones_complement_sum(out[14:34]) != 0xFFFF


@pytest.mark.parametrize("drop_class", range(4))
def test_contributions_are_cut_where_others_are_lost(game: Game, drop_class: int) -> None:
    """On its way through a switch that is not its aggregator. UDP's checksum is of the whole, hence gone."""
    begin(game, queue(drop=(50, 50, 50, 50), trims=True))
    fill(game, tos(0, 2), 1)
    packet = contribution(EVERY, 0, 3, 5, random_payload(game.rng, model.THC), flags=model.RESYNC)
    frame = udp_frame(HOSTS[0], HOSTS[1], encoded(packet), dscp_ecn=tos(drop_class), udp_checksum=0x1234)
    ((_, out),) = game.frame(HOSTS[0].port, frame)
    got = model.decode(out[42:])
    assert got == packet._replace(words=2, flags=model.RESYNC | model.TRIMMED, payload=packet.payload[:256])
    assert (len(out), model.malformed(out), out[40:42]) == (model.BARE + 256, None, b"\0\0")
    assert game.golden.decisions[2, 0, drop_class, model.TRIM] == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": model.RESULT}, {"kind": model.PROBE}, {"op": model.SUM32}, {"words": 2, "flags": model.TRIMMED},
        {"words": 8}, {"version": 1}, {"words": 3},
    ],
    ids=str,
)  # fmt: skip
def test_only_whole_contributions_are_cut(game: Game, fields: dict[str, int]) -> None:
    begin(game, queue(drop=(50, 50, 50, 50), trims=True))
    fill(game, tos(0, 2), 1)
    packet = contribution(EVERY, 0, 3, 5, b"")._replace(**{"words": 4, **fields})
    packet = packet._replace(payload=random_payload(game.rng, model.THC, packet.words))
    assert game.frame(HOSTS[0].port, udp_frame(HOSTS[0], HOSTS[1], encoded(packet))) == []


def test_what_was_cut_takes_the_room_of_what_is_left(game: Game) -> None:
    begin(game, queue(drop=(100, 2010, 2010, 2010), drop_all=2010, trims=True))
    fill(game, tos(0, 2), 1)
    packet = contribution(EVERY, 0, 3, 5, random_payload(game.rng, model.THC))
    frame = udp_frame(HOSTS[0], HOSTS[1], encoded(packet))
    # 330 bytes each: four of them fit under 2010 after the first 1000, where whole ones would be too long by then.
    assert [len(game.frame(HOSTS[0].port, frame)) for _ in range(7)] == [1] * 4 + [0] * 3


def test_replies_to_one_and_partial_results_pass_the_queue_results_to_all_do_not(rig: Rig) -> None:
    begin(game := Game(rig), queue(mark=0, drop_all=1050))
    fill(game, tos(0), 2)  # full
    for round_ in range(3):
        assert len(game.contribute(SINGLE, 0, round_=round_)) == 1  # its one worker is at port 2
    assert game.contribute(SINGLE, 0, round_=2) == []  # asked again: lost
    assert game.contribute(SINGLE, 0, round_=1) == []  # so is STALE
    assert game.golden.decisions == {(2, 0, 0, model.PASS): 2, (2, 0, 0, model.DROP): 2}
    game.check_counters()
    begin(game := Game(rig), queue(mark=0), port=PARENT.port)
    game.contribute(LEAF, 0)
    ((_, frame),) = game.contribute(LEAF, 1, tos=tos(3, 0, 0))
    assert frame[15] == tos(0, 3)
    assert model.malformed(frame) is None
    game.check_counters()


@pytest.mark.parametrize("priority", [0, 1, 7])
def test_results_to_all_pass_the_queue_of_each_port_if_they_have_a_priority(game: Game, priority: int) -> None:
    begin(game, queue(mark=0, drop_all=1050))
    fill(game, tos(0, 2, priority), 2)  # full, for packets like these
    frames: dict[int, bytes] = {}
    for worker in range(len(EVERY.workers)):
        frames = dict(game.contribute(EVERY, worker, tos=tos(1, 0, priority)))
    assert len(frames) == len(EVERY.workers) - (priority > 0)
    assert (2 in frames) == (priority == 0)
    assert {frame[15] for frame in frames.values()} == {tos(0, 2, priority)}  # no other port has a queue


def test_a_result_to_all_is_marked_at_the_port_whose_queue_is_long(game: Game) -> None:
    begin(game, queue(mark=0))
    frames: dict[int, bytes] = {}
    for worker in range(len(EVERY.workers)):
        frames = dict(game.contribute(EVERY, worker, tos=tos(3, 0, 4)))
    assert {port: frame[15] for port, frame in frames.items()} == {
        port: tos(0, 3 if port == 2 else 2, 4) for port in frames
    }
    assert model.malformed(frames[2]) is None
    assert model.ones_complement_sum(frames[2][14:34]) == 0xFFFF


@pytest.mark.parametrize("first, second", [(0, 5), (5, 0)])
def test_tagged_packets_and_others_do_not_wait_for_each_other(game: Game, first: int, second: int) -> None:
    begin(game, queue(drop=(FAR, FAR, FAR, 1050)))
    assert [frame is not None for frame in fill(game, tos(3, 0, first), 3)] == [True, True, False]
    assert [frame is not None for frame in fill(game, tos(3, 0, second), 3)] == [True, True, False]


def test_other_ports_are_untouched_and_uncounted(game: Game) -> None:
    begin(game, queue(mark=0, drop=(0, 0, 0, 0), drop_all=0))
    frame = udp_frame(HOSTS[0], HOSTS[2], bytes(500), dscp_ecn=tos(3))
    assert game.frame(HOSTS[0].port, frame) == [(HOSTS[2].port, frame)]
    assert game.golden.decisions == {}


def test_queues_of_two_ports_do_not_mix(game: Game) -> None:
    queues = [(2, queue(drop_all=1050)), (3, queue(drop_all=3050))]
    game.limit(*queues, first=FIRST)
    for _, one in queues:
        one.backlog, one.rate = [1024 * FIRST] * 2, 0
    for _ in range(5):
        for port in (2, 3):
            frame = udp_frame(HOSTS[0], HOSTS[port - 1], bytes(BYTES - 42), dscp_ecn=tos(1))
            game.frame(HOSTS[0].port, frame)
    assert game.golden.decisions[2, 0, 1, model.PASS] == 2
    assert game.golden.decisions[3, 0, 1, model.PASS] == 4


def test_arp_passes(game: Game) -> None:
    begin(game, queue(mark=0, drop=(0, 0, 0, 0), drop_all=0))
    asks = HOSTS[0].mac + b"\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01" + HOSTS[0].mac + HOSTS[0].ip
    frame = b"\xff" * 6 + asks + bytes(6) + HOSTS[1].ip
    assert len(game.frame(HOSTS[0].port, frame)) == 1
    answer = game.frame(HOSTS[0].port, frame[:38] + AGGREGATOR.ip)
    assert len(answer) == 1
