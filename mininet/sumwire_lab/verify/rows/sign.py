# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of `make verify-sign`, computed from what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sumwire.multihop.statistics import BIAS_MAX, Outcome

from sumwire_lab.run.summary import ratio
from sumwire_lab.study.check import Check, absent, at_least, at_most, holds
from sumwire_lab.verify.rows.shared import ROUNDING

IDENTITY_MAX: Final = 1e-10
COMM_RATIO_MIN: Final = 30.0
ACCURACY_GAP_MAX: Final = 0.01
BIAS_TARGET: Final = f"<= {BIAS_MAX:.4g}, and no single value beyond its threshold"
# 1.317 of signs and numbers in whole packets, 0.005 of the packets that compare whether all gradients are finite, and
# 0.014, in this short run, of what ranks tell each other by TCP every second.
BITS_MAX: Final = 1.34
# How far, in standard deviations, the fraction of signs taken from one worker may be from 1/n.
SHARE_SIGMAS: Final = 5.0


def identity(deviation: float) -> Check:
    """The largest distance of x - mean(compensation) from the uncompressed training."""
    label = "identity: x - mean(compensation) against uncompressed SGD, float64, largest difference"
    return at_most(label, deviation, IDENTITY_MAX)


def digits(summary: Mapping[str, Any], label: str) -> list[Check]:
    """A run of gloo, Marsit without and with full precision, and majority vote."""
    systems = summary["systems"]
    speed = at_least(
        f"{label}: communication time per step, gloo / Marsit (K = never)",
        ratio(dict(summary), "comm_s_per_step", "marsit"),
        COMM_RATIO_MIN,
    )
    return [speed, accuracy(systems, label), bits(systems["marsit100"], label), replicas(systems, label)]


def accuracy(systems: Mapping[str, Any], label: str) -> Check:
    """Marsit-100 against S-SGD. The accuracies of Marsit without full precision and of majority vote are reported."""
    values = {name: systems[name]["accuracy"] for name in ("marsit100", "gloo", "marsit", "vote")}
    gap = values["gloo"] - values["marsit100"]
    return holds(
        f"{label}: test accuracy of Marsit-100, of S-SGD (gloo); Marsit (K = never) and majority vote beside them",
        values,
        "Marsit-100 not more than 1 point below S-SGD",
        gap <= ACCURACY_GAP_MAX + ROUNDING,
    )


def bits(marsit100: Mapping[str, Any], label: str) -> Check:
    """Bits per value on the wire; the larger of both directions counts."""
    up, down = marsit100["payload_bits_per_value_up"], marsit100["payload_bits_per_value_down"]
    return holds(
        f"{label}: bits per value on the wire, Marsit-100, headers aside, up and down",
        [up, down],
        f"<= {BITS_MAX:g} each",
        max(up, down) <= BITS_MAX,
    )


def replicas(systems: Mapping[str, Any], label: str) -> Check:
    """In every system all workers end with bit-equal parameters, and none fell back."""
    equal = {name: bool(entry["replicas_equal"]) for name, entry in systems.items()}
    stayed = all(entry.get("fallbacks", 0) == 0 for entry in systems.values())
    return holds(
        f"{label}: replicas bit-equal, no fall-back", equal, "true for every system", all(equal.values()) and stayed
    )


def ops(record: Mapping[str, Any]) -> list[Check]:
    """Random words through every op.

    Ops other than SIGN give the golden model's words. SIGN gives all workers the same signs, each of them sent by a
    worker, and takes from every worker the same fraction of them.
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


def bias(label: str, outcomes: Sequence[Outcome]) -> list[Check]:
    """The bias test of sumwire.multihop.statistics, one outcome per number of workers."""
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


def tests(label: str, target: str, counts: Mapping[str, int]) -> Check:
    """A group of tests: all ran and passed. If some were skipped and none failed, the check is undecided."""
    if not counts["failed"] and counts["skipped"]:
        return absent(label, target, "skipped: this machine lacks what they need", value=dict(counts))
    return holds(label, dict(counts), target, counts["passed"] > 0 and not counts["failed"])
