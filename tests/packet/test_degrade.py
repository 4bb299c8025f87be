# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loss on purpose: which packets it hits, and what becomes of them."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from golden.model import Degrade
from helpers.packet.play import Game, Rig, contribution
from helpers.packet.star import EVERY, FULL, LEAF, ROOT, SINGLE

HALF = 1 << 15
ALL = 1 << 16


@pytest.mark.parametrize(("x", "hashed"), [(0, 0), (1, 0x514E28B7), (0xFFFFFFFF, 0x81F16F39)])
def test_the_hash_is_murmurs(x: int, hashed: int) -> None:
    """Values of MurmurHash3's fmix32 as others have published them."""
    assert model.mix32(x) == hashed


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
@pytest.mark.parametrize("mode", [model.TRIM_CONTRIBUTIONS, model.DROP_CONTRIBUTIONS, model.CUT_RESULTS])
@pytest.mark.few(15)
def test_half_of_the_packets(game: Game, mode: int, seed: int) -> None:
    """Every packet of 12 rounds in two slots of four workers, all answers and counts as the model says."""
    game.degrade(EVERY, Degrade(seed, HALF, mode))
    for round_ in range(12):
        for slot in (0, 7):
            for worker in range(4):
                game.contribute(EVERY, worker, slot, round_)
            for worker in range(4):  # all are in the slot: these ask for the result
                game.contribute(EVERY, worker, slot, round_, flags=model.RESYNC)
    assert game.golden.verdicts == {"FIRST": 24, "ADD": 48, "LAST": 24, "DUPLICATE": 96}


def hit_at(game: Game, *hits: bool) -> int:
    """A round of slot 0 whose workers are hit just so."""
    degrade = game.golden.degrades[EVERY.number]

    def hit(worker: int, round_: int) -> bool:
        return degrade.hits(contribution(EVERY, worker, 0, round_, b""))

    return next(round_ for round_ in range(1000) if all(hit(w, round_) == hits[w] for w in range(4)))


def dropping(game: Game, *hits: bool) -> int:
    """Drop half of the contributions. A round of slot 0 with these hits."""
    game.degrade(EVERY, Degrade(4, HALF, model.DROP_CONTRIBUTIONS))
    return hit_at(game, *hits)


def indices(value: int) -> bytes:
    return model.to_planes(np.full(model.VALUES, value), 4)


def give(game: Game, worker: int, round_: int, **fields: int) -> list[model.Packet]:
    """Contributes index 1 + worker everywhere (table values 3, 5, 7, 9)."""
    out = game.send(EVERY, contribution(EVERY, worker, 0, round_, indices(1 + worker), **fields))
    return [model.decode(frame[42:]) for _, frame in out]


def sums(packet: model.Packet) -> set[int]:
    return set(model.from_planes(packet.payload).tolist())


@pytest.mark.parametrize("first", [0, 1])
def test_a_void_contribution_has_arrived_but_is_not_in_the_sum(game: Game, first: int) -> None:
    round_ = dropping(game, True, False, True, False)
    for worker in (first, 1 - first, 2):
        assert give(game, worker, round_) == []
    told = game.probe(EVERY, 0, 0, round_)
    assert (told.contributors, told.count, told.flags) == (0b0010, 1, 0)
    result = give(game, 3, round_)[0]
    assert (result.contributors, result.count, result.flags) == (0b1010, 2, model.MISSING)
    assert sums(result) == {5 + 9}
    assert game.golden.verdicts == {"FIRST": 1, "ADD": 2, "INFORM": 1, "LAST": 1}


@pytest.mark.parametrize(
    ("hit", "order", "contributors", "flags", "total"),
    [
        ((False, False, False, True), (0, 1, 2, 3), 0b0111, model.MISSING, 3 + 5 + 7),
        ((False, False, False, False), (0, 1, 2, 3), 0b1111, 0, 3 + 5 + 7 + 9),
        ((True, True, True, True), (0, 3, 1, 2), 0b0100, model.MISSING, 7),
    ],
    ids=["a void one is the last", "nothing is void", "all are hit: the one that completes the slot counts"],
)
def test_who_is_in_a_result(
    game: Game, hit: tuple[bool, ...], order: tuple[int, ...], contributors: int, flags: int, total: int
) -> None:
    round_ = dropping(game, *hit)
    results = [give(game, worker, round_) for worker in order][-1]
    assert [packet.kind for packet in results] == [model.RESULT] * 4
    first, count = results[0], contributors.bit_count()
    assert (first.contributors, first.count, first.flags) == (contributors, count, flags)
    assert sums(first) == {total}


def test_one_worker_alone_is_never_void(game: Game) -> None:
    game.degrade(SINGLE, Degrade(0, ALL, model.DROP_CONTRIBUTIONS))
    ((_, frame),) = game.contribute(SINGLE, 0)
    assert model.decode(frame[42:]).flags == 0


def test_a_resend_of_a_void_worker_is_added_and_arrives_once(game: Game) -> None:
    round_ = dropping(game, True, True, False, False)
    give(game, 0, round_)
    give(game, 1, round_)
    give(game, 0, round_)  # the network's copy: void again
    assert game.probe(EVERY, 2, 0, round_).count == 0
    give(game, 0, round_, flags=model.RESYNC)
    give(game, 0, round_, flags=model.RESYNC)
    assert give(game, 2, round_) == []
    result = give(game, 3, round_)[0]
    assert (result.contributors, result.count, result.flags) == (0b1101, 3, model.MISSING)
    assert sums(result) == {3 + 7 + 9}
    assert game.golden.verdicts == {"FIRST": 1, "ADD": 4, "INFORM": 1, "REPEAT": 1, "LAST": 1}


def test_where_all_the_void_come_again_nothing_is_missing(game: Game) -> None:
    round_ = dropping(game, True, False, False, False)
    give(game, 0, round_)
    give(game, 0, round_, flags=model.RESYNC)
    result = [give(game, worker, round_) for worker in (1, 2, 3)][-1][0]
    assert (result.contributors, result.count, result.flags) == (0b1111, 4, 0)


def test_a_flush_counts_the_void_as_arrived(game: Game) -> None:
    round_ = dropping(game, True, True, False, False)
    for worker in (0, 1, 2):
        give(game, worker, round_)
    flush = model.FLUSH | model.RESYNC
    assert give(game, 2, round_, flags=flush, contributors=4) == []
    result = give(game, 2, round_, flags=flush, contributors=3)[0]
    assert (result.contributors, result.count, result.flags) == (0b0100, 1, model.MISSING)
    assert sums(result) == {7}


def test_a_new_round_forgets_who_was_void(game: Game) -> None:
    round_ = dropping(game, True, False, False, False)
    give(game, 0, round_)
    for worker in range(4):
        result = give(game, worker, round_ + 1000, flags=model.RESYNC)
    assert (result[0].contributors, result[0].flags) == (0b1111, 0)


def test_cutting_and_dropping_hit_the_same_packets(rig: Rig) -> None:
    hit: dict[int, list[bool]] = {}
    for mode in (model.TRIM_CONTRIBUTIONS, model.DROP_CONTRIBUTIONS):
        game = Game(rig)
        game.degrade(EVERY, Degrade(5, HALF, mode))
        hit[mode] = []
        for round_ in range(10):
            for worker in range(3):
                game.contribute(EVERY, worker, 0, round_)
                told = game.probe(EVERY, worker, 0, round_)
                there = told.contributors >> worker & 1
                cut = told.cut // 2 > sum(hit[mode][3 * round_ :])
                hit[mode].append(bool(cut) if mode == model.TRIM_CONTRIBUTIONS else not there)
    assert hit[1] == hit[2]
    assert 5 < sum(hit[1]) < 25


@pytest.mark.parametrize(("share", "words"), [(0, 8), (ALL, 6)])
def test_none_and_all_of_the_results(game: Game, share: int, words: int) -> None:
    game.degrade(EVERY, Degrade(9, share, model.CUT_RESULTS))
    for round_ in range(8):
        for worker in range(4):
            out = game.contribute(EVERY, worker, 0, round_)
        packet = model.decode(out[0][1][42:])
        assert (packet.words, packet.cut, packet.flags) == (words, 0x80 if words == 6 else 0, 0)
    ((_, frame),) = game.contribute(EVERY, 2, 0, 7)
    again = model.decode(frame[42:])
    assert (again.words, again.payload[: words * model.WORD]) == (8, packet.payload)


def test_which_results_are_cut_does_not_hang_on_who_comes_last(game: Game) -> None:
    words = []
    for last in range(4):
        game.rig.renew()
        game.golden.slots.clear()
        game.degrade(EVERY, Degrade(3, HALF, model.CUT_RESULTS))
        words.append([])
        for round_ in range(10):
            for worker in np.roll(range(4), 3 - last):
                out = game.contribute(EVERY, int(worker), 0, round_)
            words[-1].append(model.decode(out[0][1][42:]).words)
    assert words[0] == words[1] == words[2] == words[3]
    assert set(words[0]) == {6, 8}


def test_other_ops_and_other_jobs_and_probes_are_spared(game: Game) -> None:
    game.degrade(EVERY, Degrade(0, ALL, model.DROP_CONTRIBUTIONS))
    for slot, op in enumerate((model.MAX32, model.SUM32, model.SIGN, model.VOTE)):
        game.contribute(EVERY, 0, slot, op=op)
    game.contribute(FULL, 0)
    game.probe(EVERY, 0, 5)
    assert game.contribute(EVERY, 0, 5) == []
    told = [game.probe(EVERY, 0, slot, op=op).contributors for slot, op in enumerate((2, 3, 4, 5, 2, 1))]
    assert told == [1, 1, 1, 1, 0, 0]
    assert game.probe(FULL, 0).contributors == 1
    assert game.golden.verdicts == {"FIRST": 6, "INFORM": 8}


def test_what_is_refused_is_refused_first(game: Game) -> None:
    game.degrade(EVERY, Degrade(0, ALL, model.DROP_CONTRIBUTIONS))
    game.contribute(EVERY, 0, 8)
    assert game.golden.rejects == {"SLOT": 1}


@pytest.mark.parametrize("job", [LEAF, ROOT], ids=["leaf", "root"])
def test_only_contributions_of_hosts_at_a_root(game: Game, job: model.Job) -> None:
    game.degrade(job, Degrade(0, ALL, model.TRIM_CONTRIBUTIONS))
    for worker in range(len(job.workers)):
        game.contribute(job, worker)
    assert game.golden.verdicts["LAST"] == 1
    assert game.probe(job, 0).cut == 0
