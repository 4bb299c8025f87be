# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Apply and status: what one does to a switch or to all of a network. Import these from elsewhere in the project."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import (
    Change,
    Generations,
    choose_generations_together,
    desired_state,
    differences,
    plan,
    prepares,
)
from sumwire_controller.deploy.status import Status, queue_cells, summarize
from sumwire_controller.deploy.switch import DEFAULT_TIMEOUT_S, P4Switch, SwitchControl
from sumwire_controller.derive.derive import configs_of
from sumwire_controller.derive.entries import Entry
from sumwire_controller.derive.jobfile import unknown_job
from sumwire_controller.derive.lanes import names_of_lanes, with_lanes
from sumwire_controller.errors import ReadBackError
from sumwire_controller.model.config import Config
from sumwire_controller.model.topology import Topology
from sumwire_controller.rules.together import check_together, upper_first
from sumwire_controller.rules.topology_rules import validate_topology
from sumwire_controller.rules.validate import validate


@dataclass(frozen=True, slots=True)
class Report:
    """What `apply` did. `generations` are by job name; lane k of several is "name/k"."""

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
    (report,) = apply_all([config], build_dir=build_dir, timeout=timeout, renew=renew)
    return report


def apply_topology(
    topology: Topology,
    *,
    build_dir: Path | str | None = None,
    timeout: float = DEFAULT_TIMEOUT_S,
    renew: Collection[str] = (),
) -> tuple[Report, ...]:
    """`apply` for all switches of a network; a report for each, upper switches first.

    Parameters and errors are those of `apply`; nothing is written unless every switch answers.
    """
    validate_topology(topology)
    return apply_all(configs_of(topology), build_dir=build_dir, timeout=timeout, renew=renew)


def apply_all(
    configs: Sequence[Config],
    *,
    build_dir: Path | str | None = None,
    timeout: float = DEFAULT_TIMEOUT_S,
    renew: Collection[str] = (),
) -> tuple[Report, ...]:
    """`apply_topology` for switches whose configurations are given one by one. They must agree on the jobs they share.

    :raises ConfigError: a configuration breaks a rule, or the parts of a job do not make one tree.
    """
    for config in configs:
        validate(config)
    check_together(configs)
    _check_names(configs, renew)
    program = Program.load(build_dir)
    with ExitStack() as sessions:
        switches = [
            (config, sessions.enter_context(P4Switch(config.switch, timeout))) for config in upper_first(configs)
        ]
        return bring_all_about(switches, program, renew, now=int(time.time()))


def _check_names(configs: Sequence[Config], renew: Collection[str]) -> None:
    known = list(dict.fromkeys(job.name for config in configs for job in config.jobs))
    for name in renew:
        if name not in known:
            raise unknown_job(name, known)


def bring_about(config: Config, switch: SwitchControl, program: Program, renew: Collection[str], now: int) -> Report:
    """`apply` on an open session, with the clock passed in (unix seconds)."""
    (report,) = bring_all_about([(config, switch)], program, renew, now)
    return report


def bring_all_about(
    switches: Sequence[tuple[Config, SwitchControl]], program: Program, renew: Collection[str], now: int
) -> tuple[Report, ...]:
    """`apply_all` on open sessions, upper switches first, with the clock passed in (unix seconds).

    Jobs that change are withdrawn from the lowest switches first and admitted at the uppermost first, so that no
    partial result meets a switch that is not ready for it, or one of a run that is over.
    """
    renew = names_of_lanes((job for config, _ in switches for job in config.jobs), renew)
    switches = [(with_lanes(config), switch) for config, switch in switches]
    loaded = [_load(switch, program) for _, switch in switches]
    held = [switch.entries(program) for _, switch in switches]
    configs = [config for config, _ in switches]
    generations = choose_generations_together(configs, held, renew, now)
    steps = [
        _Steps(config, switch, desired := desired_state(config, chosen), plan(desired, actual))
        for (config, switch), chosen, actual in zip(switches, generations, held, strict=True)
    ]
    for step in reversed(steps):
        step.write([change for change in step.changes if prepares(change)], program)
    for step in steps:
        step.write([change for change in step.changes if not prepares(change)], program)
        step.check(program)
    return tuple(
        Report(step.config.switch.name, load, tuple(step.changes), _by_name(step.config, chosen))
        for step, load, chosen in zip(steps, loaded, generations, strict=True)
    )


def _load(switch: SwitchControl, program: Program) -> bool:
    """Loads the program unless it runs; whether it did."""
    if switch.runs(program):
        return False
    switch.push(program)
    return True


@dataclass(frozen=True, slots=True)
class _Steps:
    """What is to be done to one switch."""

    config: Config
    switch: SwitchControl
    desired: frozenset[Entry]
    changes: list[Change]

    def write(self, changes: list[Change], program: Program) -> None:
        for change in changes:
            self.switch.write(program, change)

    def check(self, program: Program) -> None:
        lines = differences(self.desired, self.switch.entries(program)) if self.changes else []
        if lines:
            raise ReadBackError(f"switch {self.config.switch.name}: reads back differently: " + "; ".join(lines))


def _by_name(config: Config, generations: Generations) -> dict[str, int]:
    return {job.name: generations.by_job[job.id] for job in config.jobs}


def read_status(config: Config, *, build_dir: Path | str | None = None, timeout: float = DEFAULT_TIMEOUT_S) -> Status:
    """Tables and counters of a switch, and how they differ from the configuration. Writes nothing.

    :raises ConfigError, ArtifactError, SwitchError: as for `apply`.
    """
    validate(config)
    program = Program.load(build_dir)
    with P4Switch(config.switch, timeout, read_only=True) as switch:
        if not switch.runs(program):
            return Status(config.switch.name, program_runs=False)
        entries = switch.entries(program)
        return summarize(
            with_lanes(config),
            entries,
            verdicts=switch.counter(program.verdicts_id),
            rejects=switch.counter(program.rejects_id),
            workers=switch.worker_counters(program),
            queues=switch.counter_cells(program.queues_id, queue_cells(entries)),
        )


def read_all_status(
    configs: Sequence[Config], *, build_dir: Path | str | None = None, timeout: float = DEFAULT_TIMEOUT_S
) -> tuple[Status, ...]:
    """`read_status` of several switches, upper switches first."""
    check_together(configs)
    return tuple(read_status(config, build_dir=build_dir, timeout=timeout) for config in upper_first(configs))


def read_topology_status(
    topology: Topology, *, build_dir: Path | str | None = None, timeout: float = DEFAULT_TIMEOUT_S
) -> tuple[Status, ...]:
    """`read_status` of all switches of a network, upper switches first."""
    validate_topology(topology)
    return read_all_status(configs_of(topology), build_dir=build_dir, timeout=timeout)
