# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of `make verify-dlcp` out of what was measured. Pure: every number comes in, a verdict goes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sumwire_lab.experiments.failover import Failover
from sumwire_lab.experiments.overload import LOAD, Overload
from sumwire_lab.experiments.spines import HASH, ONE, SLOT, Spread
from sumwire_lab.verify.rows.thc import ACCURACY_GAP_MAX, ROUNDING, Check, at_least, at_most

FIRST_SHARE_MIN: Final = 0.95
CONTENTION_MIN: Final = 1.5
SPINES_MIN: Final = 1.8
SPREAD_TOLERANCE: Final = 0.03
STALL_MAX_S: Final = 1.0
BOUNDED_MAX: Final = 1.1
RELIABLE_MAX: Final = 1.5
STRAGGLER_MAX: Final = 1.3
GLOO_MIN: Final = 8.0
THC_MIN: Final = 1.3
# MLT's and DLCP's largest gain over their own baselines: 84.3 % faster training (DLCP, abstract).
PAPER_BEST: Final = 1.84


def overload(outcome: Overload) -> list[Check]:
    """More load than the link takes."""
    label = f"offered load {LOAD:g} x a link"
    large = outcome.dropped[0]
    return [
        at_least(f"{label}: share of drops in the class to lose first", outcome.share_of_first, FIRST_SHARE_MIN),
        Check(f"{label}: large-magnitude packets lost", large, "0, of some sent", large == 0 and outcome.sent[0] > 0),
        Check(
            f"{label}: packets lost elsewhere than in the virtual queue",
            sum(outcome.sent) - sum(outcome.dropped) - sum(outcome.received),
            "0",
            sum(outcome.sent) == sum(outcome.dropped) + sum(outcome.received),
        ),
    ]


def contention(seconds: Mapping[str, float]) -> list[Check]:
    """Completion of the front layer's tensor: with priorities, with lanes that are alike, in one sequence."""
    label = "two tensors contending, completion of the front layer's"
    return [
        at_least(f"{label}: lanes alike / with priorities", seconds["alike"] / seconds["priorities"], CONTENTION_MIN),
        at_least(f"{label}: one sequence / with priorities", seconds["one"] / seconds["priorities"], CONTENTION_MIN),
    ]


def spines(done: Mapping[str, Spread]) -> list[Check]:
    """Two spines against one."""
    rows = []
    for way in (SLOT, HASH):
        ratio = done[way].values_per_s / done[ONE].values_per_s
        share = done[way].shares[0]
        rows += [
            at_least(f"two spines / one, sprayed by {way}: throughput", ratio, SPINES_MIN),
            Check(
                f"two spines, sprayed by {way}: share of the first",
                share,
                f"50 +- {SPREAD_TOLERANCE:.0%}",
                abs(share - 0.5) <= SPREAD_TOLERANCE + ROUNDING,
            ),
        ]
    return rows


def failover(outcome: Failover) -> list[Check]:
    """A spine dies."""
    return [
        at_most("a dead spine is left out: seconds", outcome.left_out_s, STALL_MAX_S),
        at_most("a dead spine: longest operation less the usual one, seconds", outcome.stall_s, STALL_MAX_S),
        Check("a dead spine: results of all workers", outcome.equal, "bit-equal", outcome.equal),
    ]


def replicas(label: str, entry: Mapping[str, Any]) -> Check:
    """Equal parameters on all workers, and no fall-back."""
    equal, fallbacks = bool(entry["replicas_equal"]), entry.get("fallbacks", 0)
    return Check(f"{label}: replicas", equal, "bit-equal on all workers, no fall-back", equal and not fallbacks)


def lossy(label: str, clean: Mapping[str, Any], loss: Mapping[str, Any], most: float) -> list[Check]:
    """The same training without loss and with it: communication per step and accuracy."""
    value = loss["comm_s_per_step_p99"] / clean["comm_s_per_step_p99"]
    gap = abs(loss["accuracy"] - clean["accuracy"])
    return [
        at_most(f"{label}: p99 of communication per step, with loss / without", value, most),
        Check(
            f"{label}: test accuracy, with loss and without",
            [loss["accuracy"], clean["accuracy"]],
            "within 0.5 points",
            gap <= ACCURACY_GAP_MAX + ROUNDING,
        ),
        replicas(f"{label}, with loss", loss),
        replicas(f"{label}, without", clean),
    ]


def straggler(healthy: Mapping[str, Any], slowed: Mapping[str, Any]) -> list[Check]:
    """One slow worker behind a lossy link, quorum n - 1."""
    label = "one worker's link at 1 % loss, one worker slowed 3 x, quorum n - 1"
    ratio = slowed["step_s"] / healthy["step_s"]
    return [at_most(f"{label}: step time / the healthy run's", ratio, STRAGGLER_MAX), replicas(label, slowed)]


def trimming(cut: Mapping[str, float], dropped: Mapping[str, float]) -> list[Check]:
    """The same packets cut to half their planes, and dropped: ``nmse`` and ``accuracy`` of both, dropped ones taken
    as zero."""
    label = "20 % of packets cut to half their planes against dropped"
    return [
        Check(f"{label}: NMSE", [cut["nmse"], dropped["nmse"]], "less", cut["nmse"] < dropped["nmse"]),
        Check(
            f"{label}: test accuracy",
            [cut["accuracy"], dropped["accuracy"]],
            "more",
            cut["accuracy"] > dropped["accuracy"],
        ),
    ]


def congested(entries: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """Background TCP and loss: time to accuracy of gloo and THC over that of DLCP."""
    label = "background TCP at half of every link, 1 % loss: time to accuracy"
    times = {name: entry["time_to_target_s"] for name, entry in entries.items()}
    dlcp = times["dlcp"]
    over = {name: None if not dlcp or not one else one / dlcp for name, one in times.items()}
    thc = over["thc"]
    return [
        at_least(f"{label}, gloo / THC with DLCP", over["gloo"], GLOO_MIN),
        at_least(f"{label}, THC without / with DLCP", thc, THC_MIN),
        Check(
            f"{label}, share of the paper's best case over its own baselines ({PAPER_BEST})",
            None if thc is None else thc / PAPER_BEST,
            "reported",
            thc is not None,
        ),
        *(replicas(f"{label}, {name}", entry) for name, entry in entries.items()),
    ]
