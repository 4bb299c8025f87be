# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-sign`: runs every check of sign bits and trees that one machine can make, and says what holds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from sumwire_lab.errors import LabError
from sumwire_lab.experiments import marsit_identity as identity
from sumwire_lab.experiments.bias_run import run_bias
from sumwire_lab.experiments.ops_run import run_ops
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.experiment import Say
from sumwire_lab.run.training_run import run
from sumwire_lab.verify.plan import Verification, packet_tests, run_tests, without_bmv2
from sumwire_lab.verify.rows import sign as sign_checks
from sumwire_lab.verify.rows.thc import Check

SYSTEMS: Final = ("gloo", "marsit", "marsit100", "vote")
BMV2_SYSTEMS: Final = ("marsit", "marsit100", "vote")
# Where 37 packets of signs take 32 ms: at higher rates latency would be measured, not the bytes.
LINK: Final = LinkOptions(10.0)
# The smaller model, for that rate.
TRAIN: Final = TrainOptions(hidden=512, batch=64, epochs=20)
TREE_WORKERS: Final = 8
IMPAIR: Final = "drop=0.01,seed=7"
TREES: Final = ("leaf-spine", "leaf-spine2", "three-level")
STATISTICS: Final = "tests/statistics"
# Function of a test -> what its cases show together.
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


def verify(results: Path, say: Say) -> list[Check]:
    """All checks; one that fails does not stop the others. Writes verify-sign.json. Raises KeyboardInterrupt."""
    rows = Verification(results / "verify-sign.json", say)
    rows.add("identity", lambda: [sign_checks.identity(identity.largest_deviation())])
    rows.add("bias", lambda: statistics(run_tests([STATISTICS])))
    rows.add("digits, soft switch", lambda: _digits(results, say))
    for topology in TREES:
        rows.add(f"{topology} with losses", partial(_ops, topology, "soft", IMPAIR, results, say))
    rows.add("packet tests on bmv2", packet_tests)
    rows.add("leaf-spine on bmv2", lambda: _ops_on_bmv2(results, say))
    for topology in ("star", "leaf-spine"):
        rows.add(f"bias on bmv2, {topology}", partial(_bias_on_bmv2, topology, results, say))
    rows.add("digits, bmv2", lambda: _digits_on_bmv2(results, say))
    return rows.done


def statistics(outcomes: Mapping[str, str]) -> list[Check]:
    """A row for each of the known tests, and one for all others together. Raises LabError where a known one is gone."""
    counts = {name: {"passed": 0, "failed": 0, "skipped": 0} for name in [*_SHOWS, ""]}
    for case, outcome in outcomes.items():
        function = case.rpartition("::")[2].partition("[")[0]
        counts[function if function in _SHOWS else ""][outcome] += 1
    gone = [name for name in _SHOWS if not sum(counts[name].values())]
    if gone:
        raise LabError(f"{STATISTICS} has no test {', '.join(gone)}")
    labels = {**_SHOWS, "": f"the other tests in {STATISTICS}"}
    return [sign_checks.tests(labels[name], "all pass", count) for name, count in counts.items()]


def _digits(results: Path, say: Say) -> list[Check]:
    summary, _ = run(RunOptions(systems=SYSTEMS, link=LINK, train=TRAIN, switch="soft"), results, say)
    return sign_checks.digits(summary, f"digits, 4 workers, {LINK.mbit:g} Mbit/s, soft switch")


def _ops(topology: str, switch: str, impair: str | None, results: Path, say: Say) -> list[Check]:
    options = RunOptions(workers=TREE_WORKERS, topology=topology, switch=switch, impair=impair)
    return sign_checks.ops(run_ops(options, results, say))


def _ops_on_bmv2(results: Path, say: Say) -> list[Check]:
    absent = without_bmv2("leaf-spine on bmv2: every op", "as computed, equal on all workers")
    return absent or _ops("leaf-spine", "bmv2", None, results, say)


def _bias_on_bmv2(topology: str, results: Path, say: Say) -> list[Check]:
    label = f"bias test, n = 2..16, {topology}, bmv2"
    absent = without_bmv2(label, sign_checks.BIAS_TARGET)
    return absent or sign_checks.bias(label, run_bias(topology, "bmv2", results, say))


def _digits_on_bmv2(results: Path, say: Say) -> list[Check]:
    label = "digits, bmv2"
    absent = without_bmv2(label, "replicas bit-equal, no fall-back")
    if absent:
        return absent
    summary, _ = run(RunOptions(systems=BMV2_SYSTEMS, link=LINK, train=TRAIN, switch="bmv2"), results, say)
    systems = summary["systems"]
    accuracies = {name: entry["accuracy"] for name, entry in systems.items()}
    return [
        sign_checks.replicas(systems, label),
        sign_checks.bits(systems["marsit100"], label),
        Check(f"{label}: test accuracy", accuracies, ">= 0.96 each", min(accuracies.values()) >= 0.96),
    ]
