# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The writes that bring a switch to its configuration, in a safe order. Pure.

A job's row of the job table admits its packets. When a job changes or is removed, this row is deleted first; when a job
is new, it is written last. So no packet meets a job of which only some rows are there. The rows of its workers are
written anew each time, so their counters count since the job was admitted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from sumwire_controller.derive.desired import desired_entries, job_entries
from sumwire_controller.derive.entries import Entry, admissions, admits, counts, is_ledger, job_of, last_generation
from sumwire_controller.model.config import Config

_GENERATION_MAX = (1 << 32) - 1
_WITHDRAWAL = 1
"""The step of a plan in which jobs are withdrawn."""


class Write(Enum):
    """P4Runtime's kinds of write."""

    INSERT = "insert"
    MODIFY = "modify"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Change:
    """One write. `entry` is the present entry for DELETE, and the new one for INSERT and MODIFY."""

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
    """A generation that no job of the switch has had: the clock's time, or the next number if that was given already.

    :param last: the highest generation given so far.
    :param now: unix time in seconds.
    """
    return max(now, last + 1) & _GENERATION_MAX or 1


def choose_generations(config: Config, actual: Collection[Entry], renew: Collection[str], now: int) -> Generations:
    """A generation for each job. A job keeps its generation if the switch already has all its entries unchanged.

    :param renew: names of jobs that get a new generation in any case.
    :param now: unix time in seconds.
    """
    (chosen,) = choose_generations_together([config], [actual], renew, now)
    return chosen


def choose_generations_together(
    configs: Sequence[Config], actual: Sequence[Collection[Entry]], renew: Collection[str], now: int
) -> list[Generations]:
    """`choose_generations` for several switches. A job that gets a new generation on one gets the same on all.

    Otherwise the slots of one switch would start from round 0 while those of another still held a later round, and what
    a greeting says to one switch would not be for the generation of another.
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
    """Job id -> its entries; None -> those that belong to no job."""
    found: dict[int | None, set[Entry]] = {}
    for entry in entries:
        found.setdefault(job_of(entry), set()).add(entry)
    return found


def desired_state(config: Config, generations: Generations) -> frozenset[Entry]:
    """The entries that the switch should hold, with the chosen generations."""
    return desired_entries(config, generations.by_job, generations.last)


def plan(desired: Collection[Entry], actual: Collection[Entry]) -> list[Change]:
    """The writes that turn `actual` into `desired`, in a safe order; empty if they are equal."""
    wanted = {entry.identity: entry for entry in desired}
    held = {entry.identity: entry for entry in actual}
    before, after = admissions(actual), admissions(desired)
    admitted = {job for job, row in after.items() if before.get(job) != row}
    changes: list[Change] = []
    for identity, entry in held.items():
        if identity not in wanted or _comes_anew(entry, admitted):
            changes.append(Change(Write.DELETE, entry))
    for identity, entry in wanted.items():
        if identity not in held or _comes_anew(entry, admitted):
            changes.append(Change(Write.INSERT, entry))
        elif held[identity] != entry:
            changes.append(Change(Write.MODIFY, entry))
    return sorted(changes, key=_order)


def _comes_anew(entry: Entry, admitted: Collection[int]) -> bool:
    """Is this row of a job that is admitted anew deleted and inserted, also if it stays as it is?"""
    return (admits(entry) or counts(entry)) and job_of(entry) in admitted


def _order(change: Change) -> tuple[int, str]:
    """Sort key: the ledger first, before a new generation is used. Within a step by text: plans are repeatable."""
    if is_ledger(change.entry):
        step = 0
    elif change.write is Write.DELETE:
        step = _WITHDRAWAL if admits(change.entry) else 2
    else:
        step = 4 if admits(change.entry) else 3
    return (step, str(change))


def prepares(change: Change) -> bool:
    """Does the write update the ledger or withdraw a job? Such writes come first in a plan."""
    return _order(change)[0] <= _WITHDRAWAL


def differences(desired: Collection[Entry], actual: Collection[Entry]) -> list[str]:
    """A line for each difference: "missing", "foreign" (only on the switch) or "differs"."""
    wanted = {entry.identity: entry for entry in desired}
    held = {entry.identity: entry for entry in actual}
    lines = [f"missing: {entry}" for identity, entry in wanted.items() if identity not in held]
    lines += [f"foreign: {entry}" for identity, entry in held.items() if identity not in wanted]
    for identity in wanted.keys() & held.keys():
        if wanted[identity] != held[identity]:
            lines.append(f"differs: {held[identity]}, want {wanted[identity]}")
    return sorted(lines)
