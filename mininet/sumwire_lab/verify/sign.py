# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-sign`: the experiments and checks for every number promised for sign bits and trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from sumwire.multihop.statistics import BIAS_MAX, SignStatistics

from sumwire_lab.errors import LabError
from sumwire_lab.experiments import closed_forms, signs_alone
from sumwire_lab.experiments.random_words import run_ops
from sumwire_lab.experiments.sign_bias import run_bias
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.results import ratio
from sumwire_lab.study.check import Check, absent, at_least, at_most, holds, must_fail
from sumwire_lab.verify.plan import (
    ACCURACY_MIN,
    ROUNDING,
    Experiment,
    Experiments,
    Verification,
    needs_bmv2,
    packet_tests,
    run_tests,
)

IDENTITY_MAX: Final = 1e-10
COMM_RATIO_MIN: Final = 30.0
ACCURACY_GAP_MAX: Final = 0.01
BIAS_TARGET: Final = f"<= {BIAS_MAX:.4g}, and no single value beyond its threshold"
# 1.317 of signs and numbers in whole packets, 0.005 of the packets that compare whether all gradients are finite, and
# 0.014, in this short run, of what ranks tell each other by TCP every second.
BITS_MAX: Final = 1.34
# How far, in standard deviations, the fraction of signs taken from one worker may be from 1/n.
SHARE_SIGMAS: Final = 5.0


def identity_check(deviation: float) -> Check:
    """Check the largest distance of x - mean(compensation) from the uncompressed training."""
    label = "identity: x - mean(compensation) against uncompressed SGD, float64, largest difference"
    return at_most(label, deviation, IDENTITY_MAX)


def digits_checks(summary: Mapping[str, Any], label: str, known_bad: float) -> list[Check]:
    """Check a run of gloo, Marsit without and with full precision, and majority vote. ``known_bad``: the accuracy of
    `signs_alone`."""
    systems = summary["systems"]
    speed = at_least(
        f"{label}: communication time per step, gloo / Marsit (K = never)",
        ratio(dict(summary), "comm_s_per_step", "marsit"),
        COMM_RATIO_MIN,
    )
    return [
        speed,
        accuracy_check(systems, label),
        must_fail(signs_alone.NAME, accuracy_check({**systems, "marsit100": {"accuracy": known_bad}}, label)),
        bits_check(systems["marsit100"], label),
        replicas_check(systems, label),
    ]


def accuracy_check(systems: Mapping[str, Any], label: str) -> Check:
    """Check Marsit-100 against S-SGD. The accuracies of Marsit without full precision and of majority vote are only
    reported."""
    values = {name: systems[name]["accuracy"] for name in ("marsit100", "gloo", "marsit", "vote")}
    gap = values["gloo"] - values["marsit100"]
    return holds(
        f"{label}: test accuracy of Marsit-100, of S-SGD (gloo); Marsit (K = never) and majority vote beside them",
        values,
        "Marsit-100 not more than 1 point below S-SGD",
        gap <= ACCURACY_GAP_MAX + ROUNDING,
    )


def accuracies_check(accuracies: Mapping[str, float], label: str) -> Check:
    """Check test accuracies by system, without S-SGD's."""
    least = min(accuracies.values())
    return holds(f"{label}: test accuracy", dict(accuracies), f">= {ACCURACY_MIN:g} each", least >= ACCURACY_MIN)


def bits_check(marsit100: Mapping[str, Any], label: str) -> Check:
    """Check bits per value on the wire; the larger of both directions counts."""
    up, down = marsit100["payload_bits_per_value_up"], marsit100["payload_bits_per_value_down"]
    return holds(
        f"{label}: bits per value on the wire, Marsit-100, headers aside, up and down",
        [up, down],
        f"<= {BITS_MAX:g} each",
        max(up, down) <= BITS_MAX,
    )


def replicas_check(systems: Mapping[str, Any], label: str) -> Check:
    """Check that in every system all workers end with bit-equal parameters, and none fell back."""
    equal = {name: bool(entry["replicas_equal"]) for name, entry in systems.items()}
    stayed = all(entry.get("fallbacks", 0) == 0 for entry in systems.values())
    return holds(
        f"{label}: replicas bit-equal, no fall-back", equal, "true for every system", all(equal.values()) and stayed
    )


def ops_checks(record: Mapping[str, Any]) -> list[Check]:
    """Check random words through every op.

    Ops other than SIGN must return the golden model's words. SIGN must return the same signs to all workers, each of
    them sent by a worker, and take the same fraction of them from every worker.
    """
    label = f"{record['topology']}, {record['workers']} workers, {record['switch']} switches"
    label += f", {record['impair']} on every port" if record["impair"] else ", no losses"
    by_op = record["ops"]
    exact = {op: bool(entry["right"] and entry["equal"]) for op, entry in by_op.items() if op != "sign"}
    sign = by_op["sign"]
    values = record["chunks"] * record["sign_values"]
    limit = SHARE_SIGMAS / values**0.5
    rows = [
        holds(
            f"{label}: bit-equal to the golden model on all workers", exact, "true for every op", all(exact.values())
        ),
        holds(
            f"{label}: SIGN equal on all workers, and every sign one that a worker sent",
            [bool(sign["equal"]), bool(sign["right"])],
            "true",
            bool(sign["equal"] and sign["right"]),
        ),
        holds(
            f"{label}: SIGN takes from every worker 1 / {record['workers']} of the signs, largest error",
            sign["worst_share_error"],
            f"<= {limit:.4g} ({SHARE_SIGMAS:g} standard deviations)",
            sign["worst_share_error"] <= limit,
        ),
    ]
    if record["impair"]:
        lost = record["retransmissions"]
        rows.append(holds(f"{label}: retransmissions", lost, "> 0: losses did happen", lost > 0))
    return rows


def bias_checks(label: str, outcomes: Sequence[SignStatistics]) -> list[Check]:
    """Check the bias test of sumwire.multihop.statistics, one outcome per number of workers."""
    worst = max(outcome.pooled_bias for outcome in outcomes)
    correlated = [outcome.workers for outcome in outcomes if not outcome.uncorrelated]
    return [
        holds(
            f"{label}: largest bias of a pattern of signs",
            worst,
            BIAS_TARGET,
            all(outcome.unbiased for outcome in outcomes),
        ),
        holds(
            f"{label}: numbers of workers with correlated values or rounds",
            correlated,
            "none",
            not correlated,
            why="" if not correlated else str(max(outcomes, key=lambda outcome: outcome.correlation_z)),
        ),
    ]


def tests_check(label: str, target: str, counts: Mapping[str, int]) -> Check:
    """Check a group of tests: all ran and passed. If some were skipped and none failed, the check is undecided."""
    if not counts["failed"] and counts["skipped"]:
        return absent(label, target, "skipped: this machine lacks what they need", value=dict(counts))
    return holds(label, dict(counts), target, counts["passed"] > 0 and not counts["failed"])


SYSTEMS: Final = ("gloo", "marsit", "marsit100", "vote")
BMV2_SYSTEMS: Final = ("marsit", "marsit100", "vote")
# 37 packets of signs take 32 ms at this rate. At higher rates latency, not bandwidth, would be measured.
LINK: Final = LinkOptions(10.0)
# A smaller model, for the low rate.
TRAIN: Final = TrainOptions(hidden=512, batch=64, epochs=20)
TREE_WORKERS: Final = 8
IMPAIR: Final = "drop=0.01,seed=7"
TREES: Final = ("leaf-spine", "leaf-spine2", "three-level")
BMV2_TOPOLOGIES: Final = ("star", "leaf-spine")
STATISTICS: Final = "tests/statistics"
# Name of a test function -> label of the check that all its cases make together.
_SHOWS: Final[Mapping[str, str]] = {
    "test_one_switch": "bias test, n = 2..16, one switch",
    "test_leaf_spine": "bias test, n = 2..16, leaf-spine",
    "test_three_levels": "bias test, three levels",
    "test_ring": "bias test, n = 2..16, ring",
    "test_torus": "bias test, n = 4..16, torus",
    "test_every_single_value_is_within_the_target": "bias of every single value, ring and torus",
    "test_half_weight_fails": "weight 1/2 in rings and tori: the bias test fails",
    "test_half_weight_of_three_workers_fails": "weight 1/2 with 3 workers: the bias test fails",
    "test_half_weight_in_a_switch_fails": "weight 1/2 in a switch and in a tree: the bias test fails",
}


def statistics_checks(outcomes: Mapping[str, str]) -> list[Check]:
    """Return one check per test of `_SHOWS` and one for all other tests. Raises LabError if a test of `_SHOWS` did not
    run."""
    counts = {name: {"passed": 0, "failed": 0, "skipped": 0} for name in [*_SHOWS, ""]}
    for case, outcome in outcomes.items():
        function = case.rpartition("::")[2].partition("[")[0]
        counts[function if function in _SHOWS else ""][outcome] += 1
    gone = [name for name in _SHOWS if not sum(counts[name].values())]
    if gone:
        raise LabError(f"{STATISTICS} has no test {', '.join(gone)}")
    labels = {**_SHOWS, "": f"the other tests in {STATISTICS}"}
    return [tests_check(labels[name], "all pass", count) for name, count in counts.items()]


def _digits(v: Verification) -> list[Check]:
    summary = v.summary(RunOptions(systems=SYSTEMS, link=LINK, train=TRAIN, switch="soft"))
    return digits_checks(summary, f"digits, 4 workers, {LINK.mbit:g} Mbit/s, soft switch", signs_alone.accuracy(TRAIN))


def _ops(topology: str, switch: str, impair: str | None, v: Verification) -> list[Check]:
    options = RunOptions(workers=TREE_WORKERS, topology=topology, switch=switch, impair=impair)
    return ops_checks(run_ops(options, v.results, v.say))


@needs_bmv2("leaf-spine on bmv2: every op", "as computed, equal on all workers")
def _ops_on_bmv2(v: Verification) -> list[Check]:
    return _ops("leaf-spine", "bmv2", None, v)


def _bias_on_bmv2(topology: str) -> Experiment:
    label = f"bias test, n = 2..16, {topology}, bmv2"
    return needs_bmv2(label, BIAS_TARGET)(lambda v: bias_checks(label, run_bias(topology, "bmv2", v.results, v.say)))


@needs_bmv2("digits, bmv2", "replicas bit-equal, no fall-back")
def _digits_on_bmv2(v: Verification) -> list[Check]:
    label = "digits, bmv2"
    systems = v.summary(RunOptions(systems=BMV2_SYSTEMS, link=LINK, train=TRAIN, switch="bmv2"))["systems"]
    accuracies = {name: entry["accuracy"] for name, entry in systems.items()}
    return [
        replicas_check(systems, label),
        bits_check(systems["marsit100"], label),
        accuracies_check(accuracies, label),
        must_fail(signs_alone.NAME, accuracies_check({"signs": signs_alone.accuracy(TRAIN)}, label)),
    ]


EXPERIMENTS: Final[Experiments] = {
    "identity": lambda _: [identity_check(closed_forms.largest_deviation())],
    "bias": lambda _: statistics_checks(run_tests([STATISTICS])),
    "digits, soft switch": _digits,
    **{f"{topology} with losses": partial(_ops, topology, "soft", IMPAIR) for topology in TREES},
    "packet tests on bmv2": packet_tests,
    "leaf-spine on bmv2": _ops_on_bmv2,
    **{f"bias on bmv2, {topology}": _bias_on_bmv2(topology) for topology in BMV2_TOPOLOGIES},
    "digits, bmv2": _digits_on_bmv2,
}
