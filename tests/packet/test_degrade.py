# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loss on purpose: which packets it hits, and what becomes of them."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from golden.model import Degrade
from packet.play import Game, Rig
from packet.star import EVERY, FULL, LEAF, ROOT

HALF = 1 << 15
ALL = 1 << 16


@pytest.mark.parametrize(("x", "hashed"), [(0, 0), (1, 0x514E28B7), (0xFFFFFFFF, 0x81F16F39)])
def test_the_hash_is_murmurs(x: int, hashed: int) -> None:
    """Values of MurmurHash3's fmix32 as others have published them."""
    assert model.mix32(x) == hashed


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
@pytest.mark.parametrize("mode", [model.TRIM_CONTRIBUTIONS, model.DROP_CONTRIBUTIONS, model.CUT_RESULTS])
def test_half_of_the_packets(rig: Rig, mode: int, seed: int) -> None:
    """Every packet of 12 rounds in two slots of four workers, all answers and counts as the model says."""
    game = Game(rig)
    game.degrade(EVERY, Degrade(seed, HALF, mode))
    for round_ in range(12):
        for slot in (0, 7):
            for worker in range(4):
                game.contribute(EVERY, worker, slot, round_)
            for worker in range(4):  # what was lost comes once more, and is spared
                game.contribute(EVERY, worker, slot, round_, flags=model.RESYNC)
    lost = game.golden.verdicts["DEGRADED"]
    assert 20 < lost < 76 if mode == model.DROP_CONTRIBUTIONS else lost == 0
    game.check_counters()


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
def test_none_and_all_of_the_results(rig: Rig, share: int, words: int) -> None:
    game = Game(rig)
    game.degrade(EVERY, Degrade(9, share, model.CUT_RESULTS))
    for round_ in range(8):
        for worker in range(4):
            out = game.contribute(EVERY, worker, 0, round_)
        packet = model.decode(out[0][1][42:])
        assert (packet.words, packet.cut, packet.flags) == (words, 0x80 if words == 6 else 0, 0)
    ((_, frame),) = game.contribute(EVERY, 2, 0, 7)
    again = model.decode(frame[42:])
    assert (again.words, again.payload[: words * model.WORD]) == (8, packet.payload)
    game.check_counters()


def test_which_results_are_cut_does_not_hang_on_who_comes_last(rig: Rig) -> None:
    game = Game(rig)
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


def test_other_ops_and_other_jobs_and_probes_are_spared(rig: Rig) -> None:
    game = Game(rig)
    game.degrade(EVERY, Degrade(0, ALL, model.DROP_CONTRIBUTIONS))
    for slot, op in enumerate((model.MAX32, model.SUM32, model.SIGN, model.VOTE)):
        game.contribute(EVERY, 0, slot, op=op)
    game.contribute(FULL, 0)
    game.probe(EVERY, 0, 5)
    assert game.contribute(EVERY, 0, 5) == []
    assert game.golden.verdicts == {"FIRST": 5, "INFORM": 1, "DEGRADED": 1}
    game.check_counters()


def test_what_is_refused_is_refused_first(rig: Rig) -> None:
    game = Game(rig)
    game.degrade(EVERY, Degrade(0, ALL, model.DROP_CONTRIBUTIONS))
    game.contribute(EVERY, 0, 8)
    assert game.golden.rejects == {"SLOT": 1}
    game.check_counters()


@pytest.mark.parametrize("job", [LEAF, ROOT], ids=["leaf", "root"])
def test_only_contributions_of_hosts_at_a_root(rig: Rig, job: model.Job) -> None:
    game = Game(rig)
    game.degrade(job, Degrade(0, ALL, model.TRIM_CONTRIBUTIONS))
    for worker in range(len(job.workers)):
        game.contribute(job, worker)
    assert game.golden.verdicts["LAST"] == 1
    assert game.probe(job, 0).cut == 0
    game.check_counters()
