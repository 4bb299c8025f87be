# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Marks of queues on the way down: they are in a result's IP header, and reach the window of the worker they go to."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.transport.soft_tree import STAR, soft_tree
from helpers.transport.udp_bridge import Bridge, FrameSwitch, configs, golden_switch, job_mapping, run_workers
from numpy.typing import NDArray
from sumwire.native import SWITCH
from sumwire.transport.options import Delivery, TransportOptions
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport
from sumwire_protocol import constants as p4

WORKERS, CHUNKS, SLOTS = 3, 100, 256
KEY = bytes(range(32))
# Priority 5, protected.
URGENT = 0xA2
FORMS = pytest.mark.parametrize("form", ["numpy", pytest.param("native", marks=pytest.mark.cc)])


@pytest.fixture(autouse=True)
def _form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "form" in request.fixturenames and request.getfixturevalue("form") == "numpy":
        monkeypatch.setenv(SWITCH, "0")


class MarkedResults:
    """The switch, and behind one of its ports a queue that marks every second packet."""

    def __init__(self, switch: FrameSwitch, port: int) -> None:
        self.switch, self.port, self.passed = switch, port, 0

    def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        return [(out, self._marked(out, sent)) for out, sent in self.switch.receive(port, frame)]

    def _marked(self, port: int, frame: bytes) -> bytes:
        if port != self.port:
            return frame
        self.passed += 1
        return model.with_ipv4(frame, tos=p4.ECN_CE) if self.passed % 2 else frame


def planes(chunks: int) -> NDArray[np.uint8]:
    return np.random.default_rng(1).integers(0, 256, (WORKERS, chunks, 4, 128), dtype=np.uint8)


def moved(
    delivery: Delivery, chunks: int = CHUNKS, key: bytes | None = None
) -> list[tuple[NDArray[np.uint8], JobStats, int]]:
    """(sums, counters, the window's limit or 0) of every worker, where results for worker 1 are marked."""
    mapping, up = job_mapping(WORKERS, SLOTS), planes(chunks)
    switch = golden_switch(mapping)
    if key is not None:
        (job,) = switch.jobs
        switch.jobs = (OnLoopback(**{**{field.name: getattr(job, field.name) for field in fields(job)}, "key": key}),)

    def work(worker: int) -> tuple[NDArray[np.uint8], JobStats, int]:
        config = replace(configs(mapping)[worker], key=key)
        with Transport(config, TransportOptions(delivery=delivery)) as transport:
            words = transport.exchange(p4.OP_THC, up[worker]).words
            limit = transport.window.limit
            return words, transport.stats, 0 if limit is None else limit.chunks

    with Bridge(mapping, MarkedResults(switch, port=2)):
        return run_workers(work, WORKERS)


class OnLoopback(model.Job):
    """Frames have other addresses than sockets, see udp_bridge."""

    def sealed(self, packet: model.Packet, switch: bytes) -> model.Packet:
        return super().sealed(packet, b"\x7f" + switch[1:])


@FORMS
@pytest.mark.parametrize("bound", [0.0, 0.01])
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "keyed"])
def test_a_mark_narrows_the_window_of_who_gets_it(form: str, bound: float, key: bytes | None) -> None:
    """With a key a mark is no change of the packet: the tag covers what the switch has sent."""
    # The golden model takes its time for tags.
    chunks = CHUNKS if key is None else 30
    outcomes = moved(Delivery(loss_bound=bound), chunks, key)
    for words, stats, _ in outcomes:
        assert (words == outcomes[0][0]).all()
        assert stats.forged == 0
    marks = [stats.ce_marks for _, stats, _ in outcomes]
    # Resends, if there are any, have results of their own.
    assert (marks[0], marks[2]) == (0, 0)
    assert 0.4 * chunks <= marks[1] <= 0.6 * chunks
    limits = [limit for _, _, limit in outcomes]
    # A window begins with 10 and grows, and nothing but marks takes it below that.
    assert limits[1] < 10 < min(limits[0], limits[2])


@FORMS
def test_without_a_window_that_follows_marks_nobody_reads_them(form: str) -> None:
    for words, stats, limit in (outcomes := moved(Delivery(congestion=False))):
        assert (words == outcomes[0][0]).all()
        assert (stats.ce_marks, limit) == (0, 0)


@pytest.mark.parametrize("mark_bytes", [1000, 1 << 24], ids=["marking", "long"])
def test_a_queue_of_a_star_reaches_the_workers_of_a_job(mark_bytes: int) -> None:
    """A queue of 1 Mbit/s behind a soft switch's port is above 1000 bytes whenever two results go there at once."""
    queue = f"switch: s1, port: 1, rate_mbit: 1, mark_bytes: {mark_bytes}"
    never = 1 << 24
    queue = f"{{{queue}, drop_bytes: [{never}, {never}, {never}, {never}], drop_all_bytes: {never}}}"
    given = [torch.randn(40 * 1024, generator=torch.Generator().manual_seed(w)) for w in range(STAR.workers)]

    def tag(magnitudes: NDArray[np.float32]) -> NDArray[np.uint8]:
        return np.full(len(magnitudes), URGENT, np.uint8)

    with soft_tree(STAR, {"train": 256}, queue) as rig:
        mapping = rig.fresh_job("train")

        def work(worker: int) -> Any:
            with sumwire.Job(configs(mapping)[worker], delivery=Delivery()) as job:
                mean = job.reduce(given[worker], tag=tag)[0].clone()
                limit = job._session.window.limit
                assert limit is not None
                return mean, job.stats.ce_marks, limit.chunks

        with rig.bridge(mapping):
            outcomes = run_workers(work, STAR.workers)
    assert all(torch.equal(mean, outcomes[0][0]) for mean, _, _ in outcomes)
    marks, limits = [marks for _, marks, _ in outcomes], [limit for _, _, limit in outcomes]
    assert marks[1:] == [0, 0, 0]
    if mark_bytes == 1000:
        assert marks[0] > 20
        assert limits[0] < 10 < min(limits[1:])
    else:
        assert marks[0] == 0
        assert limits[0] > 10
