# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-papers on DLCP, from made-up measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.experiments import tcp_server
from sumwire_lab.experiments.early_forward import EarlyForwardOutcome
from sumwire_lab.experiments.ring_loss import RingLoss, RingOutcome
from sumwire_lab.experiments.tcp_server import TcpServer
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.options.verify_options import VerifyOptions
from sumwire_lab.verify import papers_dlcp, plan
from sumwire_lab.verify.plan import Verification

EQUAL = {"replicas_equal": True}

V = Verification(Path("results"), print, VerifyOptions("papers"))


def cell(chunks: int, p99: float, *means: float, loss: float = 0.01) -> dict[str, Any]:
    return {"round_trip_s": 0.04, "loss": loss, "chunks": chunks, "mean_s": means, "p99_s": [p99, 1.0]}


def holding(checks: list[Any]) -> list[bool | None]:
    return [check.holds for check in checks]


def entry(**classes: int) -> dict[str, Any]:
    return {"drops": {"queue_classes": {name.replace("_", " ")[1:]: n for name, n in classes.items()}}, **EQUAL}


def test_drops_are_of_the_class_to_lose_first_and_never_protected() -> None:
    assert all(holding(papers_dlcp.gradient_drops("x", entry(c3_drop=96, c2_drop=4, c0_mark=1000))))
    assert holding(papers_dlcp.gradient_drops("x", entry(c3_drop=94, c1_drop=6)))[0] is False
    assert holding(papers_dlcp.gradient_drops("x", entry(c3_drop=99, c0_drop=1)))[1] is False
    assert holding(papers_dlcp.gradient_drops("x", entry()))[0] is False, "nothing was dropped, so nothing was shown"


def test_a_mechanism_counts_if_the_step_is_5_percent_longer_without_it() -> None:
    without = {"drops": [1.0, 1.0], "bound": [1.05, 1.05], "priorities": [1.2, 1.4]}
    checks = papers_dlcp.server_checks([1.5, 1.5], [1.0, 1.0], without)
    assert all(holding(checks)) and checks[-1].value == "bound, priorities"
    checks = papers_dlcp.server_checks([1.4], [1.0], {**without, "bound": [1.0]})
    assert checks[0].holds is False and checks[-1].value == "priorities"


def test_a_bound_is_compared_by_mean_and_tail() -> None:
    def run(mean: float, p99: float) -> dict[str, Any]:
        return {"comm_s_per_step": mean, "comm_s_per_step_p99": p99, "retransmissions": 10, **EQUAL}

    checks = papers_dlcp.bounded_checks("x", [run(1.0, 2.0)], [run(0.9, 2.2)], [run(0.8, 1.6)], (1.0, 1.0))
    assert holding(checks) == [True, False, True, True, True, True]
    assert [check.value for check in checks[2:4]] == pytest.approx([1.25, 1.25])
    # A run in which the machine stood still.
    three = [run(1.0, 1.0)] * 3
    checks = papers_dlcp.bounded_checks("x", [run(9.0, 90.0), *three[1:]], [run(1.25, 2.0)] * 3, three, (1.0, 1.0))
    assert [check.value for check in checks[:4]] == pytest.approx([0.8, 0.5, 1.0, 1.0])


def test_the_runs_with_and_without_a_bound_meet_the_same_loss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[RunOptions] = []

    def run(options: RunOptions, *_: Any) -> tuple[dict[str, Any], Path]:
        made.append(options)
        entry = {"comm_s_per_step": 1.0, "comm_s_per_step_p99": 1.0, "retransmissions": 0, **EQUAL}
        return {"systems": {"dlcp": entry}}, tmp_path

    monkeypatch.setattr(plan, "run", run)
    for row in ("loss", "incast"):
        papers_dlcp.EXPERIMENTS[row](V)
    found = [(one.train.seed, one.conditions.loss, one.laned.loss_bound, one.laned.drops) for one in made]
    assert found[:9] == [(k, *side) for k in (1, 2, 3) for side in ((0.01, 0, True), (0.01, 0.03, True), (0, 0, True))]
    assert found[9:] == [(k, 0, *side) for k in (1, 2, 3) for side in ((0, True), (0.05, True), (0, False))]


def test_nothing_is_lost_in_any_simulated_job() -> None:
    assert all(holding(papers_dlcp.conserved_checks({"seeds": 9, "violations": []}, 9)))
    violations = [{"seed": 1, "text": f"at 3 s: {text}"} for text in (f"{papers_dlcp.WRONG_SUM}9, not 8", "it hangs")]
    found = papers_dlcp.conserved_checks({"seeds": 8, "violations": violations}, 9)
    assert holding(found) == [False, False, True] and [check.value for check in found] == [8, 1, 1]


def test_early_forward_gains_with_equal_parameters() -> None:
    found = papers_dlcp.early_forward_checks(EarlyForwardOutcome([1.2, 1.2, 9.0], [1.0, 1.0, 1.0], [1.2], equal=True))
    assert all(holding(found))
    # One turn that was disturbed does not count.
    assert [check.value for check in found[:2]] == pytest.approx([1.2, 1.0])
    found = papers_dlcp.early_forward_checks(EarlyForwardOutcome([1.1], [1.0], [0.6], equal=False))
    assert holding(found) == [False, True, False]


def test_sides_differ_in_one_mechanism_and_go_through_the_seeds_in_turn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[RunOptions] = []

    def run(options: RunOptions, *_: Any) -> tuple[dict[str, Any], Path]:
        made.append(options)
        return {"systems": {options.systems[0]: {"step_s": 1.0}}}, tmp_path

    monkeypatch.setattr(plan, "run", run)
    papers_dlcp.EXPERIMENTS["server"](V)
    assert [one.train.seed for one in made] == [1] * 5 + [2] * 5 + [3] * 5
    assert all(one.server and one.conditions.background == 1.3 for one in made)
    thc, dlcp, *others = made[:5]
    assert (thc.systems, dlcp.systems) == (("thc",), ("dlcp",))
    whole = dlcp.laned.as_dict()
    assert [{k for k, v in one.laned.as_dict().items() if v != whole[k]} for one in others] == [
        {"drops"}, {"loss_bound"}, {"priorities"},
    ]  # fmt: skip


def test_other_transports_carry_the_same_gradients_in_the_same_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[RunOptions] = []
    over_tcp: list[tuple[TcpServer, RunOptions]] = []

    def run(options: RunOptions, *_: Any) -> tuple[dict[str, Any], Path]:
        made.append(options)
        entry = {
            "comm_s_per_step": 3.0 if options.laned.trims else 2.0,
            "parameters": 5000,
            "drops": {"queue_classes": {"3 drop": 2, "3 trim": 6, "2 trim": 1}},
        }
        return {"systems": {"dlcp": entry}}, tmp_path

    def tcp(job: TcpServer, options: RunOptions, *_: Any) -> list[float]:
        over_tcp.append((job, options))
        return [4.0, 8.0]

    monkeypatch.setattr(plan, "run", run)
    monkeypatch.setattr(papers_dlcp, "run_tcp_server", tcp)
    monkeypatch.setattr(tcp_server, "known_controls", lambda: ["cubic", "bbr"])
    found = papers_dlcp.EXPERIMENTS["transports"](V)
    assert [check.value for check in found] == [1.5, *[3.0] * 4, [7, 7, 7]]
    assert [one.train.seed for one in made] == [1, 1, 2, 2, 3, 3]
    each = [(control, tag) for control in ("cubic", "bbr") for tag in (None, tcp_server.FRONT)]
    assert [(job.control, job.tag) for job, _ in over_tcp] == each * 3
    assert all(job.values == 5000 for job, _ in over_tcp)
    assert [options for _, options in over_tcp] == [one for one in made if not one.laned.trims for _ in each]
    assert {(one.laned.trims, one.laned.priorities) for one in made} == {(False, True), (True, False)}


def test_a_ring_keeps_its_bound_and_its_bits() -> None:
    seconds = {"gloo": [3.0, 3.0], "udp-ring": [1.0, 2.0], "dlcp-ring": [1.0, 1.0]}
    options = RingLoss(bound=0.03)

    def checks(equal: bool = True, missing: float = 0.03, off: float = 0.0) -> list[Any]:
        return papers_dlcp.ring_checks(options, RingOutcome(seconds, equal, missing, {"udp-ring": 5}, off))

    assert holding(checks())[:3] == [True, True, True]
    assert [check.value for check in checks()[3:]] == [1.5, 3.0, {"udp-ring": 5}]
    assert holding(checks(equal=False))[0] is False
    assert holding(checks(off=1.0))[1] is False
    assert holding(checks(missing=0.031))[2] is False


def test_a_bound_may_cost_no_time_anywhere() -> None:
    fine = [cell(20, 1.2, 1.1, 1.0), cell(500, 1.0, 1.3, 1.0)]
    checks = papers_dlcp.grid_checks(
        [*fine, cell(20, 1.0, 0.99, 1.0, loss=0.001), cell(500, 1.0, 1.0, 1.0, loss=0.001)]
    )
    assert holding(checks) == [True, True, True]
    assert "0.1% lost, 20 chunks" in checks[0].check
    assert "mean, 40 ms, 20, 500 chunks" in checks[1].check
    assert [one.value for one in checks[1:]] == [
        {"1.0%": [1.1, 1.3], "0.1%": [0.99, 1.0]},
        {"1.0%": [1.2, 1.0], "0.1%": [1.0, 1.0]},
    ]
    assert holding(papers_dlcp.grid_checks([cell(20, 1.2, 0.97, 1.0)]))[0] is False
