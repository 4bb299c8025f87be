# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of `make verify-dlcp`, computed from what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sumwire_lab.experiments.failover import Failover
from sumwire_lab.experiments.overload import LOAD, Overload
from sumwire_lab.experiments.spines import HASH, ONE, SLOT, Spread
from sumwire_lab.study.check import Check, at_least, at_most, equal, holds, reported
from sumwire_lab.verify.rows.shared import ACCURACY_GAP_MAX, ROUNDING

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
    """An offered load above the link's rate: the switch drops what is to be lost first, and nothing else is lost."""
    label = f"offered load {LOAD:g} x a link"
    large = outcome.dropped[0]
    return [
        at_least(f"{label}: share of drops in the class to lose first", outcome.share_of_first, FIRST_SHARE_MIN),
        holds(f"{label}: large-magnitude packets lost", large, "0, of some sent", large == 0 and outcome.sent[0] > 0),
        equal(
            f"{label}: packets lost elsewhere than in the virtual queue",
            sum(outcome.sent) - sum(outcome.dropped) - sum(outcome.received),
            0,
        ),
    ]


def contention(seconds: Mapping[str, float]) -> list[Check]:
    """How much sooner the front layer's tensor completes with priorities than in lanes without them, or in one lane."""
    label = "two tensors contending, completion of the front layer's"
    return [
        at_least(f"{label}: lanes alike / with priorities", seconds["alike"] / seconds["priorities"], CONTENTION_MIN),
        at_least(f"{label}: one sequence / with priorities", seconds["one"] / seconds["priorities"], CONTENTION_MIN),
    ]


def spines(done: Mapping[str, Spread]) -> list[Check]:
    """Throughput of two spines over that of one, and how evenly the packets are spread."""
    rows = []
    for way in (SLOT, HASH):
        ratio = done[way].values_per_s / done[ONE].values_per_s
        share = done[way].shares[0]
        rows += [
            at_least(f"two spines / one, sprayed by {way}: throughput", ratio, SPINES_MIN),
            holds(
                f"two spines, sprayed by {way}: share of the first",
                share,
                f"50 +- {SPREAD_TOLERANCE:.0%}",
                abs(share - 0.5) <= SPREAD_TOLERANCE + ROUNDING,
            ),
        ]
    return rows


def failover(outcome: Failover) -> list[Check]:
    """A spine switch is killed: how long until it is out of use, how long workers stall, and whether results agree."""
    return [
        at_most("a dead spine is left out: seconds", outcome.left_out_s, STALL_MAX_S),
        at_most("a dead spine: longest operation less the usual one, seconds", outcome.stall_s, STALL_MAX_S),
        equal("a dead spine: results of all workers", outcome.equal, True, "bit-equal"),
    ]


def replicas(label: str, entry: Mapping[str, Any]) -> Check:
    """All workers end with bit-equal parameters, and none fell back."""
    same, fallbacks = bool(entry["replicas_equal"]), entry.get("fallbacks", 0)
    return holds(f"{label}: replicas", same, "bit-equal on all workers, no fall-back", same and not fallbacks)


def lossy(label: str, clean: Mapping[str, Any], loss: Mapping[str, Any], most: float) -> list[Check]:
    """One training without loss and one with it: tail of the communication time per step, and accuracy."""
    value = loss["comm_s_per_step_p99"] / clean["comm_s_per_step_p99"]
    gap = abs(loss["accuracy"] - clean["accuracy"])
    return [
        at_most(f"{label}: p99 of communication per step, with loss / without", value, most),
        holds(
            f"{label}: test accuracy, with loss and without",
            [loss["accuracy"], clean["accuracy"]],
            "within 0.5 points",
            gap <= ACCURACY_GAP_MAX + ROUNDING,
        ),
        replicas(f"{label}, with loss", loss),
        replicas(f"{label}, without", clean),
    ]


def straggler(healthy: Mapping[str, Any], slowed: Mapping[str, Any]) -> list[Check]:
    """A straggler and a lossy link, with quorum n - 1: time per step against the healthy run."""
    label = "one worker's link at 1 % loss, one worker slowed 3 x, quorum n - 1"
    ratio = slowed["step_s"] / healthy["step_s"]
    return [at_most(f"{label}: step time / the healthy run's", ratio, STRAGGLER_MAX), replicas(label, slowed)]


def trimming(cut: Mapping[str, float], dropped: Mapping[str, float]) -> list[Check]:
    """NMSE and accuracy when some packets are trimmed to half their planes, and when the same packets are dropped and
    count as zeros. Keys of both arguments: ``nmse``, ``accuracy``."""
    label = "20 % of packets cut to half their planes against dropped"
    return [
        holds(f"{label}: NMSE", [cut["nmse"], dropped["nmse"]], "less", cut["nmse"] < dropped["nmse"]),
        holds(
            f"{label}: test accuracy",
            [cut["accuracy"], dropped["accuracy"]],
            "more",
            cut["accuracy"] > dropped["accuracy"],
        ),
    ]


def congested(entries: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """Background TCP and loss: time to accuracy of gloo and of THC over that of DLCP."""
    label = "background TCP at half of every link, 1 % loss: time to accuracy"
    times = {name: entry["time_to_target_s"] for name, entry in entries.items()}
    dlcp = times["dlcp"]
    over = {name: None if not dlcp or not one else one / dlcp for name, one in times.items()}
    thc = over["thc"]
    return [
        at_least(f"{label}, gloo / THC with DLCP", over["gloo"], GLOO_MIN),
        at_least(f"{label}, THC without / with DLCP", thc, THC_MIN),
        reported(
            f"{label}, share of the paper's best case over its own baselines ({PAPER_BEST})",
            None if thc is None else thc / PAPER_BEST,
        ),
        *(replicas(f"{label}, {name}", entry) for name, entry in entries.items()),
    ]
