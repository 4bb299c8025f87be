# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Workers of a job with a key: packets with authentication tags on real sockets, against the golden model."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from golden import model
from helpers.transport.udp_bridge import TABLE, Bridge, configs, golden_switch, job_mapping, run_workers
from numpy.typing import NDArray
from sumwire.config import JobConfig
from sumwire.errors import RefusedError
from sumwire.transport.buffers import Results
from sumwire.transport.kept_results import ROW_BYTES, KeptResults
from sumwire.transport.recovery import Recovery
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport
from sumwire_protocol import constants as p4

WORKERS = 3
KEY = bytes(range(50, 82))
NATIVE = pytest.mark.parametrize("native", [pytest.param("1", marks=pytest.mark.cc), "0"], ids=["native", "numpy"])


class OnLoopback(model.Job):
    """Frames have other addresses than sockets, see udp_bridge."""

    def sealed(self, packet: model.Packet, switch: bytes) -> model.Packet:
        return super().sealed(packet, b"\x7f" + switch[1:])


def keyed_switch(mapping: dict[str, Any]) -> model.GoldenSwitch:
    switch = golden_switch(mapping)
    (job,) = switch.jobs
    values = {field.name: getattr(job, field.name) for field in fields(job)}
    switch.jobs = (OnLoopback(**{**values, "key": KEY}),)
    return switch


def keyed(mapping: dict[str, Any]) -> list[JobConfig]:
    return [replace(config, key=KEY) for config in configs(mapping)]


class FlippingBridge(Bridge):
    """Between sockets and frames a share of the datagrams has a bit flipped, both ways."""

    flips = random.Random(4)
    share = 0.08
    flipped = 0

    def _flip(self, data: bytes) -> bytes:
        if self.flips.random() >= self.share:
            return data
        self.flipped += 1
        changed, bit = bytearray(data), self.flips.randrange(len(data) * 8)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    def _hear(self, datagram: bytes, sender: tuple[str, int]) -> None:
        super()._hear(self._flip(datagram), sender)

    def _tell(self, port: int, frame: bytes) -> None:
        super()._tell(port, frame[:42] + self._flip(frame[42:]))


def planes(chunks: int) -> NDArray[np.uint8]:
    return np.random.default_rng(1).integers(0, 256, (WORKERS, chunks, 4, 128), dtype=np.uint8)


def assert_sums(results: Results, up: NDArray[np.uint8]) -> None:
    table = np.array(TABLE)
    for chunk, words in enumerate(results.words):
        wanted = sum(table[model.from_planes(one.tobytes())] for one in up[:, chunk])
        assert words.tobytes() == model.to_planes(wanted, 8)


@NATIVE
@pytest.mark.parametrize("flipping", [False, True])
def test_sums_are_right_whatever_bits_the_network_flips(
    native: str, flipping: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUMWIRE_NATIVE", native)
    mapping, up = job_mapping(WORKERS, 16), planes(60)

    def work(worker: int) -> tuple[Results, JobStats]:
        with Transport(keyed(mapping)[worker]) as transport:
            return transport.exchange(p4.OP_THC, up[worker]), transport.stats

    switch = keyed_switch(mapping)
    with (FlippingBridge if flipping else Bridge)(mapping, switch) as bridge:
        outcomes = run_workers(work, WORKERS)
    for results, _ in outcomes:
        assert_sums(results, up)
    forged = sum(stats.forged for _, stats in outcomes)
    if isinstance(bridge, FlippingBridge):
        assert bridge.flipped > 20
        assert forged > 0
        assert switch.rejects["TAG"] > 0
    else:
        assert forged == 0
        assert not switch.rejects


@NATIVE
def test_max32_and_questions_have_tags(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMWIRE_NATIVE", native)
    mapping = job_mapping(WORKERS, 4)
    up = np.random.default_rng(1).integers(0, 256, (WORKERS, 20, 1, 128), dtype=np.uint8)

    def work(worker: int) -> bool:
        with Transport(keyed(mapping)[worker]) as transport:
            state = transport.hello(10.0)
            words = transport.exchange(p4.OP_MAX32, up[worker]).words
            wanted = up.view(">u4").max(axis=0).astype(">u4")
            return state is not None and words.view(">u4").tolist() == wanted.tolist()

    switch = keyed_switch(mapping)
    with Bridge(mapping, switch):
        assert run_workers(work, WORKERS) == [True] * WORKERS
    assert not switch.rejects


@pytest.mark.parametrize("key", [None, bytes(32)], ids=["no key", "another key"])
def test_a_wrong_key_is_a_typed_error_that_names_the_cure(key: bytes | None) -> None:
    mapping = job_mapping(1, 4)
    config = replace(configs(mapping)[0], key=key)
    cure = "TAG: the authentication tag of its packets is wrong.*same `key` file.*sumwire-controller apply"
    refused = pytest.raises(RefusedError, match=cure)
    with Bridge(mapping, keyed_switch(mapping)), Transport(config) as transport, refused as caught:
        transport.hello(0.3)
    assert caught.value.reason == p4.REJECT_TAG


def test_a_switch_without_the_key_is_said_so() -> None:
    mapping = job_mapping(1, 4)
    refused = pytest.raises(RefusedError, match="TAG: the authentication tag")
    with Bridge(mapping, golden_switch(mapping)), Transport(keyed(mapping)[0]) as transport, refused:
        transport.hello(0.3)


def test_forged_answers_are_counted_and_not_taken() -> None:
    """Whoever writes the switch's answers without the key only makes the worker ask again."""
    mapping = job_mapping(1, 4)
    forged = model.Packet(model.INFORM, 0, mapping["job"], 0, 0, 0, 77, 0, 0, 0, 0, 3 << 16).encode()
    ip = mapping["addresses"][0]["ip"]
    with Bridge(mapping, keyed_switch(mapping)) as bridge, Transport(keyed(mapping)[0]) as transport:
        for datagram in (forged, forged + bytes(8), forged + b"\xff" * 8):
            bridge.send_to_worker(ip, datagram)
        state = transport.hello(10.0)
        assert state is not None and state.round == 0
        assert transport.stats.forged == 3


@pytest.mark.parametrize("other", [KEY, bytes(32), None], ids=["same key", "another key", "no key"])
def test_results_of_other_workers(other: bytes | None) -> None:
    """Only who has the key is answered, and believed."""
    mapping = job_mapping(2, 8)
    asker, peer = (replace(config, key=key) for config, key in zip(configs(mapping), (KEY, other), strict=True))
    kept = [KeptResults(8, least=64) for _ in range(2)]
    payload = random.Random(1).randbytes(8 * model.WORD)
    packet = model.Packet(model.RESULT, model.THC, mapping["job"], 3, 0, 2, 0, 3, 0, 8, 3, 17, payload)
    row = np.zeros((1, ROW_BYTES), np.uint8)
    row[0] = np.frombuffer(packet.encode(), np.uint8)
    kept[1].put(np.array([3]), row, np.array([ROW_BYTES]))
    with ExitStack() as stack:
        recovery, service = Recovery(asker, kept[0]), Recovery(peer, kept[1]).service
        for one in (recovery, service):
            stack.callback(one.close)
        recovery.ask([3], model.THC)
        got: list[bytes] = []
        until = time.monotonic() + (10.0 if other == KEY else 0.5)
        while not got and time.monotonic() < until:
            recovery.send(time.monotonic())
            _, rows, sizes = recovery.answers()
            got = [one[:size].tobytes() for one, size in zip(rows, sizes.tolist(), strict=True)]
        assert got == ([packet.encode()] if other == KEY else [])
        assert (service.counters.malformed > 0) == (other != KEY)
