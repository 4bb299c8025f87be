# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes, spraying, virtual queues and loss on purpose on running switches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from golden import model
from golden.queues import mix32, salted
from helpers.controller.cables import Cables, check_sum, running
from helpers.controller.config_texts import job, queue, star, text
from helpers.controller.real_switches import bmv2, soft_switch
from helpers.controller.topology_texts import leaf_spine, tree_job
from softswitch.switch import SoftSwitch
from sumwire_controller.deploy.operations import apply, read_status
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.switch import P4Switch
from sumwire_controller.deploy.watch import below_redundant_roots, redirections
from sumwire_controller.derive.entries import UPLINK
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.model import Config
from sumwire_controller.parse.files import parse_config, parse_topology

PROGRAM = Program.load()
LANED = {**job("a", 5, 4, 0, 64, "thc max32"), "lanes": 4, "quorum": 3, "spray": "hash"}
LOSSY = {**LANED, "degrade": {"seed": 2**32 - 1, "share": 0.5, "mode": "trim-results"}}
QUEUES = [queue(1, trim=True), queue(4, rate_mbit=0.5)]


@pytest.fixture(scope="module", params=["soft", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("bmv2") / "switch.log"
    with soft_switch(SoftSwitch(engine="python")) if request.param == "soft" else bmv2(log) as running:
        yield running


def config(address: str, jobs: list[dict[str, Any]], queues: list[dict[str, Any]]) -> Config:
    parsed = parse_config(text({**star(4, jobs=jobs), "queues": queues}))
    return replace(parsed, switch=replace(parsed.switch, grpc=address))


def test_what_is_written_reads_back(address: str) -> None:
    for jobs, queues in (([LOSSY], QUEUES), ([LANED], QUEUES[1:]), ([], []), ([LOSSY], [])):
        wanted = config(address, jobs, queues)
        apply(wanted)
        assert not apply(wanted).changed
        status = read_status(wanted)
        assert status.differences == ()
        assert [found.name for found in status.jobs] == ([f"a/{k}" for k in range(4)] if jobs else [])
        tables = [line.split("[")[0] for line in status.entries]
        assert tables.count("virtual_queue") == len(queues)
        assert tables.count("degrade") == (4 if jobs == [LOSSY] else 0)
        assert status.queues == ()


def test_a_queue_alone_renews_no_job(address: str) -> None:
    before = apply(config(address, [LOSSY], [])).generations
    report = apply(config(address, [LOSSY], QUEUES))
    assert report.generations == before
    assert len(report.changes) == len(QUEUES)
    renewed = apply(config(address, [LOSSY], QUEUES), renew=["a"])
    assert all(renewed.generations[name] > max(before.values()) for name in before)


def test_status_counts_what_a_queue_decides() -> None:
    """With a queue that does not drain, later packets are marked or dropped."""
    device = SoftSwitch(engine="python", clock=lambda: 1)
    with soft_switch(device) as running:
        wide = {"mark_bytes": 100, "drop_bytes": [1, 1, 1, 100000], "drop_all_bytes": 100000}
        wanted = config(running, [], [queue(2, rate_mbit=0.01, **wide)])
        apply(wanted)
        sender, receiver = (model.Host(k, bytes([0, 0, 0, 0, 0, k]), bytes([10, 0, 0, k])) for k in (1, 2))
        frames = {tos: model.udp_frame(sender, receiver, bytes(100), dscp_ecn=tos) for tos in (0, 0b110 << 2, 0x02)}
        # class 0, droppable but not yet: 142 bytes are queued after it; class 3; protected
        sent = [len(device.process(1, frames[tos])) for tos in (0, 0b110 << 2, 0x02, 0b110 << 2)]
        assert sent == [1, 0, 1, 0]
        found = read_status(wanted).queues
    assert [(q.port, q.drop_class, q.decision, q.packets, q.bytes) for q in found] == [
        (2, 0, "pass", 1, 142), (2, 0, "mark", 1, 142), (2, 3, "drop", 2, 284)
    ]  # fmt: skip


# -- frames through leaves under two spines ---------------------------------------------------------------


@pytest.fixture(scope="module")
def sprayed() -> Iterator[Cables]:
    """Two leaves with two hosts each under two spines, and a job of two lanes whose chunks are sprayed."""
    entry = {**tree_job("a", 5, [1, 2, 3, 4], 0, 32, "sum32"), "lanes": 2, "spray": "hash"}
    with running(parse_topology(text({**leaf_spine(2, 2, 2), "jobs": [entry]}))) as cables:
        yield cables


def spines_of(cables: Cables, chunks: list[tuple[int, int, int]]) -> dict[tuple[int, int, int], set[str]]:
    (job,) = cables.topology.jobs
    return {(lane, slot, round_): check_sum(cables, job, slot, lane, round_) for lane, slot, round_ in chunks}


CHUNKS = [(lane, slot, round_) for lane in (0, 1) for slot in (0, 1, 7, 15) for round_ in (0, 1, 2)]


def spine_of(slot: int, round_: int) -> str:
    """The spine at which the golden model sums the chunk."""
    return f"spine{1 + (mix32(salted(slot, round_)) & 1)}"


def test_all_copies_of_a_sprayed_chunk_meet_at_one_spine(sprayed: Cables) -> None:
    found = spines_of(sprayed, CHUNKS)
    assert found == {(lane, slot, round_): {spine_of(slot, round_)} for lane, slot, round_ in CHUNKS}
    assert set.union(*found.values()) == {"spine1", "spine2"}
    assert len({frozenset(found[0, 0, round_]) for round_ in (0, 1, 2)}) == 2  # one slot, both spines


def test_with_a_spine_left_out_every_chunk_passes_the_other(sprayed: Cables) -> None:
    configs = configs_of(sprayed.topology)
    gone = sprayed.topology.node("spine1").aggregator.ip
    for leaf in below_redundant_roots(configs):
        with P4Switch(leaf.switch) as switch:
            changes = redirections(leaf, switch.rows(PROGRAM, UPLINK.name), {gone})
            assert len(changes) == 2  # a lane each
            for change in changes:
                switch.write(PROGRAM, change)
    later = [(lane, slot, round_ + 3) for lane, slot, round_ in CHUNKS]
    assert spines_of(sprayed, later) == {chunk: {"spine2"} for chunk in later}
