# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Expectations of the ops against small sums by hand; jobs of the bias test; what several workers say as one."""

from __future__ import annotations

import numpy as np
import pytest
import sumwire_controller
import yaml
from sumwire_lab.experiments import sign_bias
from sumwire_lab.experiments.random_words import summarize
from sumwire_lab.load import expected_words
from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import plan
from sumwire_lab.options.run_options import LinkOptions

TABLE = tuple(range(0, 32, 2))


def random(op: str, workers: int, chunks: int = 2) -> list[expected_words.Words]:
    return [expected_words.contribution(op, worker, chunks, seed=5) for worker in range(workers)]


def test_contributions_repeat_and_differ() -> None:
    one = expected_words.contribution("sign", 0, 3, seed=1)
    assert one.shape == (3, 8, 128)
    assert (one == expected_words.contribution("sign", 0, 3, seed=1)).all()
    for other in (expected_words.contribution("sign", 1, 3, 1), expected_words.contribution("sign", 0, 3, 2)):
        assert 0.4 < np.unpackbits(one ^ other).mean() < 0.6


def test_planes_come_most_significant_first_and_value_0_from_the_left() -> None:
    values = np.zeros((1, 1024), np.int64)
    values[0, 0], values[0, 1023] = 0b1000, 0b0001
    words = expected_words.to_planes(values, 4)
    assert (words[0, 0, 0], words[0, 3, 127]) == (0x80, 0x01)
    assert words.sum() == 0x81
    assert (expected_words.from_planes(words) == values).all()


def test_thc_adds_what_the_table_says() -> None:
    sent = random("thc", 3)
    total = expected_words.from_planes(expected_words.expected("thc", sent, TABLE))
    bit = [np.unpackbits(words[1, plane])[700] for words in sent for plane in range(4)]
    indices = [int("".join(map(str, bit[4 * k : 4 * k + 4])), 2) for k in range(3)]
    assert total[1, 700] == 2 * sum(indices)


def test_lanes_add_and_wrap_and_compare() -> None:
    sent = random("sum32", 3)
    sums = expected_words.expected("sum32", sent, ())
    numbers = [int.from_bytes(words[1, 4, 8:12].tobytes(), "big") for words in sent]
    assert int.from_bytes(sums[1, 4, 8:12].tobytes(), "big") == sum(numbers) % 2**32
    high = random("max32", 3)
    numbers = [int.from_bytes(words[0, 0, 124:].tobytes(), "big") for words in high]
    assert int.from_bytes(expected_words.expected("max32", high, ())[0, 0, 124:].tobytes(), "big") == max(numbers)


@pytest.mark.parametrize(("votes", "majority"), [((1, 1, 0), 1), ((0, 1, 0), 0), ((1, 0), 1), ((0, 1, 1, 0), 1)])
def test_the_majority_wins_and_a_tie_is_plus(votes: tuple[int, ...], majority: int) -> None:
    sent = [np.full((1, 2, 128), 255 * vote, np.uint8) for vote in votes]
    assert (expected_words.expected("vote", sent, ()) == 255 * majority).all()


def test_merged_signs_must_be_somebodys() -> None:
    sent = random("sign", 3)
    drawn = sent[1].copy()
    assert expected_words.sign_allowed(drawn, sent)
    agree = ~(sent[0] ^ sent[1]) & ~(sent[0] ^ sent[2])
    chunk, word, byte = np.argwhere(agree)[0]
    drawn[chunk, word, byte] ^= 1 << int(agree[chunk, word, byte]).bit_length() - 1
    assert not expected_words.sign_allowed(drawn, sent)


def test_shares_show_from_whom_the_signs_were_drawn() -> None:
    sent = random("sign", 4, chunks=40)
    values = 40 * 8192
    chosen = np.random.default_rng(1).choice(4, values, p=[0.5, 0.25, 0.125, 0.125])
    bits = np.stack([np.unpackbits(words) for words in sent])
    result = np.packbits(bits[chosen, np.arange(values)]).reshape(40, 8, 128)
    shares = expected_words.sign_shares(result, sent)
    assert shares == pytest.approx([0.5, 0.25, 0.125, 0.125], abs=5 / values**0.5)


def test_workers_must_agree_to_be_equal() -> None:
    def report(digest: str, right: bool = True) -> dict[str, object]:
        sign = {"digest": "s", "right": True, "all_counted": True, "shares": [0.4, 0.61]}
        vote = {"digest": digest, "right": right, "all_counted": True}
        return {"ops": {"sign": sign, "vote": vote}, "retransmissions": 2}

    one = summarize([report("a"), report("a")])
    assert one["ops"]["vote"] == {"right": True, "equal": True}
    assert one["ops"]["sign"]["worst_share_error"] == pytest.approx(0.11)
    assert one["retransmissions"] == 4
    assert not summarize([report("a"), report("b")])["ops"]["vote"]["equal"]
    assert not summarize([report("a"), report("a", right=False)])["ops"]["vote"]["right"]


@pytest.mark.parametrize("topology", ["star", "leaf-spine", "three-level"])
def test_the_bias_test_has_a_job_of_every_size_with_every_leaf(topology: str) -> None:
    fabric = plan(16, LinkOptions(), "sw12af", topology)
    jobs = sign_bias.jobs_of(fabric, sign_bias.SIZES)
    assert [len(job["workers"]) for job in jobs] == list(range(2, 17))
    leaves = {host.name: host.switch for host in fabric.hosts}
    for job in jobs:
        used = [leaves[name] for name in job["workers"]]
        counts = [used.count(leaf) for leaf in set(leaves.values())]
        assert max(counts) - min(counts) <= 1
    grpc = {s.name: f"127.0.0.1:{9000 + s.device_id}" for s in fabric.switches}
    text = yaml.safe_dump(control_plane.configuration(fabric, grpc, jobs))
    assert len(sumwire_controller.parse_any(text).jobs) == 15
