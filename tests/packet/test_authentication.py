# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets of a job with a key have authentication tags: wrong ones and lacking ones are refused, and what the switch
sends has right ones. The golden model computes them from the papers."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from golden.model import Packet, udp_frame
from helpers.packet.layers import encoded
from helpers.packet.play import Game, Rig, contribution, random_payload
from helpers.packet.star import AGGREGATOR, EVERY, FULL, KEYED, KEYED_LEAF, KEYED_ROOT, LEAF

OPS = pytest.mark.parametrize("op", model.SHORT_OPS)
TOKEN = 0x0123_4567_89AB_CDEF


def sent(game: Game, op: int = model.THC, slot: int = 0) -> Packet:
    """A contribution of worker 0 with its tag, not yet sent."""
    payload = random_payload(game.rng, op)
    return KEYED.sealed(contribution(KEYED, 0, slot, 0, payload, op), AGGREGATOR.ip)


def send_raw(game: Game, datagram: bytes) -> list[tuple[int, bytes]]:
    host = KEYED.workers[0]
    return game.frame(host.port, udp_frame(host, AGGREGATOR, datagram))


@OPS
def test_tagged_contributions_are_summed_and_the_result_has_a_tag(game: Game, op: int) -> None:
    for round_ in range(2):
        for worker in range(4):
            out = game.contribute(KEYED, worker, 3, round_, op=op)
    assert len(out) == 4
    assert {len(frame) for _, frame in out} == {model.BARE + model.WORDS_DOWN[op] * model.WORD + 8}
    # The same for all, whoever it is for.
    assert len({model.decode(frame[42:]).tag for _, frame in out}) == 1
    assert game.golden.rejects == {}


def test_answers_of_every_kind_have_tags(game: Game) -> None:
    assert game.hello(KEYED, 0, 1).tag
    for round_ in (4, 5):
        for worker in range(4):
            game.contribute(KEYED, worker, 1, round_)
    assert game.probe(KEYED, 1, 1, 5).kind == model.INFORM
    assert game.hello(KEYED, 2, 1).tag
    # A late packet, and one whose result was lost.
    for round_, kind in ((4, model.STALE), (5, model.RESULT)):
        ((_, frame),) = game.contribute(KEYED, 0, 1, round_)
        assert (model.decode(frame[42:]).kind, len(model.decode(frame[42:]).tag)) == (kind, 8)
    # Without the two low planes: the slot's result does not fit.
    ((_, frame),) = game.cut(KEYED, 0, 1, 5)
    assert model.decode(frame[42:]).kind == model.INFORM


def test_cut_contributions_and_results_have_tags(game: Game) -> None:
    for worker in range(3):
        game.contribute(KEYED, worker)
    assert len(game.cut(KEYED, 3)) == 4


def test_every_flipped_bit_of_header_and_tag_is_noticed(game: Game) -> None:
    """Of version, kind, op, job, slot, worker and words other rules may be broken first: the model says which."""
    packet = encoded(sent(game, model.MAX32))
    places = [*range(model.HEADER * 8), *range(len(packet) * 8 - 64, len(packet) * 8)]
    for bit in places:
        flipped = bytearray(packet)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        for _, frame in send_raw(game, bytes(flipped)):
            assert model.decode(frame[42:]).kind == model.REFUSED
    assert game.golden.rejects["TAG"] > 64 + 100
    assert set(game.golden.verdicts) == {"REJECT"}


@OPS
def test_flipped_bits_of_the_payload_are_noticed(game: Game, op: int) -> None:
    packet = encoded(sent(game, op))
    bits = model.WORDS_UP[op] * model.WORD * 8
    for bit in {0, bits - 1, *game.rng.integers(0, bits, 12).tolist()}:
        flipped = bytearray(packet)
        flipped[model.HEADER + bit // 8] ^= 0x80 >> bit % 8
        send_raw(game, bytes(flipped))
    assert set(game.golden.rejects) == {"TAG"}
    send_raw(game, packet)
    assert game.golden.verdicts["FIRST"] == 1


@pytest.mark.parametrize("tag", [b"", bytes(8), b"\xff" * 8])
def test_without_the_right_tag_nothing_is_taken(game: Game, tag: bytes) -> None:
    packet = sent(game)._replace(tag=tag)
    ask = packet._replace(kind=model.PROBE, words=0, payload=b"", tag=tag)
    for one in (packet, ask, ask._replace(op=model.NO_OP)):
        for _, frame in send_raw(game, encoded(one)):
            told = model.decode(frame[42:])
            assert (told.kind, told.count, told.tag) == (model.REFUSED, model.REASONS["TAG"], b"")
    assert game.golden.rejects == {"TAG": 3}


def test_a_tag_is_good_for_its_job_its_worker_and_its_switch_alone(game: Game) -> None:
    packet = sent(game)
    other_switch = KEYED.sealed(packet, bytes([10, 0, 0, 101]))
    other_worker = KEYED.sealed(packet._replace(worker=1), AGGREGATOR.ip)
    other_key = packet._replace(tag=KEYED_LEAF.sealed(packet._replace(job=KEYED_LEAF.number), AGGREGATOR.ip).tag)
    other_words = packet._replace(words=2, payload=packet.payload[:256], flags=model.TRIMMED)
    for one in (other_switch, packet._replace(tag=other_worker.tag), other_key, other_words):
        send_raw(game, encoded(one))
    assert game.golden.rejects == {"TAG": 4}


def test_a_result_that_comes_back_is_no_contribution(game: Game) -> None:
    """Its tag is right for a packet of the switch. That of a worker has another kind, and the tag covers it."""
    for worker in range(4):
        out = game.contribute(KEYED, worker, 3, 0, op=model.MAX32)
    results = [frame[42:] for _, frame in out]
    before = dict(game.golden.verdicts)
    for result in results:
        told = model.decode(result)
        for kind in (told.kind, model.CONTRIBUTE, model.PROBE):
            for round_ in (told.round, told.round + 1):
                send_raw(game, encoded(told._replace(kind=kind, round=round_)))
    assert {name: count for name, count in game.golden.verdicts.items() if name != "REJECT"} == before
    # Nothing of it is in the next round.
    for worker in range(4):
        game.contribute(KEYED, worker, 3, 1, op=model.MAX32)


def test_a_recorded_contribution_is_good_for_nothing_else(game: Game) -> None:
    """In another slot or round its tag is wrong, and in its own it is a repetition, also once the round is closed."""
    packet = sent(game)
    assert send_raw(game, encoded(packet)) == []
    for other in (
        packet._replace(slot=1),
        packet._replace(round=1),
        packet._replace(token=1),
        packet._replace(chunk=1),
    ):
        send_raw(game, encoded(other))
    assert game.golden.rejects == {"TAG": 4}
    send_raw(game, encoded(packet))
    for worker in range(1, 4):
        out = game.contribute(KEYED, worker)
    assert len(out) == 4
    ((_, again),) = send_raw(game, encoded(packet))
    assert (model.decode(again[42:]).kind, game.golden.rejects) == (model.RESULT, {"TAG": 4})


def test_a_tag_is_whole(game: Game) -> None:
    """The bound of 2^-64 is that of all its bits: no part of it is enough."""
    packet = sent(game)
    whole = encoded(packet)
    for length in (*range(8), 9, 16):
        send_raw(game, (whole + bytes(8))[: len(whole) - 8 + length])
    assert set(game.golden.verdicts) == {"REJECT"}
    assert sum(game.golden.rejects.values()) == 10


def test_jobs_without_a_key_take_no_tags(game: Game) -> None:
    packet = contribution(FULL, 0, 0, 0, random_payload(game.rng, model.THC))
    send_raw(game, encoded(packet) + bytes(8))
    send_raw(game, encoded(packet._replace(kind=model.PROBE, words=0, payload=b"")) + bytes(8))
    for length in (1, 7, 9, 16):
        send_raw(game, encoded(packet) + bytes(length))
    assert game.golden.rejects == {"TAG": 2, "LENGTH": 4}


def test_runs_of_a_job_with_a_key(game: Game) -> None:
    for worker in range(4):
        game.open_run(KEYED, worker, 0, 40, TOKEN)
    for worker in range(4):
        out = game.contribute(KEYED, worker, 1, 41, token=TOKEN)
    assert len(out) == 4
    game.contribute(KEYED, 0, 1, 42, token=TOKEN ^ 1)
    assert game.golden.rejects == {"TOKEN": 1}


@OPS
def test_a_leaf_checks_and_makes_the_tags_of_both_sides(game: Game, op: int) -> None:
    for worker in range(2):
        up = game.contribute(KEYED_LEAF, worker, 2, 0, op=op)
    ((port, frame),) = up
    parent = KEYED_LEAF.parent
    assert parent and port == parent.switch.port
    assert len(model.decode(frame[42:]).tag) == 8
    # Asked again, it sends it again.
    assert game.contribute(KEYED_LEAF, 0, 2, 0, op=op)
    down = game.result_from_above(KEYED_LEAF, 2, 0, op=op)
    assert {len(model.decode(frame[42:]).tag) for _, frame in down} == {8}
    assert len(down) == 2
    assert game.golden.rejects == {}


def test_what_comes_from_above_needs_a_right_tag_too(game: Game) -> None:
    for worker in range(2):
        game.contribute(KEYED_LEAF, worker, 2, 0)
    parent = KEYED_LEAF.parent
    assert parent
    above = parent.switch
    payload = random_payload(game.rng, model.THC, 8)
    packet = contribution(KEYED_LEAF, 3, 2, 0, payload, count=9, contributors=0xFF)._replace(kind=model.RESULT)
    right = KEYED_LEAF.sealed(packet, above.ip)
    # Without a tag, as this switch itself would tag it, and with a changed payload.
    wrong = [packet, KEYED_LEAF.sealed(packet, AGGREGATOR.ip), right._replace(payload=payload[:-1] + b"\x00")]
    stale = packet._replace(kind=model.STALE, words=0, payload=b"")
    for one in (*wrong, stale):
        assert game.frame(above.port, udp_frame(above, AGGREGATOR, encoded(one))) == []
    assert game.golden.rejects == {"TAG": 4}
    assert len(game.frame(above.port, udp_frame(above, AGGREGATOR, encoded(right)))) == 2


@pytest.mark.parametrize("kind", [model.STALE, model.REFUSED])
def test_notices_from_above_go_down(game: Game, kind: int) -> None:
    """A REFUSED has no tag: a switch above that does not have the job has no key either."""
    for worker in range(2):
        game.contribute(KEYED_LEAF, worker, 2, 3)
    down = game.notice_from_above(kind, KEYED_LEAF, 2, 9 if kind == model.STALE else 3)
    assert [len(model.decode(frame[42:]).tag) for _, frame in down] == [8 if kind == model.STALE else 0] * 2


@OPS
def test_a_root_of_lower_switches(game: Game, op: int) -> None:
    for worker in range(3):
        out = game.contribute(KEYED_ROOT, worker, 1, 0, op=op)
    assert len(out) == 3
    assert game.golden.rejects == {}


def test_a_queue_drops_what_it_would_cut(game: Game) -> None:
    """What is left of a packet with a tag would be refused."""
    queue = model.Queue(rate=1, mark=60_000, drop=(100, 100, 100, 100), drop_all=60_000, trims=True)
    game.limit((2, queue), first=1000)
    # The switch's queue drains by its clock, the model's does not.
    queue.backlog, queue.rate = [1_024_000, 1_024_000], 0
    host, other = FULL.workers[0], FULL.workers[1]
    for job in (EVERY, KEYED):
        packet = job.sealed(contribution(job, 0, 0, 0, random_payload(game.rng, model.THC)), AGGREGATOR.ip)
        game.frame(host.port, udp_frame(host, other, encoded(packet), dscp_ecn=0))
    assert {key[3]: count for key, count in game.golden.decisions.items()} == {model.TRIM: 1, model.DROP: 1}


def test_a_random_forgery_is_not_taken(rig: Rig) -> None:
    game, rng = Game(rig), np.random.default_rng(5)
    for _ in range(50):
        send_raw(game, encoded(sent(game)._replace(tag=rng.bytes(8))))
    assert game.golden.rejects == {"TAG": 50}
    game.contribute(LEAF, 0)
    game.check_counters()
