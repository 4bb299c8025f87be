# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets of 8192 values: the same bits as with packets of 1024, in an eighth of the packets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.transport.soft_tree import LEAF_SPINE, soft_tree
from helpers.transport.udp_bridge import Bridge, Impairment, configs, golden_switch, job_mapping, run_workers
from sumwire.codec.naive import NaiveCodec
from sumwire.codec.tables import PUBLISHED_TABLE, uniform
from sumwire.errors import MismatchError
from sumwire.job.codec_operation import _most_urgent
from sumwire.job.operations import OWN_PACKETS, JumboPayload
from sumwire.transport.options import Delivery
from sumwire_protocol import constants as p4
from torch import Tensor

WORKERS = 4
SHORT, LONG = ["thc", "max32"], ["thc", "max32", "jumbo"]
# Of 1024 values: one less than a packet has, a whole one, one more, and a last packet with a part of a chunk.
LENGTHS = [7 * 1024, 8 * 1024, 9 * 1024, 69_001]
STEPS = 3
Network = Callable[[dict[str, Any]], contextlib.AbstractContextManager[Any]]


def golden(mapping: dict[str, Any]) -> Bridge:
    return Bridge(mapping, golden_switch(mapping))


def impaired(mapping: dict[str, Any]) -> Bridge:
    weather = Impairment(3, drop=0.03, duplicate=0.03, reorder=0.04, late=0.02)
    return Bridge(mapping, golden_switch(mapping), weather)


def mapping_of(ops: list[str], **fields: Any) -> dict[str, Any]:
    return {**job_mapping(WORKERS, 64), "ops": ops, **fields}


def tensor(worker: int, step: int, length: int) -> Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(worker + 100 * step))


def trained(ops: list[str], length: int, network: Network, **options: Any) -> list[dict[str, Any]]:
    mapping = mapping_of(ops)

    def work(worker: int) -> dict[str, Any]:
        with sumwire.Job(configs(mapping)[worker], **options) as job:
            codec = job._thc_for("")
            means, residuals = [], []
            for step in range(STEPS):
                mean, residual = job.reduce_with(codec, tensor(worker, step, length))
                means.append(mean.clone())
                residuals.append(residual())
            return {"means": means, "residuals": residuals, "stats": job.stats}

    with network(mapping):
        return run_workers(work, WORKERS)


def bits(of: list[Tensor]) -> list[bytes]:
    return [one.numpy().tobytes() for one in of]


@pytest.mark.parametrize("network", [golden, impaired], ids=["golden", "impaired"])
@pytest.mark.parametrize("length", LENGTHS)
def test_means_and_residuals_have_the_bits_of_short_packets(length: int, network: Network) -> None:
    short, long = trained(SHORT, length, golden), trained(LONG, length, network)
    for outcome in long:
        assert bits(outcome["means"]) == bits(short[0]["means"])
    for outcome, before in zip(long, short, strict=True):
        assert bits(outcome["residuals"]) == bits(before["residuals"])


@pytest.mark.parametrize("native", ["1", "0"], ids=["C", "torch"])
@pytest.mark.parametrize("naive", [True, False], ids=["naive", "thc"])
def test_a_codec_writes_bytes_itself_or_has_its_planes_converted(
    naive: bool, native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """THC writes those of long packets itself, in C or torch. Naive's planes are converted. The bits are the same."""
    monkeypatch.setenv("SUMWIRE_NATIVE", native)
    length, table = 20 * 1024 + 5, uniform(4, 1 / 32)

    def mean_of(ops: list[str]) -> bytes:
        mapping = mapping_of(ops, thc={"bits": 4, "p": table.p, "table": list(table.values)})

        def work(worker: int) -> bytes:
            with sumwire.Job(configs(mapping)[worker]) as job:
                codec = NaiveCodec(table) if naive else job._thc_for("")
                assert codec.begin(tensor(worker, 0, length), 1, 0).use_lanes() is not naive
                mean, residual = job.reduce_with(codec, tensor(worker, 0, length))
                return bits([mean.clone(), residual()])[0]

        with golden(mapping):
            return run_workers(work, WORKERS)[0]

    assert mean_of(LONG) == mean_of(SHORT)


def test_there_are_an_eighth_of_the_packets() -> None:
    """Beside them are a few norms and greetings."""
    length = 320 * 1024
    short, long = (trained(ops, length, golden)[0]["stats"].packets_received for ops in (SHORT, LONG))
    assert short >= STEPS * 320 and STEPS * 40 <= long < STEPS * 40 + (short - STEPS * 320) + 20


def test_the_greeting_tries_long_packets_too() -> None:
    mapping = mapping_of(LONG)
    switch = golden_switch(mapping)

    class Spoilt:
        """Its sums of long packets are one too large."""

        def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
            return [(to, self._spoilt(out)) for to, out in switch.receive(port, frame)]

        def _spoilt(self, frame: bytes) -> bytes:
            packet = model.decode(frame[42:])
            if packet.op != model.JUMBO or packet.kind != model.RESULT:
                return frame
            payload = bytearray(packet.payload)
            payload[-1] ^= 1
            return frame[:42] + packet._replace(payload=bytes(payload)).encode()

    def work(worker: int) -> str:
        with sumwire.Job(configs(mapping)[worker]) as job, pytest.raises(MismatchError) as caught:
            job.reduce(tensor(worker, 0, 10))
        return str(caught.value)

    with Bridge(mapping, Spoilt()):
        told = run_workers(work, WORKERS)
    assert all("the table at the switch" in text and "is not the job file's" in text for text in told)


def test_what_is_lost_for_good_is_in_the_residual() -> None:
    """A loss bound leaves whole packets out: eight chunks at a time."""
    mapping, length = mapping_of(LONG), 512 * 1024
    given = [tensor(worker, 0, length) for worker in range(WORKERS)]

    def work(worker: int) -> tuple[Tensor, Tensor, int]:
        delivery = Delivery(loss_bound=0.2)
        with sumwire.Job(configs(mapping)[worker], block=1024, delivery=delivery) as job:
            mean, residual = job.reduce_with(job._thc_for(""), given[worker])
            return mean, residual(), job.stats.left_out

    with Bridge(mapping, golden_switch(mapping), Impairment(5, drop=0.15)):
        outcomes = run_workers(work, WORKERS)
    assert any(left for _, _, left in outcomes)
    for (mean, residual, _), x in zip(outcomes, given, strict=True):
        assert torch.equal(mean, outcomes[0][0])
        out = torch.tensor([torch.equal(a, b) for a, b in zip(residual.split(1024), x.split(1024), strict=True)])
        groups = out.view(-1, 8)
        assert torch.equal(groups.all(1), groups.any(1))


def test_what_is_lost_in_one_round_trip_is_in_the_residual_too() -> None:
    """Tensors of up to 32 chunks travel with their scales, in short packets, and a bound leaves single chunks out."""
    mapping, length = mapping_of(LONG), 24 * 1024

    def work(worker: int) -> tuple[Tensor, list[tuple[Tensor, Tensor]], int]:
        x = tensor(worker, 0, length)
        with sumwire.Job(configs(mapping)[worker], block=1024, delivery=Delivery(loss_bound=0.2)) as job:
            outcomes = []
            for _ in range(6):
                mean, residual = job.reduce_with(job._thc_for(""), x)
                outcomes.append((mean.clone(), residual()))
            return x, outcomes, job.stats.one_trip_operations

    with Bridge(mapping, golden_switch(mapping), Impairment(5, drop=0.15)):
        given = run_workers(work, WORKERS)
    assert all(trips for _, _, trips in given)
    counts = set()
    for step in range(6):
        mean = given[0][1][step][0].view(-1, 1024)
        taken = sum((x - outcomes[step][1] for x, outcomes, _ in given), torch.zeros(length)).view(-1, 1024)
        for chunk, total in zip(mean, taken, strict=True):
            found = [n for n in range(1, WORKERS + 1) if torch.allclose(total, n * chunk, rtol=0, atol=1e-4)]
            assert found, "means and residuals do not add up to what was given"
            counts.update(found)
    assert len(counts) > 1


def test_a_long_packet_is_as_urgent_as_its_most_urgent_chunk_and_is_lost_as_late() -> None:
    """Priority is in the top three bits of a TOS byte, the drop class in the next two. Protected: class 0 with ECN."""
    tags = np.array([0x38, 0x58, 0xF8, 0x30, 0x38, 0x38, 0x38, 0x38, 0x38, 0x42, 0x38], np.uint8)
    assert _most_urgent(tags, JumboPayload(PUBLISHED_TABLE)).tolist() == [0xF0, 0x42]
    assert _most_urgent(tags, OWN_PACKETS[p4.OP_THC]) is tags


@pytest.mark.cc
def test_over_a_tree_of_switches() -> None:
    """Partial results of long packets go up, and the results come down, over links that lose packets."""
    length = 69_001
    with soft_tree(LEAF_SPINE, {"train": 16}, ops=", ".join(LONG)) as rig:
        mapping = rig.fresh_job("train")

        def work(worker: int) -> tuple[Tensor, Tensor, int]:
            with sumwire.Job(configs(mapping)[worker]) as job:
                mean, residual = job.reduce_with(job._thc_for(""), tensor(worker, 0, length))
                return mean, residual(), job.stats.packets_received

        with rig.bridge(mapping, Impairment(3, drop=0.02, duplicate=0.02, reorder=0.02)):
            outcomes = run_workers(work, LEAF_SPINE.workers)
    exact = torch.stack([tensor(worker, 0, length) for worker in range(len(outcomes))]).mean(0)
    left = torch.stack([residual for _, residual, _ in outcomes]).mean(0)
    for mean, _, received in outcomes:
        assert torch.equal(mean, outcomes[0][0]) and received < 60
    torch.testing.assert_close(outcomes[0][0] + left, exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("native", ["1", "0"])
def test_payload_is_where_the_switch_takes_it_from(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the golden model, which reads values out of packets on its own."""
    monkeypatch.setenv("SUMWIRE_NATIVE", native)
    rng = np.random.default_rng(1)
    indices = rng.integers(0, 16, (16, 1024))
    words = np.stack([np.frombuffer(model.to_planes(row, 4), np.uint8).reshape(4, 128) for row in indices])
    form, out = JumboPayload(PUBLISHED_TABLE), np.full((2, p4.JUMBO_WORDS, 128), 0xA5, np.uint8)
    form.put(lambda to: np.copyto(to, words[: len(to)]), out, 13)
    sent = np.concatenate([model.read(model.JUMBO, packet.tobytes(), (), partial=False) for packet in out])
    assert np.array_equal(sent[: 13 * 1024], np.array(PUBLISHED_TABLE)[indices[:13]].reshape(-1))
    assert not sent[13 * 1024 :].any()
    sums = rng.integers(0, 256, 8192)
    result = np.frombuffer(model.result(model.JUMBO, sums, 4), np.uint8).reshape(1, 64, 128)
    taken = [model.from_planes(chunk.tobytes()) for chunk in form.take(result)]
    assert np.array_equal(np.concatenate(taken), sums)
    assert replace(mapping := configs(mapping_of(LONG))[0], ops=("thc",)).longest_bytes < mapping.longest_bytes == 8192
