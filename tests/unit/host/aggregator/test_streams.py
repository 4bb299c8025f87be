# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whole streams of packets: against the golden model, numpy against C, and whatever the batches are."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from helpers.aggregator.streams import (
    Datagram,
    aggregator,
    bad_network,
    counted,
    expected,
    expected_in_tree,
    load,
    play,
    tree_aggregator,
    tree_network,
)
from helpers.packet.aggregator_rig import OTHER_JOBS
from helpers.packet.play import contribution
from helpers.packet.star import FULL, HOSTS
from sumwire.aggregator.core import Aggregator
from sumwire.errors import UsageError
from sumwire_protocol import constants as p4

NAMES = {
    prefix: {value: name.removeprefix(prefix) for name, value in vars(p4).items() if name.startswith(prefix)}
    for prefix in ("VERDICT_", "REJECT_")
}


def state_of(served: Aggregator) -> tuple[bytes, ...]:
    state = served.state
    # Words of a slot that nobody has, or that its op does not use, are of no meaning.
    return state.slots.tobytes(), state.verdicts.tobytes(), state.rejects.tobytes()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.few(6)
def test_replies_are_the_golden_models(native: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    stream = bad_network(rng)
    served = aggregator(native=native)
    got = play(served, stream, rng, most=48)
    golden, wanted = expected(stream, got.replies)
    assert got == wanted
    assert counted(served.state.verdicts, NAMES["VERDICT_"]) == dict(golden.verdicts)
    assert counted(served.state.rejects, NAMES["REJECT_"]) == dict(golden.rejects)
    assert golden.rejects["WORDS"] > 0 and golden.rejects["CALL"] > 0
    assert len(got.refusals) == len({source for source, *_ in stream})
    # The schedule is one that has everything in it.
    assert set(golden.verdicts) == {
        *("FIRST", "ADD", "LAST", "DUPLICATE", "REPEAT", "FLUSH", "STALE", "REJECT", "INFORM")
    }
    sent = [model.decode(reply.data) for reply in got.replies]
    assert {packet.kind for packet in sent} == {model.RESULT, model.STALE, model.INFORM}
    flags = {flag for packet in sent for flag in range(8) if packet.flags >> flag & 1}
    # INCOMPLETE, OVERFLOW, TRIMMED, CE, MISSING, CLOSED.
    assert flags == {1, 2, 3, 4, 6, 7}
    assert {packet.words for packet in sent if packet.op == model.THC} == {0, 6, 8}


@pytest.mark.parametrize("seed", range(3))
def test_replies_in_a_tree_are_the_golden_models(native: bool, seed: int) -> None:
    rng = np.random.default_rng([seed, 3])
    stream = tree_network(rng)
    served = tree_aggregator(native=native)
    got = play(served, stream, rng, most=48)
    golden, wanted = expected_in_tree(stream, got.replies)
    assert got.replies == wanted.replies
    assert counted(served.state.verdicts, NAMES["VERDICT_"]) == dict(golden.verdicts)
    assert counted(served.state.rejects, NAMES["REJECT_"]) == dict(golden.rejects)
    # The schedule is one that has everything in it.
    assert set(golden.verdicts) == {
        *("FIRST", "ADD", "LAST", "DUPLICATE", "REPEAT", "FLUSH", "STALE", "REJECT", "INFORM"),
        *("ASK", "DOWN", "KNOWN", "RELAY"),
    }
    assert set(golden.rejects) >= {"COUNT", "WORDS", "PARENT", "CALL", "TAG"}


@pytest.mark.cc
@pytest.mark.parametrize("seed", range(4))
def test_numpy_and_native_are_equal_to_the_bit_in_a_tree(seed: int) -> None:
    stream = tree_network(np.random.default_rng([seed, 8]), rounds=4)
    numpy, native = tree_aggregator(native=False), tree_aggregator(native=True)
    assert play(numpy, stream, np.random.default_rng(seed), 40) == play(native, stream, np.random.default_rng(seed), 9)
    assert state_of(numpy) == state_of(native)


@pytest.mark.parametrize("most", [2, 7, 64])
@pytest.mark.few(4)
def test_any_cut_into_batches_gives_the_same(native: bool, most: int) -> None:
    rng = np.random.default_rng(most)
    stream = bad_network(rng)
    one_by_one, in_batches = aggregator(native=native), aggregator(native=native)
    assert play(in_batches, stream, rng, most) == play(one_by_one, stream, rng, 1)
    assert state_of(in_batches) == state_of(one_by_one)


@pytest.mark.cc
@pytest.mark.parametrize("seed", range(8))
def test_numpy_and_native_are_equal_to_the_bit(seed: int) -> None:
    rng = np.random.default_rng([seed, 7])
    stream = bad_network(rng, rounds=4)
    numpy, native = aggregator(native=False), aggregator(native=True)
    assert play(numpy, stream, np.random.default_rng(seed), 40) == play(native, stream, np.random.default_rng(seed), 40)
    assert state_of(numpy) == state_of(native)
    assert np.array_equal(numpy.state.words, native.state.words)


def mutated(rng: np.random.Generator, count: int) -> list[Datagram]:
    """Random bytes, and real packets with a few of their bits or their ends changed."""
    real = bad_network(rng, rounds=2)
    out = []
    for k in range(count):
        if k % 3 == 0:
            data = rng.bytes(int(rng.integers(0, 1400)))
        else:
            mangled = bytearray(real[int(rng.integers(len(real)))].data)
            for _ in range(int(rng.integers(0, 3))):
                mangled[int(rng.integers(0, model.HEADER))] ^= 1 << int(rng.integers(0, 8))
            data = bytes(mangled[: int(rng.integers(0, len(mangled)))] if k % 3 == 2 else mangled)
        out.append(Datagram(HOSTS[int(rng.integers(0, 4))].ip if k % 10 else rng.bytes(4), data))
    return out


def test_malformed_datagrams_are_counted_and_do_no_harm(native: bool) -> None:
    """100,000 for the native kernel, fewer where each costs more; every one is counted once."""
    rng = np.random.default_rng(11)
    datagrams = mutated(rng, 5000)
    served = aggregator(native=native, room=256)
    rounds = 20 if native else 2
    for _ in range(rounds):
        play(served, datagrams, rng, 256)
    verdicts, rejects = served.state.verdicts, served.state.rejects
    assert verdicts.sum() == rounds * len(datagrams)
    assert rejects.sum() == verdicts[p4.VERDICT_REJECT]
    assert set(counted(rejects, NAMES["REJECT_"])) >= {
        *("LENGTH", "VERSION", "KIND", "OP", "WORDS", "JOB", "WORKER", "ADDRESS", "SLOT", "JOB_OP", "COUNT")
    }


def test_reasons_are_the_golden_models(native: bool) -> None:
    rng = np.random.default_rng(12)
    # From the host that the model's ports say, so that its PORT never applies.
    stream = [d for d in mutated(rng, 1500) if d.source in {host.ip for host in HOSTS} and not from_a_switch(d.data)]
    served = aggregator(native=native)
    got = play(served, stream, rng, 30)
    golden, wanted = expected(stream, got.replies)
    assert got.replies == wanted.replies
    # A switch looks at the port first, and knows a sender by that and its address.
    assert {refusal.to for refusal in got.refusals} >= {refusal.to for refusal in wanted.refusals}
    reasons = dict(golden.rejects)
    # A worker has one port and one address here, and a switch looks at the port first.
    reasons["ADDRESS"] = reasons.pop("PORT")
    assert counted(served.state.rejects, NAMES["REJECT_"]) == reasons


def from_a_switch(data: bytes) -> bool:
    """Of a job with lower switches, which are no workers of the aggregator's."""
    return len(data) >= model.HEADER and model.decode(data).job in OTHER_JOBS


def one(job: model.Job, worker: int, round_: int) -> Datagram:
    return Datagram(job.workers[worker].ip, contribution(job, worker, 0, round_, bytes(512)).encode())


def test_more_than_there_is_room_for_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match=r"3 datagrams: .* at most 2"):
        aggregator(native=False, room=2).process(load([one(FULL, 0, 0)] * 3, rng), 0.0)
