# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-sign`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from sumwire_lab.errors import LabError
from sumwire_lab.experiments import marsit_identity
from sumwire_lab.experiments.bias_run import run_bias
from sumwire_lab.experiments.ops_run import run_ops
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check, holds
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Plan
from sumwire_lab.verify.processes import packet_tests, run_tests, without_bmv2
from sumwire_lab.verify.rows import sign as rows

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


def plan(results: Path, say: Say) -> Plan:
    """Sign bits: the identity of Marsit, bias, training and random words on stars and trees of both switches."""
    return Plan(
        "sign",
        {
            "identity": lambda: [rows.identity(marsit_identity.largest_deviation())],
            "bias": lambda: statistics(run_tests([STATISTICS])),
            "digits, soft switch": lambda: _digits(results, say),
            **{f"{topology} with losses": partial(_ops, topology, "soft", IMPAIR, results, say) for topology in TREES},
            "packet tests on bmv2": packet_tests,
            "leaf-spine on bmv2": lambda: _ops_on_bmv2(results, say),
            **{
                f"bias on bmv2, {topology}": partial(_bias_on_bmv2, topology, results, say)
                for topology in BMV2_TOPOLOGIES
            },
            "digits, bmv2": lambda: _digits_on_bmv2(results, say),
        },
    )


def statistics(outcomes: Mapping[str, str]) -> list[Check]:
    """One check per test of `_SHOWS` and one for all other tests. Raises LabError if a test of `_SHOWS` did not run."""
    counts = {name: {"passed": 0, "failed": 0, "skipped": 0} for name in [*_SHOWS, ""]}
    for case, outcome in outcomes.items():
        function = case.rpartition("::")[2].partition("[")[0]
        counts[function if function in _SHOWS else ""][outcome] += 1
    gone = [name for name in _SHOWS if not sum(counts[name].values())]
    if gone:
        raise LabError(f"{STATISTICS} has no test {', '.join(gone)}")
    labels = {**_SHOWS, "": f"the other tests in {STATISTICS}"}
    return [rows.tests(labels[name], "all pass", count) for name, count in counts.items()]


def _digits(results: Path, say: Say) -> list[Check]:
    summary, _ = run(RunOptions(systems=SYSTEMS, link=LINK, train=TRAIN, switch="soft"), results, say)
    return rows.digits(summary, f"digits, 4 workers, {LINK.mbit:g} Mbit/s, soft switch")


def _ops(topology: str, switch: str, impair: str | None, results: Path, say: Say) -> list[Check]:
    options = RunOptions(workers=TREE_WORKERS, topology=topology, switch=switch, impair=impair)
    return rows.ops(run_ops(options, results, say))


def _ops_on_bmv2(results: Path, say: Say) -> list[Check]:
    absent = without_bmv2("leaf-spine on bmv2: every op", "as computed, equal on all workers")
    return absent or _ops("leaf-spine", "bmv2", None, results, say)


def _bias_on_bmv2(topology: str, results: Path, say: Say) -> list[Check]:
    label = f"bias test, n = 2..16, {topology}, bmv2"
    absent = without_bmv2(label, rows.BIAS_TARGET)
    return absent or rows.bias(label, run_bias(topology, "bmv2", results, say))


def _digits_on_bmv2(results: Path, say: Say) -> list[Check]:
    label = "digits, bmv2"
    absent = without_bmv2(label, "replicas bit-equal, no fall-back")
    if absent:
        return absent
    summary, _ = run(RunOptions(systems=BMV2_SYSTEMS, link=LINK, train=TRAIN, switch="bmv2"), results, say)
    systems = summary["systems"]
    accuracies = {name: entry["accuracy"] for name, entry in systems.items()}
    return [
        rows.replicas(systems, label),
        rows.bits(systems["marsit100"], label),
        holds(f"{label}: test accuracy", accuracies, ">= 0.96 each", min(accuracies.values()) >= 0.96),
    ]
