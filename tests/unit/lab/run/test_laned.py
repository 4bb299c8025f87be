# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A run's laned system: options, its job, the virtual queues, and what the workers' records become."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from sumwire_controller import job_description, parse_any
from sumwire_lab.errors import OptionError
from sumwire_lab.network import control_plane
from sumwire_lab.network import control_plane as queues
from sumwire_lab.network.fabric import plan
from sumwire_lab.options.arguments import parser
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.options.priority_lanes import SLOTS, DegradeOptions, LanedOptions
from sumwire_lab.options.recipes import DIGITS, RECIPES
from sumwire_lab.options.run_options import LinkOptions, RunOptions, run_options
from sumwire_lab.run import report
from sumwire_lab.run.page import render
from sumwire_lab.run.results import StepRecord, SystemResult, WorkerRecord, run_summary, system_summary, tensor_times

DLCP = ("gloo", "dlcp")
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: LanedOptions(lanes=0), "lanes=0"),
    (lambda: LanedOptions(lanes=3), "lanes=3"),
    (lambda: LanedOptions(lanes=9), "lanes=9"),
    (lambda: LanedOptions(loss_bound=1.0), "loss-bound=1.0"),
    (lambda: LanedOptions(loss_bound=-0.1), "loss-bound=-0.1"),
    (lambda: LanedOptions(divisor="quorum"), "divisor=quorum"),
    (lambda: LanedOptions(trims=True, drops=False), "trim: cuts what"),
    (lambda: LanedOptions(trims=True, queues=False), "trim: cuts what"),
    (lambda: DegradeOptions.parse("trim"), "degrade=trim"),
    (lambda: DegradeOptions.parse("burn:0.1"), "degrade=burn:0.1"),
    (lambda: DegradeOptions.parse("trim:2"), "degrade=trim:2"),
    (lambda: RunOptions(systems=DLCP, laned=LanedOptions(quorum=5)), "quorum=5"),
    (lambda: RunOptions(systems=DLCP, laned=LanedOptions(quorum=0)), "quorum=0"),
    (lambda: RunOptions(systems=DLCP, topology="leaf-spine", laned=LanedOptions(quorum=3)), "quorum=3"),
    (lambda: RunOptions(laned=LanedOptions(quorum=3)), "systems=gloo,thc"),
    (
        lambda: RunOptions(
            systems=DLCP, topology="leaf-spine", laned=LanedOptions(degrade=DegradeOptions("trim", 0.1))
        ),
        "deg",
    ),
    (lambda: RunOptions(server=True, switch="aggregator"), "server: only"),
    (lambda: RunOptions(server=True, topology="leaf-spine"), "server: only"),
    (
        lambda: RunOptions(systems=DLCP, switch="aggregator", laned=LanedOptions(degrade=DegradeOptions("drop", 0.1))),
        "deg",
    ),
    (lambda: RunOptions(systems=DLCP, malformed=10), "malformed=10"),
    (lambda: RunOptions(systems=("thc", "thc-bounded"), malformed=10), "malformed=10: not with system thc-bounded"),
    *(
        (
            lambda laned=laned: RunOptions(systems=("thc", "thc-bounded"), laned=laned),
            f"thc-bounded: {flag} is only for {takers}",
        )
        for laned, flag, takers in (
            (LanedOptions(lanes=2), "lanes", "dlcp:"),
            (LanedOptions(degrade=DegradeOptions("trim", 0.1)), "degrade", "dlcp:"),
            (LanedOptions(trims=True), "trim", "dlcp:"),
            (LanedOptions(queues=False), "no-queues", "dlcp:"),
            (LanedOptions(drops=False), "no-drops", "dlcp:"),
            (LanedOptions(priorities=False), "no-priorities", "dlcp, dlcp-ring, udp-ring:"),
        )
    ),
    *(
        (
            lambda laned=laned: RunOptions(systems=("dlcp", "thc-bounded@group"), laned=laned),
            "systems=thc-bounded@group: ",
        )
        for laned in (LanedOptions(quorum=3), LanedOptions(loss_bound=0.1), LanedOptions(divisor="workers"))
    ),
]


@pytest.mark.parametrize(("make", "words"), WRONG)
def test_wrong_options_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make()


def test_the_command_line_makes_them() -> None:
    text = (
        "run --systems gloo,dlcp --no-drops --no-priorities --quorum 3 --loss-bound 0.03 --lanes 2 --divisor workers "
        "--degrade trim:0.2 --seed 5"
    )
    options = run_options(parser().parse_args(text.split()))
    assert options.laned == LanedOptions(
        2, 3, 0.03, "workers", drops=False, priorities=False, degrade=DegradeOptions("trim", 0.2, 5)
    )
    assert options.needs_barrier
    assert run_options(parser().parse_args(["run", "--systems", "dlcp", "--trim"])).laned == LanedOptions(trims=True)
    plain = run_options(parser().parse_args(["run", "--systems", "dlcp"]))
    assert plain == RunOptions(systems=("dlcp",))


@pytest.mark.parametrize(
    ("system", "laned"),
    [
        ("thc-bounded", LanedOptions(quorum=3, loss_bound=0.03, divisor="workers")),
        ("thc-bounded@group", LanedOptions()),
        ("dlcp-ring", LanedOptions(priorities=False)),
    ],
)
def test_systems_without_lanes_take_what_they_have(system: str, laned: LanedOptions) -> None:
    assert RunOptions(systems=(system,), laned=laned).laned == laned


def test_the_bound_is_the_librarys_own() -> None:
    from sumwire.dlcp.lanes import LOSS_BOUND

    assert LanedOptions().loss_bound == LOSS_BOUND


@pytest.mark.parametrize("topology", ["star", "leaf-spine2", "three-level"])
def test_the_controller_takes_job_and_queues(topology: str) -> None:
    fabric = plan(4, LinkOptions(20, 100, trunk_mbit=5), "sw12af", topology)
    star = topology == "star"
    options = LanedOptions(quorum=3 if star else None, degrade=DegradeOptions("trim", 0.2) if star else None)
    jobs = control_plane.laned_job(fabric, options, RECIPES["dlcp"])
    grpc = {switch.name: "127.0.0.1:1" for switch in fabric.switches}
    virtual = queues.virtual_queues(fabric)
    config = parse_any(yaml.safe_dump(control_plane.configuration(fabric, grpc, jobs, virtual)))
    told = job_description(config, control_plane.JOB)
    assert [lane["slots"] for lane in told["lanes"]] == [SLOTS // 4] * 4
    assert len({lane["job"] for lane in told["lanes"]}) == 4
    assert told["quorum"] == (3 if star else 4)
    ports = sum(len(fabric.ports_of(switch.name)) for switch in fabric.switches)
    assert len(virtual) == ports
    # A host's link has 20 Mbit/s, one between switches 5.
    assert sorted(one["rate_mbit"] for one in virtual) == [5] * (ports - 4) + [20] * 4


@pytest.mark.parametrize(
    ("options", "mtu", "long_packets"),
    [
        (LanedOptions(), 9000, True),
        (LanedOptions(), 1500, False),
        (LanedOptions(trims=True), 9000, False),
        (LanedOptions(degrade=DegradeOptions("drop", 0.2)), 9000, False),
    ],
)
def test_lanes_have_long_packets_where_links_carry_them(options: LanedOptions, mtu: int, long_packets: bool) -> None:
    fabric = plan(4, LinkOptions(20, 100, mtu=mtu), "sw12af", "star")
    jobs = control_plane.laned_job(fabric, options, RECIPES["dlcp"])
    text = yaml.safe_dump(control_plane.configuration(fabric, {fabric.switches[0].name: "127.0.0.1:1"}, jobs))
    told = job_description(parse_any(text), control_plane.JOB)
    assert ("jumbo" in told["ops"]) is long_packets
    assert [lane["slots"] for lane in told["lanes"]] == [128 if long_packets else 256] * 4
    behind = plan(4, LinkOptions(20, 100, mtu=mtu), "sw12af", "star", server=True, server_behind=True)
    [entry] = control_plane.laned_job(behind, options, RECIPES["dlcp"])
    assert "jumbo" not in entry["ops"], "a server's software sums short packets alone"


def test_a_virtual_queue_is_full_before_the_links_own() -> None:
    one = queues.thresholds(150_000)
    assert 0 < one["mark_bytes"] < one["drop_bytes"][0]
    assert one["drop_bytes"] == sorted(one["drop_bytes"])
    assert one["drop_bytes"][-1] <= one["drop_all_bytes"] < 150_000


def test_without_drops_a_queue_keeps_every_class_until_it_is_full() -> None:
    one = queues.thresholds(150_000, drops=False)
    assert one["drop_bytes"] == [one["drop_all_bytes"]] * 4 and one["mark_bytes"] < one["drop_all_bytes"]


def test_a_queue_cuts_where_it_is_told_to() -> None:
    fabric = plan(2, LinkOptions(20), "sw12af")
    assert [one["trim"] for one in queues.virtual_queues(fabric)] == [False] * 2
    assert [one["trim"] for one in queues.virtual_queues(fabric, trims=True)] == [True] * 2


def test_decisions_are_summed_by_class() -> None:
    decisions = {(1, 3, "drop"): 5, (2, 3, "drop"): 2, (1, 0, "mark"): 9, (1, 1, "pass"): 100}
    assert list(queues.by_class(decisions).items()) == [("3 drop", 7), ("0 mark", 9)]


def test_only_a_quorum_below_all_ends_the_lockstep() -> None:
    assert LanedOptions().lockstep(4)
    assert LanedOptions(quorum=4).lockstep(4)
    assert not LanedOptions(quorum=3).lockstep(4)


def tensor(seconds: float, lane: int = 0, missing: float = 0.0) -> dict[str, Any]:
    return {"lane": lane, "priority": 7 - 2 * lane, "seconds": seconds, "missing_share": missing}


def worker(*steps: list[dict[str, Any]], followed: int | None = None) -> WorkerRecord:
    record = WorkerRecord(0, len(steps), 10, fingerprint="f", stats={"missing": 4, "probes": 2})
    for k, tensors in enumerate(steps):
        loss = None if k == followed else 1.0
        step = StepRecord(k, loss, k + 1.0, 1.0, 0.5, 8, 8, 0.5, followed=k == followed, tensors=tensors)
        record.steps.append(step)
    return record


def test_times_of_tensors() -> None:
    """Of two warm-up steps nothing counts, nor of a step taken from others."""
    first = worker([tensor(9)], [tensor(9)], [tensor(1), tensor(4, 1, 0.01)], [tensor(2), tensor(5, 1)])
    second = worker([tensor(9)], [tensor(9)], [tensor(3), tensor(6, 1)], [tensor(50, 1)], followed=3)
    times = tensor_times([first, second], 2)
    assert times["tensor_s"] == pytest.approx((1 + 4 + 2 + 5 + 3 + 6) / 6)
    assert (times["tensor_s_p50"], times["tensor_s_p99"]) == (3, 6)
    lanes = times["tensor_by_lane"]
    assert [(one["lane"], one["priority"], one["s"], one["s_p99"]) for one in lanes] == [(0, 7, 2, 3), (1, 5, 5, 6)]
    assert times["tensor_missing_max"] == 0.01
    assert tensor_times([worker([], [], [])], 2) == {}


def test_the_report_shows_lanes_and_drops() -> None:
    steps = [[tensor(0.25)], [tensor(0.25)], [tensor(0.125), tensor(0.5, 1)]]
    drops = {"link_priorities": {"1": 12}, "queue_classes": {"3 drop": 40}}
    result = SystemResult("dlcp", (worker(*steps), worker(*steps, followed=2)), 3.0, {"drops": drops})
    entry = system_summary(result, DIGITS)
    assert (entry["missing"], entry["probes"], entry["followed"]) == (8, 4, [0, 1])
    options = RunOptions(workers=2, systems=("dlcp",), conditions=Conditions(loss=0.01))
    summary = run_summary(options, "soft", [result])
    assert summary["laned"]["loss_bound"] == 0.01
    assert summary["conditions"]["loss"] == 0.01
    text = report.table(summary)
    assert "0, 7" in text
    assert "1 12" in text
    assert "3 drop 40" in text
    assert '<h2 id="lanes">Lanes</h2>' in render.page(summary, [result])
    json.dumps(summary)


def test_other_systems_say_nothing_of_lanes() -> None:
    record = worker([], [], [])
    record.stats = {}
    summary = run_summary(RunOptions(systems=("thc",)), "soft", [SystemResult("thc", (record,), 1.0)])
    assert summary["laned"] is None
    assert not {"missing", "followed", "tensor_s"} & set(summary["systems"]["thc"])
    assert report.lane_rows(summary) == []


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("thc-bounded", {"quorum": 2, "loss_bound": 0.01, "divisor": "contributors"}),
        ("thc-bounded@group", None),
        ("udp-ring", {"priorities": True}),
    ],
)
def test_a_summary_has_the_options_that_apply(system: str, expected: dict[str, Any] | None) -> None:
    quorum = 2 if system == "thc-bounded" else None
    options = RunOptions(systems=(system,), laned=LanedOptions(quorum=quorum))
    assert run_summary(options, "soft", [SystemResult(system, (worker([]),), 1.0)])["laned"] == expected
