# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""fp16 with GradScaler: gradients overflow at some steps, on one rank or on all. The same with gloo beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sumwire_lab.faults.programs import wait_ended
from sumwire_lab.life.case import Case
from sumwire_lab.life.rows.account import account
from sumwire_lab.life.trainee import Overflow
from sumwire_lab.life.world import WORKERS, Training, World, open_world
from sumwire_lab.options.run_options import TrainOptions

NAME: Final = "overflow"
ONE, ALL = "one", "all"
"""Variants: the gradients of one rank overflow, or those of all ranks."""
SYSTEM, BASELINE = "thc", "gloo"
AT: Final = (20, 21, 70)
"""Steps at which gradients overflow; two of them in a row."""
STEPS: Final = 200
TRAIN: Final = TrainOptions(hidden=128, batch=32)
_LIMIT_S: Final = 300.0
_TRAIN_S: Final = 120.0


def cases(switch: str, seeds: int) -> list[Case]:
    """One case of each variant; this row has no seeds."""
    return [Case(NAME, switch, 1, _LIMIT_S, variant) for variant in (ONE, ALL)]


def carry_out(case: Case, folder: Path) -> dict[str, Any]:
    """By system: the account of the training, and its overflows."""
    ranks = list(range(WORKERS)) if case.variant == ALL else [1]
    done: dict[str, Any] = {}
    with open_world(case, folder) as world:
        for system in (BASELINE, SYSTEM):
            done[system] = train(world, system, ranks, STEPS, AT)
    return done


def train(world: World, system: str, ranks: Sequence[int], steps: int, at: Sequence[int]) -> dict[str, Any]:
    """The account of one training, and its overflows."""
    overflow = Overflow(list(at), list(ranks))
    training = world.train(world.spec(f"overflow-{system}", system, steps=steps, overflow=overflow, train=TRAIN))
    wait_ended(training.programs, _TRAIN_S)
    return {**account(training), "overflows": _overflows(training, at)}


def _overflows(training: Training, at: Sequence[int]) -> list[dict[str, Any]]:
    """By rank and step of an overflow: whether the step left the parameters as they were, and the scale's factor."""
    found = []
    for rank in range(training.spec.workers):
        after = {line["step"]: line for line in training.lines(rank) if line["kind"] == "step"}
        for step in at:
            before, then = after[step], after[step + 1]
            skipped = before["digest"] == then["digest"]
            found.append({"rank": rank, "step": step, "skipped": skipped, "factor": then["scale"] / before["scale"]})
    return found
