# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Real ranks over gloo do what the simulation does, bit for bit, and put one bit a value and hop on the wire."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.gloo import multihop_cases as script
from helpers.gloo.ranks import Ranks
from sumwire.multihop.schedule import ring
from sumwire.multihop.sign_hops import CascadeHopper, Draws, SimulatedSigns, lockstep

FORMS = {
    "ring": (tuple(range(4)), None), "torus": (tuple(range(4)), 2), "group3": ((0, 1, 2), None),
    # A group orders its members by rank.
    "group2": ((1, 3), None),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the four ranks got."""
    with Ranks(script.RANKS, tmp_path_factory.mktemp("ranks")) as ranks:
        return ranks.run(script.every_form)


@pytest.mark.parametrize("form", FORMS)
def test_ranks_end_as_the_simulation_does(found: list[dict[str, Any]], form: str) -> None:
    members, rows = FORMS[form]
    signs = SimulatedSigns(len(members), rows, seed=script.SEED)
    for length in script.LENGTHS:
        packed = np.stack([np.packbits(script.bools(rank, length).numpy()) for rank in members])
        expected = np.unpackbits(signs.sign_merge(packed), count=length)
        for rank in members:
            assert np.array_equal(found[rank][f"{form} {length}"], expected == 1), (rank, length)


def test_packed_signs_keep_their_form_and_padding_is_zero(found: list[dict[str, Any]]) -> None:
    first = found[0]["packed"]
    assert first.dtype == np.uint8
    assert first.size == 125
    assert first[-1] & 0b111 == 0
    assert all(np.array_equal(other["packed"], first) for other in found)
    assert all(other["shape"].tolist() == [2, 3, 4] for other in found)


def test_one_bit_a_value_and_hop(found: list[dict[str, Any]]) -> None:
    """A ring of n sends 2 (n - 1)/n bits a value and rank; up to a byte a message of rounding."""
    values = sum(script.LENGTHS)
    for form, (members, _) in FORMS.items():
        n = len(members)
        totals = np.sum([found[rank][f"{form} traffic"] for rank in members], axis=0)
        messages, payload, header = totals.tolist()
        if form == "torus":
            # Along the rows half of the bits a hop, along the columns a quarter.
            assert messages == 4 * 4 * len(script.LENGTHS)
            bits = 4 * (2 / 2 + 2 / 4) * values
        else:
            assert messages == n * 2 * (n - 1) * len(script.LENGTHS)
            bits = 2 * (n - 1) * values
        assert bits <= 8 * payload <= bits + 8 * messages
        assert header == messages


def test_mean_is_the_full_precision_mean(found: list[dict[str, Any]]) -> None:
    expected = np.mean([script.floats(rank, 50).numpy().astype(np.float64) for rank in range(4)], axis=0)
    for rank in range(4):
        np.testing.assert_allclose(found[rank]["mean"], expected, rtol=1e-5, atol=1e-6)
        assert np.array_equal(found[rank]["mean"], found[0]["mean"])


@pytest.mark.parametrize("stochastic", [False, True])
def test_cascade_ranks_end_as_the_simulation_does(found: list[dict[str, Any]], stochastic: bool) -> None:
    padded = np.zeros((4, 80), np.float32)
    for rank in range(4):
        padded[rank, :77] = script.floats(rank, 77).numpy()
    hoppers = [
        CascadeHopper(row, Draws(script.SEED, k), stochastic=stochastic, length=77) for k, row in enumerate(padded)
    ]
    lockstep(hoppers, [ring(4, rank, 10) for rank in range(4)])
    for rank in range(4):
        assert np.array_equal(found[rank][f"cascade {stochastic}"], hoppers[0].values[:77] / np.float32(4))
        messages, payload, header = found[rank][f"cascade {stochastic} traffic"].tolist()
        assert messages == 6
        assert header == 4 * messages
        assert 12 <= payload <= 18


def test_bad_input_is_refused_with_value_and_rule(found: list[dict[str, Any]]) -> None:
    words = ("3 rows", "float32", "length = 17", "length = 8")
    for rank in range(4):
        for text, word in zip(found[rank]["refusals"].tolist(), words, strict=True):
            assert word in text


@pytest.fixture(scope="module")
def by_udp(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the four ranks got around a ring of UDP."""
    with Ranks(script.RANKS, tmp_path_factory.mktemp("udp")) as ranks:
        return ranks.run(script.by_udp)


@pytest.mark.parametrize(("name", "members"), [("all", (0, 1, 2, 3)), ("pair", (1, 3))])
def test_the_mean_around_a_ring_of_udp(by_udp: list[dict[str, Any]], name: str, members: tuple[int, ...]) -> None:
    for length in script.LENGTHS:
        found = [by_udp[rank][f"{name} {length}"] for rank in members]
        kept = [by_udp[rank][f"{name} {length} residual"] for rank in members]
        true = np.stack([script.floats(rank, length).numpy() for rank in members])
        assert found[0].shape == (length, 1)
        assert all(np.array_equal(other, found[0]) for other in found)
        # A machine without a moment for a socket may lose packets: then their sender has them.
        whole = ~np.any(kept, axis=0)[:, 0]
        assert whole.mean() > 0.9 if length else True
        np.testing.assert_allclose(found[0][whole, 0], true.mean(0)[whole], atol=1e-6)
    assert by_udp[members[0]][f"{name} half"].dtype == np.float32


def test_rings_that_do_not_fit_are_refused_on_all_ranks(by_udp: list[dict[str, Any]]) -> None:
    for found in by_udp:
        assert found["bounds"].startswith("ScheduleError: loss_bound = [0.0, 0.01, 0.02, 0.03] by rank: must be alike")
        assert found["share"].startswith("ConfigError: delivery: loss_bound = 1.0")
        assert found["mixed"].startswith("ScheduleError: rank 2 has address 127.0.0.1, which no other machine reaches")
        assert found["address"].startswith("AddressError: address 192.0.2.1")
