# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The world of a case: a session with one switch, a network for the process group, and programs on the hosts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sumwire_lab.errors import DeadlineError, ProcessDiedError
from sumwire_lab.faults.programs import Program, Programs, programs_in
from sumwire_lab.faults.switch import SwitchFault
from sumwire_lab.life.case import Case
from sumwire_lab.life.group_network import GroupNetwork
from sumwire_lab.life.trainee import TraineeSpec
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.system.processes import last_lines

WORKERS: Final = 3
LINK: Final = LinkOptions(100.0)
_TRAINEE: Final = "sumwire_lab.life.trainee"
PACE_S: Final = 0.1
_ENDLESS: Final = 100_000
_LOOK_SECONDS: Final = 0.02


@dataclass
class World:
    """Everything that a row may disturb."""

    case: Case
    session: Session
    group: GroupNetwork
    programs: Programs
    switch: SwitchFault

    @property
    def folder(self) -> Path:
        return self.session.folder

    @property
    def workers(self) -> int:
        return len(self.session.fabric.hosts)

    def start(self, name: str, rank: int, module: str, *arguments: str) -> Program:
        """Start a program on a rank's host."""
        host = self.session.fabric.hosts[rank]
        return self.programs.start(name, self.session.network.pid(host), module, arguments)

    def spec(self, name: str, system: str, **fields: Any) -> TraineeSpec:
        """A training in a folder of its own, below the case's."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        given: dict[str, Any] = {
            "system": system,
            "workers": self.workers,
            "folder": str(folder),
            "interfaces": self.group.interfaces,
            "master": self.group.master,
            "job_file": str(self.session.job_file),
        }
        return TraineeSpec(**{**given, **fields})

    def train_on(self, system: str) -> Training:
        """Start a training that goes on until `Training.end_soon`, at a pace that leaves the processor to others."""
        return self.train(self.spec("train", system, pace_s=PACE_S, steps=_ENDLESS, until=str(self.folder / "until")))

    def train(self, spec: TraineeSpec, name: str = "") -> Training:
        """Start a training on all hosts."""
        folder = Path(spec.folder)
        path = folder / f"spec{name}.json"
        spec.save(path)
        programs = [
            self.start(f"{folder.name}/worker{rank}{name}", rank, _TRAINEE, str(path), str(rank))
            for rank in range(spec.workers)
        ]
        return Training(spec, programs)


@dataclass
class Training:
    """A training that runs, and what its ranks have written."""

    spec: TraineeSpec
    programs: list[Program]

    def lines(self, rank: int) -> list[dict[str, Any]]:
        return lines_of(Path(self.spec.folder) / f"rank{rank}.jsonl")

    def steps(self) -> list[int]:
        """Steps that each rank has behind it."""
        return [_last_step(self.lines(rank)) for rank in range(self.spec.workers)]

    def wait_steps(self, step: int, seconds: float) -> None:
        """Return when every rank has done so many steps. Raises what `wait_until` raises."""
        self.wait_until(lambda: min(self.steps()) >= step, seconds, f"step {step}")

    def wait_until(self, there: Callable[[], bool], seconds: float, what: str) -> None:
        """Return once `there()`. Raises ProcessDiedError if a rank has failed, DeadlineError after `seconds`."""
        end = time.monotonic() + seconds
        while not there():
            for program in self.programs:
                if program.exit_code not in (None, 0):
                    raise ProcessDiedError(f"{program.name} ended with {program.exit_code}:\n{last_lines(program.log)}")
            if time.monotonic() > end:
                raise DeadlineError(f"{what}: not within {seconds:g} s, ranks are at steps {self.steps()}")
            time.sleep(_LOOK_SECONDS)

    def end_soon(self, more: int = 10) -> None:
        """Have all ranks end so many steps after the one that any of them is in."""
        assert self.spec.until is not None
        partial = Path(self.spec.until).with_suffix(".partial")
        partial.write_text(str(max(self.steps()) + more))
        partial.replace(self.spec.until)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a rank's file."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _last_step(lines: Sequence[dict[str, Any]]) -> int:
    return next((line["step"] for line in reversed(lines) if line["kind"] == "step"), 0)


@contextmanager
def open_world(
    case: Case,
    folder: Path,
    jobs: Callable[[Fabric], list[dict[str, Any]]] = control_plane.training_job,
    workers: int = WORKERS,
    topology: str = "star",
) -> Iterator[World]:
    """The world of a case, for the time of the block."""
    options = RunOptions(workers=workers, switch=case.switch, link=LINK, topology=topology)
    kind = switches.choose(case.switch)
    with open_session(options, kind, folder, jobs) as session, programs_in(folder) as programs:
        yield World(case, session, GroupNetwork(session), programs, SwitchFault(session))
