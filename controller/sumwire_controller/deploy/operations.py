# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One switch's part of an apply: its present entries, the planned writes, and the writing."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from sumwire_protocol.events import Event

from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import (
    EntryChange,
    Generations,
    SwitchChanges,
    Write,
    choose_generations,
    desired_state,
    differences,
    plan,
    prepares,
    running_jobs_changed,
)
from sumwire_controller.deploy.status import Status, queue_cells, summarize
from sumwire_controller.deploy.switch import DEFAULT_TIMEOUT_S, Loaded, P4Switch, SwitchControl
from sumwire_controller.derive.desired import upper_first
from sumwire_controller.derive.entries import Entry, admissions, admits
from sumwire_controller.derive.free_slots import with_admitted, with_free
from sumwire_controller.derive.jobs import names_of_lanes, unknown_job, with_lanes
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.errors import ReadBackError, RunningJobsError, SwitchRefusedError
from sumwire_controller.model import Config, Topology
from sumwire_controller.rules.agreement import check_together
from sumwire_controller.rules.switch_config import validate
from sumwire_controller.rules.topology import validate_topology

_AGAIN: Final = "run it again: sumwire-controller apply CONFIG"


@dataclass(frozen=True, slots=True)
class Found:
    """The state of a switch before an apply. `entries` is empty unless it runs the wanted program."""

    loaded: Loaded | None
    entries: frozenset[Entry]

    @property
    def runs_wanted(self) -> bool:
        return self.loaded is not None and self.loaded.wanted


def look(switch: SwitchControl, program: Program) -> Found:
    """Return what the switch holds now."""
    loaded = switch.loaded(program)
    return Found(loaded, switch.entries(program) if loaded is not None and loaded.wanted else frozenset())


@dataclass(frozen=True, slots=True)
class Steps:
    """The changes to one switch."""

    config: Config
    switch: SwitchControl
    found: Found
    generations: Generations
    desired: frozenset[Entry]
    changes: list[EntryChange]

    def part(self) -> SwitchChanges:
        """Return the input of `running_jobs_changed` for this switch. Counters are only read if a job would be
        withdrawn."""
        replaced = "" if self.found.loaded is None or self.found.runs_wanted else self.found.loaded.name
        withdraws = any(change.write is Write.DELETE and admits(change.entry) for change in self.changes)
        packets = self._packets(bool(replaced)) if replaced or withdraws else {}
        return SwitchChanges(self.config, self.found.entries, self.generations, packets, replaced)

    def _packets(self, other_program: bool) -> dict[int, int]:
        """Packets by job. A program whose counters cannot be read is broken, so no job runs on it."""
        try:
            return self.switch.packets_of_jobs()
        except SwitchRefusedError:
            if not other_program:
                raise
            return {}

    def load(self, program: Program) -> None:
        """Load the program unless it runs already."""
        if self.found.runs_wanted:
            return
        self.switch.push(program)
        if self.switch.entries(program):
            raise ReadBackError(f"switch {self.config.switch.name}: has entries right after loading; {_AGAIN}")

    def write(self, changes: list[EntryChange], program: Program) -> None:
        for change in changes:
            self.switch.write(program, change)

    def check(self, program: Program) -> None:
        lines = differences(self.desired, self.switch.entries(program)) if self.changes else []
        if lines:
            differing = "; ".join(lines)
            raise ReadBackError(f"switch {self.config.switch.name}: reads back differently: {differing}; {_AGAIN}")


_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `apply` on a switch. `generations` are by job name; lane k of a job with several lanes is
    "name/k"."""

    switch: str
    program_loaded: bool
    changes: tuple[EntryChange, ...]
    generations: dict[str, int]

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return self.program_loaded or bool(self.changes)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "switch": self.switch,
            "changed": self.changed,
            "program_loaded": self.program_loaded,
            "changes": [str(change) for change in self.changes],
            "generations": dict(self.generations),
        }

    def details(self) -> str:
        """Return the summary, and a line for each write and each job."""
        jobs = [f"  job {name}: generation {generation}" for name, generation in self.generations.items()]
        return "\n".join([str(self), *(f"  {change}" for change in self.changes), *jobs])

    def __str__(self) -> str:
        if not self.changed:
            return f"{self.switch}: nothing to change"
        program = "program loaded, " if self.program_loaded else ""
        return f"{self.switch}: {program}{len(self.changes)} entries written"


class ApplyOptions(TypedDict, total=False):
    """The options of `apply`.

    ``build_dir``: folder of the compiled program; None for the checkout's. ``timeout``: seconds each call to the switch
    may take. ``renew``: names of jobs that get a new generation, even if a run of theirs is in progress. ``force``:
    change also jobs that have run since they were admitted. ``take_over``: become the primary controller even if
    another one is.
    """

    build_dir: Path | str | None
    timeout: float
    renew: Collection[str]
    force: bool
    take_over: bool


def apply(config: Config, **options: Unpack[ApplyOptions]) -> Report:
    """Bring a switch to its configuration, and read the entries back. A second call changes nothing. The options are
    those of `ApplyOptions`.

    :raises ConfigError: the configuration breaks a rule.
    :raises UnknownJobError: a name in `renew` is not a job's.
    :raises ArtifactError: the compiled program is missing, or lacks a table that the controller writes.
    :raises RunningJobsError: jobs that have run would change, and neither `force` nor `renew` allows it.
    :raises SwitchError: the switch cannot be reached, refused a write, or has other entries than were written.
    """
    (report,) = apply_all([config], **options)
    return report


def apply_topology(topology: Topology, **options: Unpack[ApplyOptions]) -> tuple[Report, ...]:
    """`apply` for all switches of a network. Returns a report for each, upper switches first.

    Parameters and errors are those of `apply`. Nothing is written unless every switch answers.
    """
    validate_topology(topology)
    return apply_all(configs_of(topology), **options)


def apply_all(
    configs: Sequence[Config],
    *,
    build_dir: Path | str | None = None,
    timeout: float = DEFAULT_TIMEOUT_S,
    renew: Collection[str] = (),
    force: bool = False,
    take_over: bool = False,
) -> tuple[Report, ...]:
    """`apply_topology` for a list of configurations. They must agree on the jobs that run over several of them.

    :raises ConfigError: a configuration breaks a rule, or the parts of a job do not form one tree.
    """
    for config in configs:
        validate(config)
    check_together(configs)
    _check_names(configs, renew)
    program = Program.load(build_dir)
    with ExitStack() as sessions:
        switches = [
            (config, sessions.enter_context(P4Switch(config.switch, timeout, take_over=take_over)))
            for config in upper_first(configs)
        ]
        return bring_all_about(switches, program, renew, now=int(time.time()), force=force)


def _check_names(configs: Sequence[Config], renew: Collection[str]) -> None:
    known = list(dict.fromkeys(job.name for config in configs for job in config.jobs))
    for name in renew:
        if name not in known:
            raise unknown_job(name, known)


def bring_about(
    config: Config, switch: SwitchControl, program: Program, renew: Collection[str], now: int, *, force: bool = False
) -> Report:
    """Do the work of `apply` on an open session. `now` is the unix time in seconds."""
    (report,) = bring_all_about([(config, switch)], program, renew, now, force=force)
    return report


def bring_all_about(
    switches: Sequence[tuple[Config, SwitchControl]],
    program: Program,
    renew: Collection[str],
    now: int,
    *,
    force: bool = False,
) -> tuple[Report, ...]:
    """Do the work of `apply_all` on open sessions, given with upper switches first. `now` is the unix time in seconds.

    Jobs that change are withdrawn from the lowest switches first, and admitted at the highest switches first. So every
    partial result that goes up finds the switch above ready, and none of an earlier run is still on its way.
    """
    renew = names_of_lanes((job for config, _ in switches for job in config.jobs), renew)
    found = [look(switch, program) for _, switch in switches]
    settled = with_free([config for config, _ in switches], [one.entries for one in found])
    configs = [with_lanes(config) for config in settled]
    generations = choose_generations(configs, [one.entries for one in found], renew, now)
    steps = [
        Steps(config, switch, one, chosen, desired := desired_state(config, chosen), plan(desired, one.entries))
        for config, (_, switch), one, chosen in zip(configs, switches, found, generations, strict=True)
    ]
    if not force and (changed := running_jobs_changed([step.part() for step in steps], renew)):
        raise RunningJobsError(changed)
    for step in steps:
        step.load(program)
    for step in reversed(steps):
        step.write([change for change in step.changes if prepares(change)], program)
    for step in steps:
        step.write([change for change in step.changes if not prepares(change)], program)
        step.check(program)
    return tuple(_reported(step, renew) for step in steps)


def _reported(step: Steps, renew: Collection[str]) -> Report:
    """What was done to one switch, logged as well."""
    generations = {job.name: step.generations.by_job[job.id] for job in step.config.jobs}
    report = Report(step.config.switch.name, not step.found.runs_wanted, tuple(step.changes), generations)
    name, had = report.switch, {row.arg("generation") for row in admissions(step.found.entries).values()}
    for job in step.config.jobs:
        if (generation := generations[job.name]) not in had:
            told = Event.JOB_ADMITTED(
                switch=name, job=job.id, name=job.name, generation=generation, renewed=job.name in renew
            )
            _LOG.info("switch %s: job %s has generation %d", name, job.name, generation, extra=told)
    told = Event.SWITCH_APPLIED(switch=name, program_loaded=report.program_loaded, rows=len(report.changes))
    _LOG.info("switch %s", report, extra=told)
    return report


def read_status(config: Config, *, build_dir: Path | str | None = None, timeout: float = DEFAULT_TIMEOUT_S) -> Status:
    """Read the tables and counters of a switch, and compare them with the configuration. Writes nothing.

    :raises ConfigError, ArtifactError, SwitchError: as for `apply`.
    """
    validate(config)
    return _status(config, Program.load(build_dir), timeout)


def _status(config: Config, program: Program, timeout: float) -> Status:
    with P4Switch(config.switch, timeout, read_only=True) as switch:
        loaded = switch.loaded(program)
        if loaded is None or not loaded.wanted:
            return Status(config.switch.name, program_runs=False, program=loaded.name if loaded else "")
        entries = switch.entries(program)
        (settled,) = with_admitted([config], [entries])
        return summarize(
            with_lanes(settled),
            entries,
            verdicts=switch.counter(program.verdicts_id),
            rejects=switch.counter(program.rejects_id),
            workers=switch.worker_counters(program),
            queues=switch.counter(program.queues_id, queue_cells(entries)),
        )


def with_slots_of(
    job: str,
    source: Config | Topology,
    configs: Sequence[Config],
    *,
    build_dir: Path | str | None = None,
    timeout: float = DEFAULT_TIMEOUT_S,
) -> Config | Topology:
    """Ask the switches for the slots of a job that takes what is free.

    Returns `source` with these slots, or as it is if the switches have not admitted the job. `configs` are those of its
    switches.

    :raises ArtifactError, SwitchError: as for `apply`.
    """
    program = Program.load(build_dir)
    there = [config for config in configs if any(one.name == job for one in config.jobs)]
    with ExitStack() as sessions:
        switches = [sessions.enter_context(P4Switch(one.switch, timeout, read_only=True)) for one in there]
        held = [look(switch, program).entries for switch in switches]
    found = next((one for config in with_admitted(there, held) for one in config.jobs if one.name == job), None)
    if found is None or found.takes_free:
        return source
    jobs = (replace(one, slots=found.slots, takes_free=False) if one.name == job else one for one in source.jobs)
    return replace(source, jobs=tuple(jobs))


def read_all_status(
    configs: Sequence[Config], *, build_dir: Path | str | None = None, timeout: float = DEFAULT_TIMEOUT_S
) -> tuple[Status, ...]:
    """Read the status of several switches, the upper ones first."""
    return statuses(configs, Program.load(build_dir), timeout)


def statuses(configs: Sequence[Config], program: Program, timeout: float) -> tuple[Status, ...]:
    """Do as `read_all_status`, with a compiled program that was read before."""
    for config in configs:
        validate(config)
    check_together(configs)
    return tuple(_status(config, program, timeout) for config in upper_first(configs))


def read_topology_status(
    topology: Topology, *, build_dir: Path | str | None = None, timeout: float = DEFAULT_TIMEOUT_S
) -> tuple[Status, ...]:
    """`read_status` of all switches of a network, upper switches first."""
    validate_topology(topology)
    return read_all_status(configs_of(topology), build_dir=build_dir, timeout=timeout)
