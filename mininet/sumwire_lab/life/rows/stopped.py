# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One rank is stopped (SIGSTOP) in mid-training for a while, as by a debugger or a full disk, and goes on."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any, Final

from sumwire_lab.faults.programs import wait_ended
from sumwire_lab.life.case import Case
from sumwire_lab.life.rows.account import account
from sumwire_lab.life.world import Training, open_world

NAME: Final = "stopped"
SECONDS: Final = (5, 15, 60)
_LIMIT_S: Final = 120.0
_START_S: Final = 60.0
_MORE: Final = 10


def cases(switch: str, seeds: int) -> list[Case]:
    """One case of each length; this row has no seeds."""
    return [Case(NAME, switch, 1, _LIMIT_S + seconds, f"{seconds}s") for seconds in SECONDS]


def carry_out(case: Case, folder: Path) -> dict[str, Any]:
    """The account of the training."""
    draw = random.Random(case.name)
    with open_world(case, folder) as world:
        training = world.train_on("thc")
        training.wait_steps(draw.randint(10, 30), _START_S)
        time.sleep(draw.uniform(0, training.spec.pace_s))
        stop(training, draw.randrange(world.workers), float(case.variant.removesuffix("s")))
        training.end_soon()
        wait_ended(training.programs, _START_S)
        return account(training)


def stop(training: Training, rank: int, seconds: float) -> None:
    """Stop one rank for so long, and return when all have done some more steps."""
    stopped = training.programs[rank]
    stopped.stop()
    time.sleep(seconds)
    stopped.go_on()
    training.wait_steps(max(training.steps()) + _MORE, _START_S)
