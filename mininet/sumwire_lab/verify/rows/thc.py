# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of `make verify-thc` out of what was measured. Pure: every number comes in, a verdict goes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sumwire_lab.run.summary import ratio

COMM_RATIO_MIN: Final = 5.0
TIME_RATIO_MIN: Final = 4.0
ACCURACY_MIN: Final = 0.96
ACCURACY_GAP_MAX: Final = 0.005
# Accuracies are shares of a few hundred images: differences come out as 0.00500001.
ROUNDING: Final = 1e-6
ORACLE_TOLERANCE: Final = 0.03
CODEC_MS_MAX: Final = 40.0
SWITCH_RATIO_MIN: Final = 1.0
WHY_ABSENT: Final[Mapping[str, str]] = {
    "native": "no compiler for the native engine (clang 16 or later)",
    "bmv2": "simple_switch_grpc is not on PATH",
}


@dataclass(frozen=True)
class Check:
    """One row. `holds` is None where this machine lacks what the check needs; `why` then says what."""

    check: str
    value: Any
    target: str
    holds: bool | None
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For the JSON file; `why` only where there is one."""
        record = asdict(self)
        if not self.why:
            del record["why"]
        return record


def speed(summary: dict[str, Any], label: str) -> list[Check]:
    """Communication time and time to the target accuracy, gloo over THC."""
    comm = ratio(summary, "comm_s_per_step", "thc")
    target = ratio(summary, "time_to_target_s", "thc")
    return [
        at_least(f"{label}: communication time per step, gloo / Sumwire", comm, COMM_RATIO_MIN),
        at_least(f"{label}: time to 95 % test accuracy, gloo / Sumwire", target, TIME_RATIO_MIN),
    ]


def accuracy(label: str, thc: dict[str, Any], gloo: dict[str, Any]) -> Check:
    """Final accuracies: close to each other and both high enough, on replicas that are bit-equal."""
    mine, theirs = thc["accuracy"], gloo["accuracy"]
    close = abs(mine - theirs) <= ACCURACY_GAP_MAX + ROUNDING
    holds = close and min(mine, theirs) >= ACCURACY_MIN and bool(thc["replicas_equal"] and gloo["replicas_equal"])
    return Check(
        f"{label}: final test accuracy, Sumwire and gloo",
        [mine, theirs],
        "within 0.5 points, both >= 96 %, replicas bit-equal",
        holds,
    )


def impaired(thc: dict[str, Any], gloo: dict[str, Any], impair: str) -> list[Check]:
    """A run through a switch that loses, doubles and reorders."""
    label = f"impaired ({impair})"
    return [
        accuracy(label, thc, gloo),
        Check(f"{label}: fall-backs", thc["fallbacks"], "0", thc["fallbacks"] == 0),
        Check(f"{label}: replicas bit-equal", thc["replicas_equal"], "true", bool(thc["replicas_equal"])),
        Check(
            f"{label}: retransmissions", thc["retransmissions"], "> 0: losses did happen", thc["retransmissions"] > 0
        ),
    ]


def malformed(thc: dict[str, Any], clean: dict[str, Any], packets: int) -> list[Check]:
    """A run beside malformed packets: same parameters as without them, each packet under its reason."""
    flood = thc["malformed"]
    sent, counted = flood["sent"], {name: n for name, n in flood["counted"].items() if n}
    total = sum(sent.values())
    return [
        Check(
            f"{packets} malformed packets: sent",
            total,
            f"{packets}, all during the training",
            total == packets and bool(flood["all_sent_during_training"]),
        ),
        Check(f"{packets} malformed packets: counted by reason", counted, f"as sent: {sent}", counted == sent),
        Check(
            f"{packets} malformed packets: parameters after the training",
            thc["fingerprints"][0][:16],
            f"bit-equal to the run without: {clean['fingerprints'][0][:16]}, no fall-back",
            thc["fingerprints"] == clean["fingerprints"] and thc["fallbacks"] == 0,
        ),
    ]


def oracles(rows: Sequence[tuple[str, float, float]]) -> list[Check]:
    """Measured against derived values."""
    return [
        Check(f"oracle: {name}", value, f"{wanted:.6g} within 3 %", abs(value - wanted) <= ORACLE_TOLERANCE * wanted)
        for name, value, wanted in rows
    ]


def switch_rate(label: str, rates: Mapping[str, float], over: str, under: str, least: float) -> Check:
    """Packets/s of one contender of bench-switch over another's; undecided where one of them is not here."""
    for name in (over, under):
        if name not in rates:
            return absent(label, f">= {least:g}", WHY_ABSENT[name], value=dict(rates))
    return at_least(label, rates[over] / rates[under], least)


def codec(milliseconds: float) -> Check:
    """Encode and decode of a million values on one core."""
    return at_most(
        "encode + decode of 1 million float32 on one core, error feedback included, ms", milliseconds, CODEC_MS_MAX
    )


def reported(label: str, value: Any) -> Check:
    """A number without a target; it must have been measured."""
    return Check(label, value, "reported", value is not None)


def absent(label: str, target: str, why: str, value: Any = None) -> Check:
    """A check that this machine cannot make."""
    return Check(label, value, target, None, why)


def failed(label: str, target: str, error: Exception) -> Check:
    """A check whose experiment did not come to its end."""
    return Check(label, None, target, False, str(error))


def table(checks: Sequence[Check]) -> str:
    """One line a check: verdict, what, value, target."""
    words = {True: "holds", False: "FAILS", None: "-"}
    lines = []
    for check in checks:
        lines.append(f"{words[check.holds]:<6} {check.check}: {_short(check.value)} (target {check.target})")
        if check.why:
            lines.append(f"       {check.why}")
    return "\n".join(lines)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(_short(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(item)}" for name, item in value.items())
    return str(value)


def at_least(label: str, value: float | None, least: float) -> Check:
    return Check(label, value, f">= {least:g}", value is not None and value >= least)


def at_most(label: str, value: float, most: float) -> Check:
    return Check(label, value, f"<= {most:g}", value <= most)
