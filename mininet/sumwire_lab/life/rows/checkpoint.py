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
SYSTEMS: Final = ("thc", "dlcp", "acp", "marsit-ring", "ef-sign", "ef-sign@group")
"""Systems whose trainings can be repeated to the bit."""
DRAWN: Final = ("marsit",)
"""Through a switch, which draws signs at random: no two trainings are equal, so only the state is compared."""
STEPS: Final = 30
LANED: Final = LanedOptions(loss_bound=0.0)
_LIMIT_S: Final = 180.0
_TRAIN_S: Final = 60.0


def cases(switch: str, seeds: int) -> list[Case]:
    """One case of each system; this row has no seeds."""
    return [Case(NAME, switch, 1, _LIMIT_S, system) for system in (*SYSTEMS, *DRAWN)]


def carry_out(case: Case, folder: Path) -> dict[str, Any]:
    """Accounts of the trainings: the `whole` one, its `first` and its `second` half.

    `half`: steps of the first half. `starts`: first lines of the ranks.
    """
    laned = parse(case.variant).recipe.laned

    def jobs(fabric: Fabric) -> list[dict[str, Any]]:
        recipe = parse(case.variant).recipe
        return control_plane.laned_job(fabric, LANED, recipe) if laned else control_plane.training_job(fabric)

    with open_world(case, folder, jobs) as world:
        return halves(world, case.variant, STEPS)


def halves(world: World, system: str, steps: int) -> dict[str, Any]:
    """See `carry_out`. The first half has half of the steps."""
    kept = world.folder / "kept"
    kept.mkdir()
    return {
        "half": steps // 2,
        "whole": _train(world, "whole", system, steps, {}),
        "first": _train(world, "first", system, steps, {"checkpoint": str(kept), "save_after": steps // 2}),
        "second": _train(world, "second", system, steps, {"checkpoint": str(kept)}),
    }


def _train(world: World, name: str, system: str, steps: int, given: dict[str, Any]) -> dict[str, Any]:
    training = world.train(world.spec(name, system, steps=steps, **given))
    spec = training.spec
    wait_ended(training.programs, _TRAIN_S)
    starts = [training.lines(rank)[0] for rank in range(spec.workers)]
    return {**account(training), "starts": starts}
