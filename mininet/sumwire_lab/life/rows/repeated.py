# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ten runs of one job file, one after the other, without a command between them.

The 3rd and the 6th are ended by kill -9 of all ranks in mid-step. During the 8th the frames of the 7th arrive again, on
every link and in both directions: late, in another order, and several times over.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sumwire_lab.faults.programs import Program, wait_ended
from sumwire_lab.life.adder import AdderSpec
from sumwire_lab.life.case import Case
from sumwire_lab.life.world import World, open_world

NAME: Final = "runs"
ALONE, GROUP = "alone", "group"
"""Variants: workers without a process group, and with one."""
_LIMIT_S: Final = 480.0
# bmv2 on a busy machine takes minutes for the disturbed run.
_RUN_S: Final = 240.0
_REPLAY: Final = "sumwire_lab.faults.replay"
_FRAMES_PER_SECOND: Final = 200.0
_ADDER: Final = "sumwire_lab.life.adder"
_LOOK_SECONDS: Final = 0.005
# Rounds before a run is killed.
_KILLED_AFTER: Final = 5


@dataclass(frozen=True)
class Runs:
    """How many runs, and which of them are killed, recorded, and disturbed by the recorded frames."""

    count: int = 10
    killed: tuple[int, ...] = (3, 6)
    recorded: int = 7
    disturbed: int = 8
    rounds: int = 15
    disturbed_rounds: int = 150
    """Enough for all recorded frames to arrive a few times."""

    def rounds_of(self, number: int) -> int | None:
        """None: until it is killed."""
        if number in self.killed:
            return None
        return self.disturbed_rounds if number == self.disturbed else self.rounds


RUNS: Final = Runs()


def cases(switch: str, seeds: int) -> list[Case]:
    """One case of each variant; this row has no seeds."""
    return [Case(NAME, switch, 1, _LIMIT_S, variant) for variant in (ALONE, GROUP)]


def carry_out(case: Case, folder: Path) -> dict[str, Any]:
    """See `repeat`."""
    with open_world(case, folder) as world:
        return repeat(world, RUNS)


def repeat(world: World, runs: Runs) -> dict[str, Any]:
    """`runs`: the workers' records of the runs that were not killed, by number."""
    records: dict[str, list[dict[str, Any]]] = {}
    for number in range(1, runs.count + 1):
        spec = _spec(world, number, runs.rounds_of(number))
        with _frames(world, recorded=number == runs.recorded, disturbed=number == runs.disturbed):
            workers = _start(world, spec, number)
            if number in runs.killed:
                _kill_in_mid_step(workers, spec, world.case.seed + number)
            else:
                wait_ended(workers, _RUN_S)
                records[str(number)] = _records(spec)
    return {"runs": records}


def _spec(world: World, number: int, rounds: int | None) -> AdderSpec:
    folder = world.folder / f"run{number}"
    folder.mkdir()
    group = world.case.variant == GROUP
    return AdderSpec(
        job_file=str(world.session.job_file),
        workers=world.workers,
        folder=str(folder),
        seed=number,
        rounds=rounds,
        master=world.group.master if group else "",
        interfaces=tuple(world.group.interfaces),
    )


def _start(world: World, spec: AdderSpec, number: int) -> list[Program]:
    path = Path(spec.folder, "spec.json")
    spec.save(path)
    return [
        world.start(f"run{number}/worker{rank}", rank, _ADDER, str(path), str(rank)) for rank in range(spec.workers)
    ]


def _records(spec: AdderSpec) -> list[dict[str, Any]]:
    return [json.loads(Path(spec.folder, f"sums{rank}.json").read_text()) for rank in range(spec.workers)]


def _kill_in_mid_step(workers: list[Program], spec: AdderSpec, seed: int) -> None:
    """Kill all at once, at a random moment after the first rounds."""
    first = Path(spec.folder, "count0")
    end = time.monotonic() + _RUN_S
    while not (first.exists() and first.stat().st_size >= _KILLED_AFTER):
        ended = [worker for worker in workers if worker.exit_code is not None]
        if ended or time.monotonic() > end:
            wait_ended(ended or workers, 0.0)
        time.sleep(_LOOK_SECONDS)
    time.sleep(random.Random(seed).uniform(0, 0.05))
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()


@contextmanager
def _frames(world: World, *, recorded: bool, disturbed: bool) -> Iterator[None]:
    """Record the frames of the run in the block, or send recorded ones again meanwhile."""
    replays: list[Program] = []
    if recorded:
        # A train would be recorded as one frame, without checksums.
        world.session.network.end_offloads()
    for rank, host in enumerate(world.session.fabric.hosts):
        up, down = (str(world.folder / f"{host.name}-{way}.frames") for way in ("up", "down"))
        pid = world.session.network.pid(host)
        if recorded:
            for way, file in (("SENT", up), ("RECEIVED", down)):
                arguments = ["record", host.host_interface, file, way]
                replays.append(world.programs.start(f"record-{host.name}-{way}", pid, _REPLAY, arguments))
        elif disturbed:
            rate, seed = str(_FRAMES_PER_SECOND), str(rank)
            replays.append(
                world.programs.start(f"up-{host.name}", pid, _REPLAY, ["send", host.host_interface, up, rate, seed])
            )
            replays.append(
                world.programs.start(
                    f"down-{host.name}", None, _REPLAY, ["send", host.switch_interface, down, rate, seed]
                )
            )
    yield
    for replay in replays:
        replay.kill()
        replay.join()
