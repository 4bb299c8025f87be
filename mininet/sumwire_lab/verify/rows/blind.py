# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of blind jobs, computed from what `sumwire_lab.experiments.blind_run` has measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sumwire_lab.study.check import Check, at_most, equal, holds, reported


def blind(record: Mapping[str, Any]) -> list[Check]:
    """Of every codec: bits, noise for the switch, that the tests of noise can fail, and the price."""
    checks = []
    for codec, found in record["codecs"].items():
        label = f"blind {codec}, {record['workers']} workers"
        chi, correlation, most = found["chi_square"], found["correlation"], found["correlation_most"]
        cpu = found["cpu_s_per_million"]
        known = chi["open"] > record["chi_square_most"] and correlation["open"] > most
        checks += [
            equal(f"{label}: means have the bits of the open job's", found["bits_equal"], True),
            at_most(
                f"{label}: chi-square of one worker's bytes at the switch", chi["blind"], record["chi_square_most"]
            ),
            at_most(f"{label}: correlation of these with its gradient", correlation["blind"], most),
            holds(f"{label}: the same of the open job", [chi["open"], correlation["open"]], "both beyond", known),
            reported(f"{label}: processor time of a rank, against the open job's", cpu["blind"] / cpu["open"]),
        ]
    return checks
