# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes: which tensor goes where, at the same time, and what is noted of it."""

from __future__ import annotations

import threading
from typing import Any, cast

import numpy as np
import pytest
import torch
from helpers.dlcp.fake_jobs import FakeJob, MakeLanes, coarse, lane_config
from helpers.transport.udp_bridge import run_workers
from sumwire.dlcp import lanes as lanes_module
from sumwire.dlcp.lanes import LOSS_BOUND, Lanes, TensorRecord
from sumwire.dlcp.tags import LayerMagnitude, Tag
from sumwire.errors import ConfigError
from sumwire.transport.options import Delivery
from torch import Tensor


def jobs(lanes: Lanes) -> list[FakeJob]:
    return cast(list[FakeJob], lanes.jobs)


def given(worker: int, length: int = 3000) -> Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(worker))


def test_every_lane_is_a_job_of_its_own(make_lanes: MakeLanes) -> None:
    lanes = make_lanes(deadline_s=3.0)
    assert [job.config.job for job in lanes.jobs] == [40, 41, 42, 43]
    assert len({job.config.own_address.udp_port for job in lanes.jobs}) == 4
    assert all(job.options["deadline_s"] == 3.0 for job in jobs(lanes))
    assert {job.options["delivery"] for job in jobs(lanes)} == {Delivery(loss_bound=LOSS_BOUND)}
    assert (lanes.priorities, lanes.workers, lanes.fallen_back) == ((7, 5, 3, 1), 1, False)


def test_position_decides_lane_and_tags(make_lanes: MakeLanes) -> None:
    lanes = make_lanes()
    for bucket, position in enumerate((1.0, 0.7, 0.3, 0.0)):
        lanes.reduce(given(bucket), bucket, position)
    sent = [job.sent for job in jobs(lanes)]
    assert [[bucket for bucket, _ in one] for one in sent] == [[3], [2], [1], [0]]
    for one, priority in zip(sent, (7, 5, 3, 1), strict=True):
        tags = [Tag.of(int(tos)) for tos in one[0][1]]
        assert len(tags) == 3 and {tag.priority for tag in tags} == {priority}
    # The largest of three chunks is protected; of the front layer, the smallest is lost first.
    front = [Tag.of(int(tos)).drop_class for tos in sent[0][0][1]]
    chunks = torch.nn.functional.pad(given(3), (0, 72)).view(3, 1024).norm(dim=1)
    assert front[int(chunks.argmax())] == 0 and front[int(chunks.argmin())] == max(front) > 0


def test_the_mean_and_the_residual(make_lanes: MakeLanes) -> None:
    made = [make_lanes(worker, workers=3) for worker in range(3)]

    def work(worker: int) -> tuple[Tensor, Tensor]:
        mean, residual = made[worker].reduce(given(worker), 0, 0.5)
        return mean, residual()

    outcomes = run_workers(work, 3)
    for worker, (mean, residual) in enumerate(outcomes):
        assert torch.equal(mean, torch.stack([coarse(given(w)) for w in range(3)]).mean(0))
        assert torch.equal(residual, given(worker) - coarse(given(worker)))


def test_an_urgent_tensor_overtakes_an_earlier_one(make_lanes: MakeLanes) -> None:
    """The back layer's result does not come before the front layer's is there."""
    lanes = make_lanes()
    back_may_go = threading.Event()
    jobs(lanes)[0].table.gates[43] = back_may_go
    ends: list[str] = []

    def reduce(name: str, position: float) -> None:
        lanes.reduce(given(0), 0, position)
        ends.append(name)

    back = lanes.submit(lanes.lane_of(1.0), lambda: reduce("back", 1.0))
    front = lanes.submit(lanes.lane_of(0.0), lambda: reduce("front", 0.0))
    front.wait()
    assert ends == ["front"]
    back_may_go.set()
    back.wait()
    assert ends == ["front", "back"]
    lanes.close()


def test_records_say_when_where_and_how_whole(make_lanes: MakeLanes, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("sumwire.dlcp.lanes.time.monotonic", lambda: now[0])
    lanes = make_lanes()
    lanes.reduce(given(0), 7, 0.0, handed_over=99.5)
    jobs(lanes)[3].lost = 1
    lanes.reduce(given(0, 5000), 8, 1.0)
    first, second = lanes.take_records()
    assert first == TensorRecord(7, 0, 7, 3000, 99.5, 0.5, 3, 0)
    assert second == TensorRecord(8, 3, 1, 5000, 100.0, 0.0, 5, 1)
    assert second.missing_share == 0.2 and second.as_dict()["missing_share"] == 0.2
    assert lanes.take_records() == []


def test_stats_are_those_of_all_lanes(make_lanes: MakeLanes) -> None:
    lanes = make_lanes()
    for position in (0.0, 0.0, 0.9):
        lanes.reduce(given(0), 0, position)
    jobs(lanes)[1].stats.bytes_sent = 5
    jobs(lanes)[2].stats.bytes_sent = 7
    assert (lanes.stats.operations, lanes.stats.bytes_sent) == (3, 12)
    assert lanes.stats.as_dict()["operations"] == 3


def test_closing(make_lanes: MakeLanes) -> None:
    order: list[str] = []
    with make_lanes() as lanes:
        lanes.on_close(lambda: order.append("closer"))
        lanes.submit(2, lambda: order.append("work"))
    assert sorted(order) == ["closer", "work"]
    assert [(job.given_up, job.closed) for job in jobs(lanes)] == [(False, True)] * 4
    lanes.close()
    with pytest.raises(ValueError, match="stop"), make_lanes() as lanes:
        raise ValueError("stop")
    assert [(job.given_up, job.closed) for job in jobs(lanes)] == [(True, False)] * 4


def test_a_lane_that_cannot_be_made_leaves_none_open(make_lanes: MakeLanes, monkeypatch: pytest.MonkeyPatch) -> None:
    kind: Any = vars(lanes_module)["Job"]
    monkeypatch.setattr(kind, "refused", frozenset({42}))
    with pytest.raises(OSError, match="job 42"):
        make_lanes()
    assert [(job.config.job, job.closed) for job in kind.made] == [(40, False), (41, False)]


class Stubborn(LayerMagnitude):
    """Names a priority that no lane has."""

    def priority(self, position: float) -> int:
        return 2


def test_priorities_that_do_not_fit(make_lanes: MakeLanes) -> None:
    with pytest.raises(ConfigError, match="lane 2 of 4 has none"):
        make_lanes(policy=LayerMagnitude((7, 3)))
    with pytest.raises(ConfigError, match="lane 1 is none of the job's 1"):
        make_lanes(lanes=1, policy=LayerMagnitude((7, 3)))
    with pytest.raises(ConfigError, match=r"priority = 2: must be one of the lanes' \(7, 5, 3, 1\), at position 0.5"):
        make_lanes(policy=Stubborn()).lane_of(0.5)


def test_a_job_without_thc() -> None:
    from dataclasses import replace

    with pytest.raises(ConfigError, match="must have thc"):
        Lanes(replace(lane_config(0, 1, 1), ops=("max32",), thc=None))


def test_tags_count_padding_too(make_lanes: MakeLanes) -> None:
    lanes = make_lanes()
    lanes.reduce(given(0, 2049), 0, 0.0)
    assert len(jobs(lanes)[0].sent[0][1]) == 3
    assert lanes.take_records()[0].contributions == 3
    assert np.all(jobs(lanes)[0].sent[0][1] > 0)
