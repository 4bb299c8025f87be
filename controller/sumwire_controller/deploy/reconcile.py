# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Computes the writes that bring a switch to its configuration, in a safe order. Pure functions.

A job's row of the job table admits its packets. When a job changes or is removed, this row is deleted first; when a job
is new, it is written last. So no packet meets a job of which only some rows are there. The rows of its workers are
written anew each time, so their counters count since the job was admitted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from sumwire_controller.derive.desired import desired_entries, job_entries
from sumwire_controller.derive.entries import (
    DEGRADE,
    REPLICA,
    THC_HIGH,
    THC_LOW,
    UPLINK,
    WORKER,
    Entry,
    MulticastGroup,
    TableEntry,
    admissions,
    admits,
    counts,
    is_ledger,
    job_of,
    last_generation,
)
from sumwire_controller.errors import JobChange
from sumwire_controller.model import Config, Job

_GENERATION_MAX = (1 << 32) - 1
_WITHDRAWAL = 1
"""The step of a plan in which jobs are withdrawn."""


class Write(Enum):
    """The kinds of write that P4Runtime has."""

    INSERT = "insert"
    MODIFY = "modify"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class EntryChange:
    """One write. `entry` is the present entry for DELETE, and the new entry for INSERT and MODIFY."""

    write: Write
    entry: Entry

    def __str__(self) -> str:
        return f"{self.write.value} {self.entry}"


@dataclass(frozen=True, slots=True)
class Generations:
    """Job id -> generation for the jobs of a configuration, and the highest generation ever given on the switch."""

    by_job: dict[int, int]
    last: int


def next_generation(last: int, now: int) -> int:
    """Return a generation that no job of the switch has had: the time, or the next number if the time was given
    already.

    :param last: the highest generation given so far.
    :param now: unix time in seconds.
    """
    return max(now, last + 1) & _GENERATION_MAX or 1


def choose_generations(
    configs: Sequence[Config], actual: Sequence[Collection[Entry]], renew: Collection[str], now: int
) -> list[Generations]:
    """Choose a generation for each job of each switch.

    A job keeps its generation if every switch already has all its entries unchanged. Otherwise it gets a new one, the
    same on all. With different generations the slots of one switch would start from round 0 while those of another
    still held a later round, and a handshake valid for one switch would not be for another.

    :param renew: names of jobs that get a new generation in any case.
    :param now: unix time in seconds.
    """
    kept = [_unchanged(config, held, renew) for config, held in zip(configs, actual, strict=True)]
    last = max((last_generation(held) for held in actual), default=0)
    jobs = [[job.id for job in config.jobs] for config in configs]
    chosen: dict[int, int] = {}
    for job in dict.fromkeys(job for ids in jobs for job in ids):
        (known, *others) = {here.get(job) for ids, here in zip(jobs, kept, strict=True) if job in ids}
        if others or known is None:
            last = known = next_generation(last, now)
        chosen[job] = known
    return [
        Generations(own := {job: chosen[job] for job in ids}, max(last_generation(held), *own.values(), 0))
        for ids, held in zip(jobs, actual, strict=True)
    ]


def _unchanged(config: Config, actual: Collection[Entry], renew: Collection[str]) -> dict[int, int]:
    """Job id -> generation for the jobs whose entries the switch has as they should be."""
    current, held = admissions(actual), by_job(actual)
    rows = {job: current[job.id] for job in config.jobs if job.id in current and job.name not in renew}
    generations = {job: row.arg("generation") for job, row in rows.items()}
    return {
        job.id: generation
        for job, generation in generations.items()
        if held[job.id] == set(job_entries(config, job, generation))
    }


def by_job(entries: Iterable[Entry]) -> dict[int | None, set[Entry]]:
    """Return entries by job id; None has those that belong to no job."""
    found: dict[int | None, set[Entry]] = {}
    for entry in entries:
        found.setdefault(job_of(entry), set()).add(entry)
    return found


def desired_state(config: Config, generations: Generations) -> frozenset[Entry]:
    """Return the entries that the switch should hold, with the chosen generations."""
    return desired_entries(config, generations.by_job, generations.last)


def plan(desired: Collection[Entry], actual: Collection[Entry]) -> list[EntryChange]:
    """Return the writes that turn `actual` into `desired`, in a safe order; empty if they are equal."""
    wanted = {entry.identity: entry for entry in desired}
    held = {entry.identity: entry for entry in actual}
    before, after = admissions(actual), admissions(desired)
    admitted = {job for job, row in after.items() if before.get(job) != row}
    changes: list[EntryChange] = []
    for identity, entry in held.items():
        if identity not in wanted or _comes_anew(entry, admitted):
            changes.append(EntryChange(Write.DELETE, entry))
    for identity, entry in wanted.items():
        if identity not in held or _comes_anew(entry, admitted):
            changes.append(EntryChange(Write.INSERT, entry))
        elif held[identity] != entry:
            changes.append(EntryChange(Write.MODIFY, entry))
    return sorted(changes, key=_order)


def _comes_anew(entry: Entry, admitted: Collection[int]) -> bool:
    """Is this row of a job that is admitted anew deleted and inserted, also if it stays as it is?"""
    return (admits(entry) or counts(entry)) and job_of(entry) in admitted


def _order(change: EntryChange) -> tuple[int, str]:
    """Sort key: the ledger first, before a new generation is used. Within a step by text: plans are repeatable."""
    if is_ledger(change.entry):
        step = 0
    elif change.write is Write.DELETE:
        step = _WITHDRAWAL if admits(change.entry) else 2
    else:
        step = 4 if admits(change.entry) else 3
    return (step, str(change))


def prepares(change: EntryChange) -> bool:
    """Return whether the write updates the ledger or withdraws a job. Such writes come first in a plan."""
    return _order(change)[0] <= _WITHDRAWAL


def differences(desired: Collection[Entry], actual: Collection[Entry]) -> list[str]:
    """Return a line for each difference: "missing", "foreign" (only on the switch) or "differs"."""
    wanted = {entry.identity: entry for entry in desired}
    held = {entry.identity: entry for entry in actual}
    lines = [f"missing: {entry}" for identity, entry in wanted.items() if identity not in held]
    lines += [f"foreign: {entry}" for identity, entry in held.items() if identity not in wanted]
    for identity in wanted.keys() & held.keys():
        if wanted[identity] != held[identity]:
            lines.append(f"differs: {held[identity]}, want {wanted[identity]}")
    return sorted(lines)


_WORDS = {
    WORKER.name: "workers",
    REPLICA.name: "workers",
    UPLINK.name: "switches above",
    THC_LOW.name: "thc table",
    THC_HIGH.name: "thc table",
    DEGRADE.name: "degrade",
}


@dataclass(frozen=True, slots=True)
class SwitchChanges:
    """What an apply would do to one switch.

    `config` has a job for each lane, `generations` are the new ones, `held` are the present entries. `packets` counts,
    by job id, the packets that each job's workers have sent since it was admitted. If the switch runs another program,
    `held` is empty, `packets` has the jobs of that program, and `other_program` is its name.
    """

    config: Config
    held: Collection[Entry]
    generations: Generations
    packets: Mapping[int, int] = field(default_factory=dict)
    other_program: str = ""


def running_jobs_changed(parts: Sequence[SwitchChanges], renewed: Collection[str]) -> list[JobChange]:
    """Return a line for each switch and job that has run and would change or leave.

    :param renewed: names of jobs (of their lanes) that are to be renewed anyway; they are not listed.
    """
    found = [(change, alters) for part in parts for change, alters in _changes(part)]
    have_run = {job for part in parts for job, packets in part.packets.items() if packets}
    altered = {change.job for change, alters in found if alters} & have_run
    return [change for change, _ in found if change.job in altered and not (change.name and change.name in renewed)]


def _changes(part: SwitchChanges) -> Iterator[tuple[JobChange, bool]]:
    """Each job that would be withdrawn, and whether more of it would change than its generation."""
    switch, jobs = part.config.switch.name, {job.id: job for job in part.config.jobs}
    if part.other_program:
        for number, packets in sorted(part.packets.items()):
            words: tuple[str, ...] = (f"program {part.other_program} would be replaced",)
            yield JobChange(switch, number, jobs[number].name if number in jobs else "", packets, words), True
    held = by_job(part.held)
    for number in sorted(admissions(part.held)):
        job, packets = jobs.get(number), part.packets.get(number, 0)
        if job is None:
            yield JobChange(switch, number, "", packets), True
        elif words := _differing(part, job, held[number]):
            yield JobChange(switch, number, job.name, packets, words), len(words) > 1


def _differing(part: SwitchChanges, job: Job, held: set[Entry]) -> tuple[str, ...]:
    """What of a job would change, in words, its generation last; empty if nothing would."""
    wanted = set(job_entries(part.config, job, part.generations.by_job[job.id]))
    before, after = admissions(held)[job.id], admissions(wanted)[job.id]
    if before == after:
        return ()
    rows = dict.fromkeys(_word(entry) for entry in sorted(held ^ wanted, key=str) if not admits(entry))
    words = (*rows, *_row_words(before, after))
    if not words and before.arg("digest") != after.arg("digest"):
        words = ("digest",)
    return (*words, f"generation {before.arg('generation')} -> {after.arg('generation')}")


def _word(entry: Entry) -> str:
    return "workers" if isinstance(entry, MulticastGroup) else _WORDS[entry.table]


def _row_words(before: TableEntry, after: TableEntry) -> Iterator[str]:
    """The arguments of a job's row that would change, besides digest and generation."""
    if _slots(before) != _slots(after):
        yield f"slots {_slots(before)} -> {_slots(after)}"
    if before.arg("job_ops") != after.arg("job_ops"):
        yield "ops"
    if before.arg("quorum") != after.arg("quorum"):
        yield f"quorum {before.arg('quorum')} -> {after.arg('quorum')}"
    if before.arg("quorum_least") != after.arg("quorum_least"):
        yield f"workers_min {before.arg('quorum_least') or 'all'} -> {after.arg('quorum_least') or 'all'}"
    if before.arg("spray") != after.arg("spray"):
        yield "spray"


def _slots(row: TableEntry) -> str:
    base = row.arg("slot_base")
    return f"{base}..{base + row.arg('job_slots') - 1}"
