# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a training have written, in the form that rows are judged by."""

from __future__ import annotations

from typing import Any

from sumwire_lab.life.world import Training


def account(training: Training) -> dict[str, Any]:
    """`unequal`: steps after which the replicas differ. `compared`: steps that were compared. `changes`: by rank, every
    change between network and fall-back, with its step and wall clock. `ends`: by rank, the last line."""
    ranks = [training.lines(rank) for rank in range(training.spec.workers)]
    digests: dict[int, set[str]] = {}
    for lines in ranks:
        for line in lines:
            if line["kind"] == "step":
                digests.setdefault(line["step"], set()).add(line["digest"])
    return {
        "compared": len(digests),
        "unequal": sorted(step for step, found in digests.items() if len(found) > 1),
        "changes": [_changes(lines) for lines in ranks],
        "ends": [next((line for line in reversed(lines) if line["kind"] == "end"), None) for lines in ranks],
    }


def _changes(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    changes, before = [], False
    for line in lines:
        if line["kind"] == "step" and line["fallen_back"] != before:
            before = line["fallen_back"]
            changes.append({"step": line["step"], "at": line["at"], "fallen_back": before})
    return changes
