# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of `make verify-thc`, computed from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sumwire_lab.study.check import Check, equal, holds
from sumwire_lab.verify.rows.shared import accuracy

ORACLE_TOLERANCE: Final = 0.03
SWITCH_RATIO_MIN: Final = 1.0


def impaired(thc: dict[str, Any], gloo: dict[str, Any], impair: str) -> list[Check]:
    """A run through a switch that loses, doubles and reorders."""
    label = f"impaired ({impair})"
    return [
        accuracy(label, thc, gloo),
        equal(f"{label}: fall-backs", thc["fallbacks"], 0),
        equal(f"{label}: replicas bit-equal", thc["replicas_equal"], True),
        holds(
            f"{label}: retransmissions", thc["retransmissions"], "> 0: losses did happen", thc["retransmissions"] > 0
        ),
    ]


def malformed(thc: dict[str, Any], clean: dict[str, Any], packets: int) -> list[Check]:
    """A run beside malformed packets: same parameters as without them, each packet under its reason."""
    flood = thc["malformed"]
    sent, counted = flood["sent"], {name: n for name, n in flood["counted"].items() if n}
    total = sum(sent.values())
    return [
        holds(
            f"{packets} malformed packets: sent",
            total,
            f"{packets}, all during the training",
            total == packets and bool(flood["all_sent_during_training"]),
        ),
        equal(f"{packets} malformed packets: counted by reason", counted, sent, f"as sent: {sent}"),
        holds(
            f"{packets} malformed packets: parameters after the training",
            thc["fingerprints"][0][:16],
            f"bit-equal to the run without: {clean['fingerprints'][0][:16]}, no fall-back",
            thc["fingerprints"] == clean["fingerprints"] and thc["fallbacks"] == 0,
        ),
    ]


def oracles(rows: Sequence[tuple[str, float, float]]) -> list[Check]:
    """Measured against derived values."""
    return [
        holds(f"oracle: {name}", value, f"{wanted:.6g} within 3 %", abs(value - wanted) <= ORACLE_TOLERANCE * wanted)
        for name, value, wanted in rows
    ]
