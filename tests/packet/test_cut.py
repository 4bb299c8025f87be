# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Contributions and results that lack their low planes."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from helpers.packet.play import Game, contribution, random_payload
from helpers.packet.star import FULL, LEAF, PUBLISHED_TABLE, WIDE

TABLE = np.asarray(PUBLISHED_TABLE)
LOW = np.array([2, 1] * 512)


def planes(indices: np.ndarray, words: int) -> bytes:
    return model.to_planes(indices, 4)[: words * model.WORD]


def test_a_cut_contribution_counts_as_near_as_it_can(game: Game) -> None:
    """Typed out, not asked of the model: index 4q + 2 at even places and 4q + 1 at odd ones."""
    indices = game.rng.integers(0, 16, (4, model.VALUES))
    for worker in range(4):
        words = 2 if worker == 1 else 4
        packet = contribution(FULL, worker, 0, 0, planes(indices[worker], words))
        out = game.send(FULL, packet._replace(flags=model.TRIMMED if words == 2 else 0))
    packet = model.decode(out[0][1][42:])
    assert (packet.words, packet.cut, packet.flags, packet.count) == (8, 2, model.TRIMMED, 4)
    indices[1] = indices[1] // 4 * 4 + LOW
    assert np.array_equal(model.from_planes(packet.payload), TABLE[indices].sum(axis=0))


def test_a_slot_that_a_cut_contribution_closes_has_a_cut_result(game: Game) -> None:
    """Six words, which is what two may become in bmv2; a worker that asks with four gets the same planes in eight."""
    indices = game.rng.integers(0, 16, (4, model.VALUES))
    for worker in range(4):
        words = 2 if worker in (0, 3) else 4
        packet = contribution(FULL, worker, 0, 0, planes(indices[worker], words))
        out = game.send(FULL, packet._replace(flags=model.TRIMMED if words == 2 else 0))
    packet = model.decode(out[0][1][42:])
    assert (packet.words, packet.cut, packet.flags) == (6, 0x80 | 4, model.TRIMMED)
    indices[[0, 3]] = indices[[0, 3]] // 4 * 4 + LOW
    sums = TABLE[indices].sum(axis=0) // 4
    assert np.array_equal(model.from_planes(packet.payload), sums)
    ((_, frame),) = game.contribute(FULL, 2)
    again = model.decode(frame[42:])
    assert (again.words, again.cut) == (8, 0x84)
    assert np.array_equal(model.from_planes(again.payload), sums * 4 + LOW)
    ((_, frame),) = game.cut(FULL, 1)
    assert model.decode(frame[42:])[9:13] == packet[9:13]
    assert game.golden.verdicts == {"FIRST": 1, "ADD": 2, "LAST": 1, "DUPLICATE": 2}


def test_all_planes_of_a_wide_sum(game: Game) -> None:
    """Sums beyond 127 use the top plane; cut they keep it."""
    ones = b"\xff" * 2 * model.WORD
    for worker in range(2):
        out = game.send(WIDE, contribution(WIDE, worker, 0, 0, ones, flags=model.TRIMMED))
    sums = np.where(LOW == 2, 2 * WIDE.table[14], 2 * WIDE.table[13])
    assert np.array_equal(model.from_planes(model.decode(out[0][1][42:]).payload), sums // 4)


def test_only_what_says_so_is_cut(game: Game) -> None:
    """Two words without the flag are no contribution; four with it are whole."""
    two = random_payload(game.rng, model.THC, 2)
    game.send(FULL, contribution(FULL, 0, 0, 0, two))
    game.send(FULL, contribution(FULL, 0, 0, 0, two, flags=model.TRIMMED ^ 0xFF))
    six = random_payload(game.rng, model.THC, 6)
    game.send(FULL, contribution(FULL, 0, 0, 0, six, flags=model.TRIMMED))
    assert game.golden.rejects == {"WORDS": 3}
    game.contribute(FULL, 0, flags=model.TRIMMED)
    assert game.probe(FULL, 1)[7:10] == (1, model.TRIMMED, 0)


@pytest.mark.parametrize("words", [6, 8])
def test_a_cut_result_of_the_switch_above(game: Game, words: int) -> None:
    game.contribute(LEAF, 0)
    payload = random_payload(game.rng, model.THC, 6)
    whole = payload + model.to_planes(LOW, 2)
    out = game.result_from_above(LEAF, payload=whole[: words * model.WORD], cut=0x86, flags=model.TRIMMED)
    assert {model.decode(frame[42:]).payload for _, frame in out} == {whole[: words * model.WORD]}
    assert {model.decode(frame[42:]).cut for _, frame in out} == {0x86}
    ((_, frame),) = game.contribute(LEAF, 1)
    assert (model.decode(frame[42:]).payload, model.decode(frame[42:]).cut) == (whole, 0x86)


def test_six_words_from_above_must_say_so(game: Game) -> None:
    assert game.result_from_above(LEAF, payload=random_payload(game.rng, model.THC, 6), cut=0x7F) == []
    assert game.golden.rejects == {"WORDS": 1}
