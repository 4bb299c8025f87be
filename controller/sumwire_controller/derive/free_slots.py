# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Gives slots to the jobs that take what is free (`slots: {most: N}`). Pure functions.

A job that the switches have admitted keeps its slots. A new one gets the largest part that is free at all its switches,
at most N slots. Jobs that come together are served in the order of the file.

Example: a switch has 4096 slots. The first job with `most: 3000` gets slots 0 to 2999, the second 3000 to 4095, and the
third is refused. When the first job has left the file, the third gets 0 to 2999.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from sumwire_protocol.constants import JUMBO_SLOTS, SLOTS_TOTAL
from sumwire_protocol.ops import JUMBO

from sumwire_controller.derive.entries import Entry, TableEntry, admissions
from sumwire_controller.errors import NoFreeSlotsError
from sumwire_controller.model import SLOTS_MIN, Config, Job, SlotRange


def with_admitted(configs: Sequence[Config], held: Sequence[Collection[Entry]]) -> list[Config]:
    """Return the configurations with the slots of the jobs that their switches have admitted. Jobs that are not
    admitted stay as they are.

    :param held: the entries of each switch.
    """
    return _with(configs, _admitted(_wishes(configs), held))


def with_free(configs: Sequence[Config], held: Sequence[Collection[Entry]]) -> list[Config]:
    """Return the configurations with slots for every job. Parameters are those of `with_admitted`.

    :raises NoFreeSlotsError: for a job there are fewer slots than it needs at least.
    """
    wishes = _wishes(configs)
    given = _admitted(wishes, held)
    for number, wish in wishes.items():
        if number not in given:
            given[number] = wish.largest([slots for other, slots in given.items() if wish.meets(wishes[other])])
    return _with(configs, given)


@dataclass(frozen=True, slots=True)
class _Wish:
    """A job that takes what is free. `at` has the numbers of its switches, and `fixed` the slots that other jobs there
    have by the file. It needs `least` slots, a multiple of `step`, that end before `end`."""

    job: Job
    at: frozenset[int]
    fixed: tuple[SlotRange, ...]
    least: int
    step: int
    end: int

    def meets(self, other: _Wish) -> bool:
        return not self.at.isdisjoint(other.at)

    def free(self, taken: Collection[SlotRange]) -> list[int]:
        used = {slot for slots in (*self.fixed, *taken) for slot in range(slots.base, slots.end)}
        return [slot for slot in range(self.end) if slot not in used]

    def keeps(self, rows: Collection[TableEntry], taken: Collection[SlotRange]) -> SlotRange | None:
        """Return the slots that the job has by its rows of the job table; None if it cannot keep them."""
        ranges = {SlotRange(row.arg("slot_base"), row.arg("job_slots") * self.job.lanes) for row in rows}
        slots = ranges.pop() if len(ranges) == 1 else SlotRange(0, 0)
        fits = self.least <= slots.count <= self.job.slots.count and slots.count % self.step == 0
        return slots if fits and set(range(slots.base, slots.end)) <= set(self.free(taken)) else None

    def largest(self, taken: Collection[SlotRange]) -> SlotRange:
        """Return the largest free part, at most as many slots as the job may have."""
        # Slots that follow each other differ from their places in the list by the same number.
        runs = groupby(enumerate(self.free(taken)), lambda place: place[1] - place[0])
        parts = [[slot for _, slot in run] for _, run in runs]
        best = max(parts, key=len, default=[])
        count = min(len(best), self.job.slots.count) // self.step * self.step
        if count < self.least:
            raise NoFreeSlotsError(
                f"job {self.job.name}: {len(best)} slots are free, and it needs {self.least}: give other jobs fewer "
                "`slots`, or take a job that has ended out of the configuration"
            )
        return SlotRange(best[0], count)


def _wishes(configs: Sequence[Config]) -> dict[int, _Wish]:
    """The jobs that take what is free, by id, in the order of the files."""
    found: dict[int, _Wish] = {}
    for job in (job for config in configs for job in config.jobs if job.takes_free and job.id not in found):
        at = frozenset(number for number, config in enumerate(configs) if job.id in {one.id for one in config.jobs})
        there = [one for number in sorted(at) for one in configs[number].jobs]
        fixed = tuple(one.slots for one in there if not one.takes_free)
        step = job.lanes * math.lcm(*(max(len(one.parents), 1) for one in there if one.id == job.id))
        least = max(SLOTS_MIN * job.lanes, step)
        found[job.id] = _Wish(job, at, fixed, least, step, JUMBO_SLOTS if JUMBO.name in job.ops else SLOTS_TOTAL)
    return found


def _admitted(wishes: Mapping[int, _Wish], held: Sequence[Collection[Entry]]) -> dict[int, SlotRange]:
    """The slots of the jobs that can keep theirs, by id."""
    rows = [admissions(entries) for entries in held]
    found: dict[int, SlotRange] = {}
    for number, wish in wishes.items():
        own = [rows[at][number] for at in wish.at if number in rows[at]]
        slots = wish.keeps(own, [slots for other, slots in found.items() if wish.meets(wishes[other])])
        if slots is not None:
            found[number] = slots
    return found


def _with(configs: Sequence[Config], given: Mapping[int, SlotRange]) -> list[Config]:
    def settled(job: Job) -> Job:
        return replace(job, slots=given[job.id], takes_free=False) if job.id in given else job

    return [replace(config, jobs=tuple(map(settled, config.jobs))) for config in configs]
