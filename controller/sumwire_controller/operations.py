# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Apply and status: the two things one does to a switch. Import these from elsewhere in the project."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sumwire_controller.config import Config
from sumwire_controller.entries import Entry
from sumwire_controller.errors import ReadBackError
from sumwire_controller.jobfile import find_job
from sumwire_controller.p4info import Program
from sumwire_controller.reconcile import Change, choose_generations, desired_state, differences, plan
from sumwire_controller.status import Status, summarize
from sumwire_controller.switch import DEFAULT_TIMEOUT_S, P4Switch, SwitchControl
from sumwire_controller.validate import validate


@dataclass(frozen=True, slots=True)
class Report:
    """What `apply` did. `generations` are by job name."""

    switch: str
    program_loaded: bool
    changes: tuple[Change, ...]
    generations: dict[str, int]

    @property
    def changed(self) -> bool:
        """Was anything written at all?"""
        return self.program_loaded or bool(self.changes)

    def as_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "switch": self.switch,
            "changed": self.changed,
            "program_loaded": self.program_loaded,
            "changes": [str(change) for change in self.changes],
            "generations": dict(self.generations),
        }

    def details(self) -> str:
        """The summary, then a line for each write and each job."""
        jobs = [f"  job {name}: generation {generation}" for name, generation in self.generations.items()]
        return "\n".join([str(self), *(f"  {change}" for change in self.changes), *jobs])

    def __str__(self) -> str:
        if not self.changed:
            return f"{self.switch}: nothing to change"
        program = "program loaded, " if self.program_loaded else ""
        return f"{self.switch}: {program}{len(self.changes)} entries written"


def apply(
    config: Config,
    *,
    build_dir: Path | str | None = None,
    timeout: float = DEFAULT_TIMEOUT_S,
    renew: Collection[str] = (),
) -> Report:
    """Makes a switch hold what the configuration says, and reads it back. A second call changes nothing.

    :param build_dir: folder of the compiled program; None for the checkout's.
    :param timeout: seconds each call to the switch may take.
    :param renew: names of jobs that start anew, with a new generation.
    :raises ConfigError: the configuration breaks a rule.
    :raises UnknownJobError: a name in `renew` is no job.
    :raises ArtifactError: the compiled program is missing or another one.
    :raises SwitchError: the switch cannot be reached, refused, or holds something else than was written.
    """
    validate(config)
    for name in renew:
        find_job(config, name)
    program = Program.load(build_dir)
    with P4Switch(config.switch, timeout) as switch:
        return bring_about(config, switch, program, renew, now=int(time.time()))


def bring_about(config: Config, switch: SwitchControl, program: Program, renew: Collection[str], now: int) -> Report:
    """`apply` on an open session, with the clock passed in (unix seconds)."""
    load = not switch.runs(program)
    if load:
        switch.push(program)
    actual = switch.entries(program)
    generations = choose_generations(config, actual, renew, now)
    desired = desired_state(config, generations)
    changes = plan(desired, actual)
    for change in changes:
        switch.write(program, change)
    if changes:
        _check(config, desired, switch, program)
    by_name = {job.name: generations.by_job[job.id] for job in config.jobs}
    return Report(config.switch.name, load, tuple(changes), by_name)


def _check(config: Config, desired: frozenset[Entry], switch: SwitchControl, program: Program) -> None:
    lines = differences(desired, switch.entries(program))
    if lines:
        raise ReadBackError(f"switch {config.switch.name}: reads back differently: " + "; ".join(lines))


def read_status(config: Config, *, build_dir: Path | str | None = None, timeout: float = DEFAULT_TIMEOUT_S) -> Status:
    """Tables and counters of a switch, and how they differ from the configuration. Writes nothing.

    :raises ConfigError, ArtifactError, SwitchError: as for `apply`.
    """
    validate(config)
    program = Program.load(build_dir)
    with P4Switch(config.switch, timeout, read_only=True) as switch:
        if not switch.runs(program):
            return Status(config.switch.name, program_runs=False)
        return summarize(
            config,
            switch.entries(program),
            verdicts=switch.counter(program.verdicts_id),
            rejects=switch.counter(program.rejects_id),
            workers=switch.worker_counters(program),
        )
