# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs on bmv2 have as many slots as its queues bear results; other switches get the jobs as they are."""

from __future__ import annotations

import pytest
import yaml
from sumwire_controller import job_description, parse_any
from sumwire_lab.bench.switch import CONTENDERS, GENERATOR, jobs_for
from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import plan
from sumwire_lab.network.switches import BMV2_SLOTS, fitted
from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.recipes import RECIPES
from sumwire_lab.options.run_options import LinkOptions

# simple_switch.cpp: the capacity of its egress queues.
QUEUE_PACKETS = 64


@pytest.mark.parametrize("topology", ["star", "leaf-spine2"])
def test_results_in_flight_fit_bmv2s_queue(topology: str) -> None:
    fabric = plan(4, LinkOptions(), "sw12af", topology)
    jobs = fitted(control_plane.side_jobs(fabric), "bmv2")
    assert [entry["name"] for entry in jobs] == ["training", "odd", "narrow"]
    assert all(entry["slots"]["count"] // 2 <= QUEUE_PACKETS for entry in jobs)
    assert jobs[0]["slots"]["count"] == BMV2_SLOTS, "all that fit"
    grpc = {switch.name: "127.0.0.1:1" for switch in fabric.switches}
    config = parse_any(yaml.safe_dump(control_plane.configuration(fabric, grpc, jobs)))
    assert job_description(config, control_plane.JOB)["slots"] == BMV2_SLOTS


@pytest.mark.parametrize("kind", [None, "soft", "aggregator"])
def test_other_switches_take_the_jobs_as_they_are(kind: str | None) -> None:
    jobs = control_plane.training_job(plan(4, LinkOptions(), "sw12af"))
    assert fitted(jobs, kind) == jobs
    assert jobs[0]["slots"]["count"] > BMV2_SLOTS


@pytest.mark.parametrize("contender", [*CONTENDERS, GENERATOR])
def test_the_benchmark_fills_no_queue(contender: str) -> None:
    [entry] = jobs_for(contender, plan(4, LinkOptions(), "sw12af"))
    assert (entry["slots"]["count"] // 2 <= QUEUE_PACKETS) == (contender == "bmv2")


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_lanes_share_them(mtu: int) -> None:
    fabric = plan(4, LinkOptions(mtu=mtu), "sw12af", "star")
    jobs = fitted(control_plane.laned_job(fabric, LanedOptions(), RECIPES["dlcp"]), "bmv2")
    config = parse_any(
        yaml.safe_dump(control_plane.configuration(fabric, {fabric.switches[0].name: "127.0.0.1:1"}, jobs))
    )
    lanes = job_description(config, control_plane.JOB)["lanes"]
    assert [lane["slots"] for lane in lanes] == [BMV2_SLOTS // 4] * 4
