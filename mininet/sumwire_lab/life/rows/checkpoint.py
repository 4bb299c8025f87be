# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A training that is saved and ended after half its steps, and resumed by new processes, against one that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from sumwire_lab.faults.programs import wait_ended
from sumwire_lab.life.case import Case
from sumwire_lab.life.rows.account import account
from sumwire_lab.life.world import World, open_world
from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.recipes import parse

NAME: Final = "checkpoint"
SYSTEMS: Final = ("thc", "dlcp", "acp", "marsit-ring", "ef-sign@group")
"""Systems whose trainings can be repeated to the bit."""
DRAWN: Final = ("marsit", "ef-sign")
"""Through a switch, which draws signs at random: no two trainings are equal, so only the state is compared."""
STEPS: Final = 30
HALF: Final = 15
LANED: Final = LanedOptions(loss_bound=0.0)
_LIMIT_S: Final = 180.0
_TRAIN_S: Final = 60.0


def cases(switch: str, seeds: int) -> list[Case]:
    """One case of each system; this row has no seeds."""
    return [Case(NAME, switch, 1, _LIMIT_S, system) for system in (*SYSTEMS, *DRAWN)]


def carry_out(case: Case, folder: Path) -> dict[str, Any]:
    """Accounts of the trainings: the `whole` one, and its `first` and `second` half. `starts`: first lines."""
    laned = parse(case.variant).recipe.laned

    def jobs(fabric: Fabric) -> list[dict[str, Any]]:
        recipe = parse(case.variant).recipe
        return control_plane.laned_job(fabric, LANED, recipe) if laned else control_plane.training_job(fabric)

    with open_world(case, folder, jobs) as world:
        whole = _train(world, "whole", None)
        kept = folder / "kept"
        kept.mkdir()
        first = _train(world, "first", kept)
        second = _train(world, "second", kept)
    return {"whole": whole, "first": first, "second": second}


def _train(world: World, name: str, kept: Path | None) -> dict[str, Any]:
    saved = {} if kept is None else {"checkpoint": str(kept), "save_after": HALF}
    spec = world.spec(name, world.case.variant, steps=STEPS, **saved)
    training = world.train(spec)
    wait_ended(training.programs, _TRAIN_S)
    starts = [training.lines(rank)[0] for rank in range(spec.workers)]
    return {**account(training), "starts": starts}
