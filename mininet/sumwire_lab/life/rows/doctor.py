# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire doctor` on the wrong set-ups, and on right ones: over each kind of switch, and in a tree."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from sumwire_lab.errors import ProcessDiedError
from sumwire_lab.life.case import Case
from sumwire_lab.life.rows import setups
from sumwire_lab.life.world import World, open_world
from sumwire_lab.network import control_plane
from sumwire_lab.options.run_options import AGGREGATOR

NAME: Final = "doctor"
RIGHT: Final = "right"
RIGHT_TREE: Final = "right-tree"
TREE: Final = "leaf-spine"
_TREE_WORKERS: Final = 4
_LIMIT_S: Final = 120.0
_PROGRAM: Final = "sumwire_lab.life.patient"
_COMMAND_S: Final = 30.0
_ROUNDS: Final = 3
_LOOK_SECONDS: Final = 0.02


def cases(switch: str, seeds: int) -> list[Case]:
    """Every wrong set-up that is possible with the switch, and the right ones."""
    trees = [] if switch == AGGREGATOR else [RIGHT_TREE]
    wrong = [case.variant for case in setups.cases(switch, seeds)]
    return [Case(NAME, switch, 1, _LIMIT_S, name) for name in (*wrong, RIGHT, *trees)]


def carry_out(case: Case, folder: Path) -> dict[str, Any]:
    """What the doctor finds, by worker; of a wrong set-up what it finds on the first worker's host."""
    if case.variant in (RIGHT, RIGHT_TREE):
        tree = case.variant == RIGHT_TREE
        workers = _TREE_WORKERS if tree else setups.WORKERS
        with open_world(case, folder, workers=workers, topology=TREE if tree else "star") as world:
            return {"examined": [examined(world, rank, setups.Mistake()) for rank in range(workers)]}
    with open_world(case, folder, workers=setups.WORKERS) as world:
        mistake = setups.SETUPS[case.variant].make(world)
        found = _controller(world, mistake.p4) if mistake.p4 else examined(world, 0, mistake)
        undisturbed = _goes_on(world) if case.variant == setups.SECOND_RUN else None
        return {"examined": [found], "undisturbed": undisturbed}


def _goes_on(world: World) -> bool:
    """Whether the run that is under way does more rounds of sums."""
    count = world.folder / "count0"
    before, end = count.stat().st_size, time.monotonic() + _COMMAND_S
    while count.stat().st_size <= before + _ROUNDS:
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def examined(world: World, rank: int, mistake: setups.Mistake) -> dict[str, Any]:
    """The doctor's findings on a worker's host."""
    path = mistake.job_file or world.session.job_file
    more = [] if mistake.revision is None else [str(mistake.revision)]
    result = world.folder / f"examined{rank}.json"
    result.unlink(missing_ok=True)
    world.start(f"patient{rank}", rank, _PROGRAM, str(path), str(rank), str(result), *more)
    return setups.told(result)


def _controller(world: World, p4: Path) -> dict[str, Any]:
    """The doctor's findings where the controller runs."""
    command = [sys.executable, "-m", "sumwire.cli", "doctor", "--json", "--p4", str(p4), "--config"]
    began = time.monotonic()
    done = subprocess.run(
        [*command, str(world.folder / control_plane.CONFIGURATION)],
        check=False,
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
    )
    if not done.stdout:
        raise ProcessDiedError(f"sumwire doctor ended with {done.returncode}: {done.stderr[-500:]}")
    return {**json.loads(done.stdout), "seconds": time.monotonic() - began}
