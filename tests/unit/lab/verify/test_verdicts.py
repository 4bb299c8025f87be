# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Verdicts of the verify commands, from numbers on both sides of their targets: a line for each measurement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sumwire_lab.experiments import loopback as loopback_losses
from sumwire_lab.experiments.acp_modelled import ACP, FUSION_MODE, MODES, POWER, SYSTEMS, Sweep
from sumwire_lab.experiments.digits_accuracy import NO_FEEDBACK, NO_REUSE, SSGD, VARIANTS
from sumwire_lab.experiments.overload import Overload
from sumwire_lab.experiments.spines import Failover, Spread
from sumwire_lab.study.check import Check
from sumwire_lab.verify import (
    acp,
    dlcp,
    entry_points,
    papers_acp,
    papers_marsit,
    papers_thc,
    plan,
    security,
    sign,
    speed,
    thc,
)
from sumwire_lab.verify.plan import Ended

Y, N = True, False
RUN: dict[str, Any] = {
    "accuracy": 0.97,
    "comm_s_per_step": 1.0,
    "time_to_target_s": 10.0,
    "replicas_equal": True,
    "fallbacks": 0,
    "retransmissions": 3,
    "fingerprints": ["a", "a"],
}


def systems(**entries: dict[str, Any]) -> dict[str, Any]:
    return {"systems": {name: RUN | entry for name, entry in entries.items()}}


def flooded(**changes: Any) -> dict[str, Any]:
    base = {"sent": {"length": 6, "op": 4}, "counted": {"length": 6, "op": 4, "job": 0}}
    return RUN | {"malformed": {**base, "all_sent_during_training": True, **changes}}


REFERENCE = {"workers": 4, "steps": 20, "largest_difference": 1e-12, "target": 1e-9, "replicas_equal": True}
STEPS: dict[str, float | None] = {"gloo": 4.07, "powersgd": 1.44, "acp": 1.0}
NAMES = {"acp": "acp", "gloo": "gloo", "powersgd": "powersgd"}
NETWORK = {"forged": 1000, "wanted": 1000, "wrong": 0, "ended": 0}
HOSTILE = {"alone_s": 1.0, "beside_s": 1.3, "link_share": 0.9}
PLAYED: dict[str, Any] = {"seeds": 300, "seconds": 10.0, "violations": []}
FLOW: dict[str, Any] = {"seeds": 9, "violations": [], "p_values": {"a": 1e-4, "b": 0.5}, "correlation": -0.01}
LOADED = {"answers_s": {"nothing": 9.0, "1000 silent": 1.0}, "grown_mib": 50.0}
KEYED_TIMES, DEAR = {"plain": 2.0, "keyed": 3.0}, {"plain": 2.0, "keyed": 3.01}
KEYED = {"forged": 9, "switch_us": KEYED_TIMES, "host_us": KEYED_TIMES, "switch_taken": 0, "host_taken": 0}
LINES = {"lines": 3, "gloo": [0.97, 0.96, 0.98], "sumwire": [0.965, 0.96, 0.98], "signs": [0.9, 0.9, 0.9]}
NODES = {"nodes": 8, "ranks": 8, "node": 1000.0, "flat": 8000.0}
LOSSES = {"gloo": [2.0, 2.2], "4bit": [2.0, 2.0], "4bit, parameters 8bit": [2.0, 2.03], loopback_losses.BAD: [2.5, 2.5]}
WHOLE = {"step_s": 0.3, "accuracy": 0.97, "replicas_equal": True}
SOME = {"step_s": 0.1, "accuracy": 0.965, "replicas_equal": True}
SWEEP = {1: 2.0, 4: 1.0, 48: 3.0}
MODELLED = {(one, mode): 1.0 for one in SYSTEMS for mode in MODES}
TRAINED = {SSGD: [0.98, 0.99], **{name: [0.98, 0.98] for name in VARIANTS}}
TRAINED |= {NO_FEEDBACK: [0.96, 0.96], NO_REUSE: [0.99, 0.99]}
GROUP = {papers_acp.USUAL: 1.0, papers_acp.LATE: 1.1, papers_acp.UNFUSED: 1.2}
GROUP |= {papers_acp.SMALL: 0.5, papers_acp.POWERSGD: 0.65}


def overload(dropped: list[int], received: list[int]) -> list[Check]:
    return dlcp.overload_checks(Overload([100] * 4, dropped, [0] * 4, received, 0))


def spines(rate: float, first: float) -> list[Check]:
    spread = Spread("slot", 1.0, rate, [first, 1 - first])
    return dlcp.spines_checks({"one spine": Spread("one", 1.0, 10.0, [1.0]), "slot": spread, "hash": spread})


def lossy(comm: float = 1.0, known_bad: float = 0.9, **changes: Any) -> list[Check]:
    clean = {"comm_s_per_step_p99": 1.0, "accuracy": 0.98, "replicas_equal": True, "fallbacks": 0}
    return dlcp.lossy_checks("bounded", clean, {**clean, "comm_s_per_step_p99": comm, **changes}, 1.1, known_bad)


def trimming(cut: float, dropped: float) -> list[Check]:
    found = ({"nmse": 1 - one, "accuracy": one} for one in (cut, dropped))
    return dlcp.trimming_checks(*found, 0.85)


def congested(gloo: float | None, with_dlcp: float | None) -> list[Check]:
    times = {"gloo": gloo, "thc": 13.0, "dlcp": with_dlcp}
    return dlcp.congested_checks({name: RUN | {"time_to_target_s": one} for name, one in times.items()})


def tree(received: int, same: bool = True) -> list[Check]:
    """Each leaf sends the root one sum for all of its workers."""
    flat, below = ({way: {"received": taken} for way in ("exact", "thc")} for taken in (8000, received))
    about = {"workers": 8, "leaves": 2, "values": 9, "same": {"exact": same, "thc": True}}
    return entry_points.tree_checks({**about, "flat": flat, "tree": below})


def of_tests(*outcomes: str) -> Check:
    return plan.tests_check("x", "y", {f"test{k}": one for k, one in enumerate(outcomes)})


def loopback(with_thc: float, auto: float) -> list[Check]:
    ratios = {"thc": with_thc, "auto": auto}
    rows = [{"system": name, "speed_up": ratio, "by_group": 0.0} for name, ratio in ratios.items()]
    return speed.loopback_checks(rows)


def made_run(switch: str, engine: str | None, mbit: float) -> list[Check]:
    return speed.engine_checks({"switch": switch, "engine": engine, "link_mbit": mbit})


@pytest.mark.parametrize(
    ("checks", "verdicts"),
    [
        # verify-thc
        (plan.speed(systems(gloo={"comm_s_per_step": 5.0, "time_to_target_s": 40.0}, thc={}), "x"), [Y, Y]),
        (plan.speed(systems(gloo={"comm_s_per_step": 4.9, "time_to_target_s": 39.0}, thc={}), "x"), [N, N]),
        (plan.speed(systems(gloo={}, thc={"time_to_target_s": None}), "never reached"), [N, N]),
        (plan.accuracy_checks("x", RUN | {"accuracy": 0.975}, RUN, 0.95), [Y, Y]),
        (plan.accuracy_checks("x", RUN, RUN | {"accuracy": 0.9751}, 0.9749), [N, N]),
        (plan.accuracy_checks("x", RUN | {"accuracy": 0.959}, RUN | {"accuracy": 0.961}, 0.959), [N, Y]),
        (plan.accuracy_checks("x", RUN | {"replicas_equal": False}, RUN, 0.95), [N, Y]),
        (thc.impaired_checks(RUN, RUN, "drop=0.01", 0.95), [Y] * 5),
        (thc.impaired_checks(RUN, RUN, "drop=0.01", 0.97), [Y, N, Y, Y, Y]),
        (thc.impaired_checks(RUN | {"fallbacks": 1}, RUN, "drop=0.01", 0.95), [Y, Y, N, Y, Y]),
        (thc.impaired_checks(RUN | {"retransmissions": 0}, RUN, "drop=0.01", 0.95), [Y, Y, Y, Y, N]),
        (thc.malformed_checks(flooded(), RUN, 10), [Y, Y, Y]),
        (thc.malformed_checks(flooded(all_sent_during_training=False), RUN, 10), [N, Y, Y]),
        (thc.malformed_checks(flooded(counted={"length": 5, "op": 4}), RUN, 10), [Y, N, Y]),
        (thc.malformed_checks(flooded(counted={"length": 6, "op": 4, "job": 1}), RUN, 10), [Y, N, Y]),
        (thc.malformed_checks({**flooded(), "fingerprints": ["a", "b"]}, RUN, 10), [Y, Y, N]),
        (thc.malformed_checks({**flooded(), "fallbacks": 1}, RUN, 10), [Y, Y, N]),
        (thc.oracle_checks([("a", 1.029, 1.0), ("b", 0.96, 1.0), ("c", 2.0, 2.0)]), [Y, N, Y]),
        # Each form of the codec has a target of its own; a machine without a compiler has the slower one.
        *((plan.codec({"form": "native", "cpu_median_ms": ms}), [verdict]) for ms, verdict in ((2.0, Y), (2.01, N))),
        *((plan.codec({"form": "torch", "cpu_median_ms": ms}), [verdict]) for ms, verdict in ((40.0, Y), (40.1, N))),
        # verify-sign, verify-speed
        (sign.identity_check(1e-13), [Y]),
        (sign.identity_check(1e-9), [N]),
        (loopback(0.7, 0.95), [Y, Y, Y]),
        (loopback(0.69, 0.95), [N, Y, Y]),
        (loopback(0.7, 0.94), [Y, N, Y]),
        (speed.aggregator_checks(0.6), [Y, Y]),
        (speed.aggregator_checks(0.61), [N, Y]),
        (speed.bmv2_run_checks(systems(gloo={"comm_s_per_step": 0.56}, thc={"comm_s_per_step": 0.2})), [Y]),
        (speed.bmv2_run_checks(systems(gloo={"comm_s_per_step": 0.56}, thc={"comm_s_per_step": 0.201})), [N]),
        (speed.bmv2_run_checks(systems()), [N]),
        (made_run("soft", "native", 100.0), [Y, Y]),
        (made_run("soft", "python", 100.0), [None, Y]),
        (made_run("bmv2", None, 10.0), [N, N]),
        # verify-acp
        (acp.reference_checks(REFERENCE), [Y, Y]),
        (acp.reference_checks(REFERENCE | {"largest_difference": 2e-9}), [N, Y]),
        (acp.reference_checks(REFERENCE | {"replicas_equal": False}), [Y, N]),
        (acp.step_checks("t", STEPS, **NAMES), [Y, Y, Y]),
        (acp.step_checks("t", STEPS | {"gloo": 4.05}, **NAMES), [N, Y, Y]),
        (acp.step_checks("t", STEPS | {"powersgd": 1.42}, **NAMES), [Y, N, Y]),
        (acp.step_checks("t", STEPS | {"acp": None}, **NAMES), [N, N, N]),
        (acp.aggregator_checks(systems(gloo={"comm_s_per_step": 4.1}, thc={}), "a"), [Y, Y]),
        (acp.aggregator_checks(systems(gloo={"comm_s_per_step": 3.9}, thc={}), "a"), [N, Y]),
        (acp.aggregator_checks(systems(gloo={"comm_s_per_step": 4.1}, thc={"fallbacks": 1}), "a"), [Y, N]),
        # verify-dlcp
        (overload([0, 0, 2, 38], [100, 100, 98, 62]), [Y, Y, Y]),
        (overload([0, 0, 3, 37], [100, 100, 97, 63]), [N, Y, Y]),
        (overload([1, 0, 0, 99], [99, 100, 100, 1]), [Y, N, Y]),
        (overload([0, 0, 0, 40], [100, 100, 100, 59]), [Y, Y, N]),
        (dlcp.contention_checks({"alike": 3.0, "one": 2.9, "priorities": 2.0}), [Y, N]),
        (spines(18.0, 0.53), [Y, Y] * 2),
        (spines(17.9, 0.54), [N, N] * 2),
        (dlcp.failover_checks(Failover(0.1, 0.9, 0.4, ["a", "a"], 0)), [Y, Y, Y]),
        (dlcp.failover_checks(Failover(0.1, 1.1, 1.4, ["a", "b"], 0)), [N, N, N]),
        (lossy(1.1), [Y] * 5),
        (lossy(known_bad=0.976), [Y, Y, N, Y, Y]),
        (lossy(1.11), [N, Y, Y, Y, Y]),
        (lossy(accuracy=0.974), [Y, N, Y, Y, Y]),
        (lossy(replicas_equal=False), [Y, Y, Y, N, Y]),
        (lossy(fallbacks=1), [Y, Y, Y, N, Y]),
        (trimming(0.95, 0.9), [Y, Y, Y]),
        (trimming(0.9, 0.8), [Y, Y, N]),
        (trimming(0.8, 0.9), [N, N, Y]),
        (trimming(0.9, 0.9), [N, N, Y]),
        (congested(80.0, 10.0), [Y] * 6),
        (congested(None, 10.0), [N, *[Y] * 5]),
        (congested(80.0, None), [N, N, N, Y, Y, Y]),
        # verify-trust
        (of_tests("passed", "skipped"), [Y]),
        (of_tests("passed", "failed"), [N]),
        (of_tests("skipped"), [N]),
        (of_tests(), [N]),
        *((plan.command_check("x", "y", Ended(status, "said")), [status == 0]) for status in (0, 1, 139)),
        (security.network_checks(NETWORK), [Y, Y, Y]),
        (security.network_checks(NETWORK | {"forged": 999}), [N, Y, Y]),
        (security.network_checks(NETWORK | {"wrong": 1}), [Y, N, Y]),
        (security.network_checks(NETWORK | {"ended": 1}), [Y, Y, N]),
        (security.hostile_job_checks(HOSTILE), [Y, Y]),
        (security.hostile_job_checks(HOSTILE | {"beside_s": 1.31}), [N, Y]),
        (security.hostile_job_checks(HOSTILE | {"link_share": 0.5}), [Y, N]),
        (security.schedule_checks(PLAYED, 300), [Y, Y, Y]),
        (security.schedule_checks(PLAYED, 301), [N, Y, Y]),
        (security.schedule_checks(PLAYED | {"violations": [{}]}, 300), [Y, N, Y]),
        (security.schedule_checks(PLAYED | {"seconds": 10.1}, 300), [Y, Y, N]),
        (security.flow_checks(FLOW, 9, "honest"), [Y, Y, Y, Y]),
        (security.flow_checks(FLOW | {"seeds": 8}, 9, "honest"), [N, Y, Y, Y]),
        (security.flow_checks(FLOW | {"violations": [{}]}, 9, "honest"), [Y, N, Y, Y]),
        (security.flow_checks(FLOW | {"p_values": {"a": 0.5, "b": 0.9e-4}}, 9, "honest"), [Y, Y, N, Y]),
        (security.flow_checks(FLOW | {"correlation": -0.011}, 9, "honest"), [Y, Y, Y, N]),
        (security.byzantine_check(FLOW, 9), [Y]),
        (security.byzantine_check(FLOW, 10), [N]),
        (security.byzantine_check(FLOW | {"violations": [{}]}, 9), [N]),
        (security.load_test_checks(LOADED), [Y, Y]),
        (security.load_test_checks({"answers_s": {"1000 silent": 1.1}, "grown_mib": 50.1}), [N, N]),
        (security.load_test_checks(None), [N, N]),
        (security.fuzzed_check(9, {"finding": None, "updates": 9}), [Y]),
        (security.fuzzed_check(9, {"finding": "a lie"}), [N]),
        (security.keyed_checks(KEYED), [Y, Y, Y, Y]),
        (security.keyed_checks(KEYED | {"switch_us": DEAR}), [N, Y, Y, Y]),
        (security.keyed_checks(KEYED | {"host_us": DEAR}), [Y, N, Y, Y]),
        (security.keyed_checks(KEYED | {"switch_taken": 1}), [Y, Y, N, Y]),
        (security.keyed_checks(KEYED | {"host_taken": 1}), [Y, Y, Y, N]),
        # verify-ways
        (entry_points.line_checks(LINES), [Y, Y, Y]),
        (entry_points.line_checks(LINES | {"signs": [0.97, 0.96, 0.97]}), [Y, Y, N]),
        (entry_points.line_checks(LINES | {"lines": 4}), [N, Y, Y]),
        (entry_points.line_checks(LINES | {"sumwire": [0.95, 0.96, 0.98]}), [Y, N, Y]),
        (entry_points.line_checks(LINES | {"sumwire": [0.99, 0.96, 0.98]}), [Y, N, Y]),
        (entry_points.node_check(NODES), [Y]),
        (entry_points.node_check(NODES | {"node": 1030.0}), [N]),
        (entry_points.node_check(NODES | {"node": 8000.0}), [N]),
        (entry_points.sharded_loss_checks(LOSSES), [Y, Y]),
        (entry_points.sharded_loss_checks(LOSSES | {loopback_losses.BAD: [2.0, 2.03]}), [Y, N]),
        (entry_points.sharded_loss_checks(LOSSES | {"4bit, parameters 8bit": [2.0, 2.05]}), [N, Y]),
        (tree(2030), [Y] * 6),
        (tree(8000), [Y, N, *[Y] * 4]),
        (tree(2000, same=False), [N, *[Y] * 5]),
        # verify-papers
        (papers_thc.table_checks({2: 0.5, 3: 0.25}, {2: 0.5, 3: 0.25}, 0.1), [Y, Y]),
        (papers_thc.table_checks({2: 0.5, 3: 0.26}, {2: 0.5, 3: 0.25}, 0.1), [N, Y]),
        (papers_thc.uniform_checks({2: 0.9, 3: 1.0}), [Y]),
        (papers_thc.uniform_checks({2: 1.1, 3: 1.0}), [N]),
        (papers_thc.accuracy_checks({2: (0.9, 0.895), 4: (0.9, 0.88)}, 0.85), [Y, N, Y]),
        (papers_thc.accuracy_checks({2: (0.9, 0.895)}, 0.895), [Y, N]),
        (papers_thc.quorum_checks(WHOLE, SOME, 0.95), [Y] * 4),
        (papers_thc.quorum_checks(WHOLE, SOME, 0.965), [Y, Y, N, Y]),
        (papers_thc.quorum_checks(WHOLE, SOME | {"accuracy": 0.9, "replicas_equal": False}, 0.95), [Y, N, Y, N]),
        (papers_thc.rounding_checks({2: 0.018, 8: 0.019}, {2: 0.01, 8: 0.011}, {2: 0.02, 8: 0.02}), [Y] * 4),
        (papers_thc.rounding_checks({2: 0.018, 8: 0.019}, {2: 0.01, 8: 0.019}, {2: 0.02, 8: 0.02}), [N, Y, Y, Y]),
        (papers_thc.unbiased_checks({"ones": ((1.001, 1e-6), (0.985, 1e-6))}), [Y, Y, Y]),
        (papers_thc.unbiased_checks({"ones": ((0.99, 0.1), (0.999, 0.1))}), [N, N, Y]),
        (papers_thc.unbiased_checks({"values": ((1.002, 0.001), (0.985, 0.001))}), [Y, Y, Y]),
        (papers_thc.unbiased_checks({"values": ((1.002, 0.0001), (0.985, 0.1))}), [N, N, Y]),
        (papers_thc.many_checks({18: 0.002, 68: 0.0202}, 0.0227), [Y, Y, Y]),
        (papers_thc.many_checks({18: 0.002, 68: 0.021}, 0.02), [N, N, Y]),
        (papers_marsit.period_checks("SGD", {"S-SGD": 0.98, "K = 1": 0.98, "K = never": 0.965}, [0.6, 0.9]), [Y, Y]),
        (papers_marsit.period_checks("SGD", {"S-SGD": 0.98, "K = 1": 0.98, "K = never": 0.95}, [0.6, 0.97]), [N, N]),
        (papers_marsit.readme_checks([0.97, 0.96], [0.6, 0.9]), [Y, Y]),
        (papers_marsit.readme_checks([0.99, 0.95], [0.6, 0.96]), [N, N]),
        (papers_marsit.ssdm_checks([0.9, 0.89], [0.7, 0.8]), [Y, Y]),
        (papers_marsit.ssdm_checks([0.9, 0.8], [0.7, 0.89]), [N, N]),
        (papers_marsit.ef_sign_checks(4e-4, 0.1, (1.0, 16.0), 10), [Y, Y]),
        (papers_marsit.ef_sign_checks(2e-3, 5e-4, (1.0, 16.0), 10), [N, N]),
        (papers_acp.system_checks(MODELLED | {(POWER, FUSION_MODE): 1.2}), [N, Y, Y]),
        (papers_acp.system_checks(MODELLED | {(POWER, FUSION_MODE): 1.2, (ACP, FUSION_MODE): 0.9}), [Y, Y, Y]),
        (papers_acp.swept_checks(Sweep(SWEEP, chosen=4, chosen_s=1.05)), [Y, Y]),
        (papers_acp.swept_checks(Sweep(SWEEP, chosen=4, chosen_s=1.2)), [N, Y]),
        (papers_acp.trained_checks(TRAINED), [Y, Y, N, Y]),
        (papers_acp.group_checks(GROUP), [N, Y, Y, Y]),
    ],
)
def test_verdicts(checks: Check | Sequence[Check], verdicts: list[bool | None]) -> None:
    found = [checks] if isinstance(checks, Check) else checks
    assert [check.holds for check in found] == verdicts


def test_values_and_words() -> None:
    assert congested(80.0, 10.0)[2].value == pytest.approx(1.3 / 1.84)
    assert "2.4 us" in speed.aggregator_checks(0.6)[0].check
    assert "torch form" in plan.codec({"form": "torch", "cpu_median_ms": 3.0}).check
    assert of_tests("failed").why == "test0"
    assert security.fuzzed_check(9, {"finding": "a lie"}).why == "a lie"
    assert [check.value for check in papers_thc.table_checks({3: 0.26}, {3: 0.25}, 0.1)] == [[3], 0.1]
    assert papers_thc.quorum_checks(WHOLE, SOME, 0.95)[0].value == pytest.approx(3.0)
    assert set(GROUP) == set(papers_acp.COMPARED)
