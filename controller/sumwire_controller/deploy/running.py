# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What an apply would change for jobs that have run. Pure.

A job has run if a worker of it has sent a packet since the job was admitted. Whether the run is over the controller
cannot know. A job that is only made whole, because a switch of its tree has lost it, is not listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sumwire_controller.deploy.reconcile import Generations, by_job
from sumwire_controller.derive.desired import job_entries
from sumwire_controller.derive.entries import Entry, MulticastGroup, TableEntry, admissions, admits
from sumwire_controller.derive.tables import DEGRADE, REPLICA, THC_HIGH, THC_LOW, UPLINK, WORKER
from sumwire_controller.errors import JobChange
from sumwire_controller.model.config import Config, Job

_WORDS = {
    WORKER.name: "workers",
    REPLICA.name: "workers",
    UPLINK.name: "switches above",
    THC_LOW.name: "thc table",
    THC_HIGH.name: "thc table",
    DEGRADE.name: "degrade",
}


@dataclass(frozen=True, slots=True)
class Part:
    """What an apply would do to one switch.

    `config` has a job for each lane, `generations` are those it would have, `held` are the present entries. `packets`
    are those that each job's workers have sent since it was admitted, by job id. If the switch runs another program,
    `held` is empty, `packets` has the jobs of that program, and `other_program` is its name.
    """

    config: Config
    held: Collection[Entry]
    generations: Generations
    packets: Mapping[int, int] = field(default_factory=dict)
    other_program: str = ""


def running_jobs_changed(parts: Sequence[Part], renewed: Collection[str]) -> list[JobChange]:
    """A line for each switch and job that has run and would change or leave.

    :param renewed: names of jobs (of their lanes) that are to be renewed in any case; they are not listed.
    """
    found = [(change, alters) for part in parts for change, alters in _changes(part)]
    have_run = {job for part in parts for job, packets in part.packets.items() if packets}
    altered = {change.job for change, alters in found if alters} & have_run
    return [change for change, _ in found if change.job in altered and not (change.name and change.name in renewed)]


def _changes(part: Part) -> Iterator[tuple[JobChange, bool]]:
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


def _differing(part: Part, job: Job, held: set[Entry]) -> tuple[str, ...]:
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
