# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Formats a switch's entries and counters as text or JSON. Pure: the numbers are read elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sumwire_protocol.metrics import QUEUE_CELLS_OF_PORT, REJECT_NAMES, VERDICT_NAMES, queue_labels

from sumwire_controller.deploy.reconcile import Generations, desired_state, differences
from sumwire_controller.derive.entries import VIRTUAL_QUEUE, Entry, TableEntry, admissions, last_generation
from sumwire_controller.model import Config


@dataclass(frozen=True, slots=True)
class CountedCell:
    """A cell of a counter."""

    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job on the switch. `name` is from the configuration; it is "" if the configuration has no such job."""

    id: int
    name: str
    generation: int
    slot_base: int
    slots: int
    quorum: int


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The packets that a worker has sent since its job was admitted, rejected packets included."""

    job: int
    worker: int
    name: str
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The packets of one drop class for which a port's virtual queue took one decision: pass, mark, drop or trim.

    A port has a queue for packets with a priority (`tagged`) and one for the others. `bytes` counts their sizes before
    they were cut.
    """

    port: int
    tagged: bool
    drop_class: int
    decision: str
    packets: int
    bytes: int


@dataclass(frozen=True)
class Status:
    """The data that the command `status` shows. `differences` is empty if the switch has the entries of its
    configuration.

    `program` is the name and version of another program that the switch runs; "" if it runs none.
    """

    switch: str
    program_runs: bool
    program: str = ""
    jobs: tuple[JobStatus, ...] = ()
    verdicts: dict[str, CountedCell] = field(default_factory=dict)
    rejects: dict[str, CountedCell] = field(default_factory=dict)
    workers: tuple[WorkerStatus, ...] = ()
    queues: tuple[QueueStatus, ...] = ()
    entries: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def in_sync(self) -> bool:
        return self.program_runs and not self.differences

    def as_json(self) -> dict[str, Any]:
        """Return the status as plain data."""
        return {**asdict(self), "in_sync": self.in_sync}

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def summarize(
    config: Config,
    actual: Collection[Entry],
    *,
    verdicts: Mapping[int, tuple[int, int]],
    rejects: Mapping[int, tuple[int, int]],
    workers: Mapping[tuple[int, ...], tuple[int, int]],
    queues: Mapping[int, tuple[int, int]] | None = None,
) -> Status:
    """Compute the status of a switch from its entries and counters.

    Counters are (packets, bytes) by index; `workers` are by (job id, seat).
    """
    jobs = {job.id: job for job in config.jobs}
    return Status(
        switch=config.switch.name,
        program_runs=True,
        jobs=tuple(_jobs(config, actual)),
        verdicts=_named(verdicts, VERDICT_NAMES),
        rejects=_named(rejects, REJECT_NAMES),
        workers=tuple(
            WorkerStatus(job, worker, _worker_name(jobs[job].workers if job in jobs else (), worker), *count)
            for (job, worker), count in sorted(workers.items())
        ),
        queues=tuple(_queue(index, count) for index, count in sorted((queues or {}).items()) if count[0]),
        entries=tuple(sorted(map(str, actual))),
        differences=tuple(differences(desired_state(config, _generations_held(config, actual)), actual)),
    )


def queue_cells(entries: Collection[Entry]) -> list[int]:
    """Return the counter's indices for all ports that have a virtual queue."""
    tables = (entry for entry in entries if isinstance(entry, TableEntry) and entry.table == VIRTUAL_QUEUE.name)
    return [row.key[0] * QUEUE_CELLS_OF_PORT + cell for row in tables for cell in range(QUEUE_CELLS_OF_PORT)]


def _queue(index: int, count: tuple[int, int]) -> QueueStatus:
    port, cell = divmod(index, QUEUE_CELLS_OF_PORT)
    labels = queue_labels(cell)
    return QueueStatus(port, labels.tagged, labels.drop_class, labels.decision, *count)


def _generations_held(config: Config, actual: Collection[Entry]) -> Generations:
    """The generations that the switch has, so that they are not reported as differences."""
    rows = admissions(actual)
    held = {job.id: rows[job.id].arg("generation") if job.id in rows else 0 for job in config.jobs}
    return Generations(held, last_generation(actual))


def _jobs(config: Config, actual: Collection[Entry]) -> Iterator[JobStatus]:
    names = {job.id: job.name for job in config.jobs}
    for job, row in sorted(admissions(actual).items()):
        generation, base, slots, quorum = row.args[:4]
        yield JobStatus(job, names.get(job, ""), generation, base, slots, quorum)


def _named(cells: Mapping[int, tuple[int, int]], names: Mapping[int, str]) -> dict[str, CountedCell]:
    """Every cell that has a name, and the others only if they are not zero."""
    known = {name: CountedCell(*cells.get(index, (0, 0))) for index, name in names.items()}
    return known | {
        str(index): CountedCell(*count) for index, count in cells.items() if index not in names and count[0]
    }


def _worker_name(workers: tuple[str, ...], number: int) -> str:
    return workers[number] if number < len(workers) else ""


def _lines(status: Status) -> Iterator[str]:
    if not status.program_runs:
        other = f"another program ({status.program}), maybe of another version" if status.program else "no program"
        yield f"{status.switch}: runs {other}; load ours: sumwire-controller apply CONFIG"
        return
    yield f"{status.switch}: " + ("as configured" if status.in_sync else f"{len(status.differences)} differences")
    yield from (f"  {line}" for line in status.differences)
    for job in status.jobs:
        slots = f"slots {job.slot_base}..{job.slot_base + job.slots - 1}"
        name = job.name or "(not configured)"
        yield f"job {job.id} {name}: {slots}, quorum {job.quorum}, generation {job.generation}"
        for worker in status.workers:
            if worker.job == job.id:
                yield f"  worker {worker.worker} {worker.name}: {worker.packets} packets, {worker.bytes} bytes"
    yield from _counts("verdicts", status.verdicts)
    yield from _counts("rejects", status.rejects)
    if status.queues:
        yield "virtual queues (packets, bytes):"
    for queue in status.queues:
        kind = "tagged" if queue.tagged else "other"
        name = f"port {queue.port} {kind} class {queue.drop_class} {queue.decision}"
        yield f"  {name:<32} {queue.packets:>12} {queue.bytes:>15}"
    yield "entries:"
    yield from (f"  {entry}" for entry in status.entries)


def _counts(title: str, counts: Mapping[str, CountedCell]) -> Iterator[str]:
    yield f"{title} (packets, bytes):"
    for name, count in counts.items():
        yield f"  {name:<12} {count.packets:>12} {count.bytes:>15}"
