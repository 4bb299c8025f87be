# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules on a job that are the same in a switch's file and in a topology's file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from sumwire_protocol.constants import SLOT_WORDS, SLOTS_TOTAL, THC_INDEX_PLANES
from sumwire_protocol.ops import COUNT_MAX, OPS
from sumwire_protocol.tables import P_LEAST, SUM_MAX, can_clip

from sumwire_controller.errors import Problem
from sumwire_controller.model.config import OP_CODES, Job, SlotRange, Thc
from sumwire_controller.rules.addresses import repeated

OP_HOSTS_MAX: Final = {op.name: op.workers_max for op in OPS if op.workers_max < COUNT_MAX}
"""The most hosts whose contributions fit the payload of an op, for the ops with less room than COUNT_MAX."""
OP_BELOW_MAX: Final = {op.name: op.workers_below_max for op in OPS if op.workers_below_max < COUNT_MAX}
"""The most hosts below one switch whose contributions fit that switch's partial results."""
PARENTS: Final = (1, 2, 4)
"""The numbers of switches above that a job may have. The lowest bits of a slot's number select one of them."""


def op_rules(path: str, job: Job) -> Iterator[Problem]:
    """The ops are known, none is repeated, and `thc` is given exactly with op thc."""
    if not job.ops:
        yield Problem(path, "ops", [], f"must name at least one of {', '.join(OP_CODES)}")
    for i, op in enumerate(job.ops):
        if op not in OP_CODES:
            yield Problem(path, f"ops[{i}]", op, f"unknown op; known are {', '.join(OP_CODES)}")
    yield from repeated(((f"{path}.ops", f"[{i}]", op) for i, op in enumerate(job.ops)), "op")
    if "thc" in job.ops and job.thc is None:
        yield Problem(path, "thc", None, "is required with op thc: add it")
    if "thc" not in job.ops and job.thc is not None:
        yield Problem(path, "thc", "{...}", "is only for op thc, which this job does not have: leave it out")
    if job.blind and "sum32" not in job.ops:
        yield Problem(path, "ops", list(job.ops), "must have sum32, which sums what a blind job masks: add it")


def slot_rules(path: str, slots: SlotRange) -> Iterator[Problem]:
    """The slots are within the switch's. How many slots a job needs is in `rules/lanes.py`."""
    if slots.base < 0:
        yield Problem(path, "base", slots.base, "must be 0 or more")
    if slots.end > SLOTS_TOTAL:
        beyond = f"slots {slots.base}..{slots.end - 1} end beyond the switch's {SLOTS_TOTAL}"
        rule = f"{beyond}: must be at most {max(SLOTS_TOTAL - slots.base, 0)} from this base on"
        yield Problem(path, "count", slots.count, rule)


def thc_rules(path: str, thc: Thc, workers: int) -> Iterator[Problem]:
    """The table is well formed, and the sum over `workers` hosts fits the planes of a slot."""
    if not can_clip(thc.p):
        yield Problem(path, "p", thc.p, f"must lie between 0 and 1, both excluded, and be no less than {P_LEAST:g}")
    if not 1 <= thc.bits <= THC_INDEX_PLANES:
        yield Problem(path, "bits", thc.bits, f"must be 1..{THC_INDEX_PLANES}")
    elif len(thc.table) != 1 << thc.bits:
        yield Problem(
            path, "table", list(thc.table), f"must have 2^bits = {1 << thc.bits} values, not {len(thc.table)}"
        )
    yield from _thc_table(path, thc.table)
    if thc.table and thc.granularity * workers > SUM_MAX:
        product = f"granularity {thc.granularity} * {workers} workers = {thc.granularity * workers}"
        rule = f"{product} overflows the sums of {SLOT_WORDS} planes (at most {SUM_MAX}); {_largest(thc.granularity)}"
        yield Problem(path, "granularity", thc.granularity, rule)


def _largest(granularity: int) -> str:
    fit = SUM_MAX // granularity
    return f"at most {fit} workers fit this table" if fit else "it fits no worker at all"


def _thc_table(path: str, table: tuple[int, ...]) -> Iterator[Problem]:
    for i, value in enumerate(table):
        if not 0 <= value <= SUM_MAX:
            yield Problem(path, f"table[{i}]", value, f"must be 0..{SUM_MAX}")
        if i == 0 and value != 0:
            yield Problem(path, "table[0]", value, "must be 0, the table's first value")
        if i > 0 and value <= table[i - 1] and not 0 < value == table[i - 1] == table[-1]:
            rule = f"must be above the value before it, {table[i - 1]}; only the last value may be repeated"
            yield Problem(path, f"table[{i}]", value, rule)


def hosts_fit(path: str, job: Job, hosts: int) -> Iterator[Problem]:
    """A packet has room for the contributions of that many hosts."""
    shown = f"{hosts} hosts"
    if hosts > COUNT_MAX:
        yield Problem(path, "workers", shown, f"at most {COUNT_MAX}, the largest count of a packet")
    for op in job.ops:
        if hosts > OP_HOSTS_MAX.get(op, hosts):
            yield Problem(path, "workers", shown, f"at most {OP_HOSTS_MAX[op]} with op {op}")


def quorum_rules(path: str, job: Job, elsewhere: str) -> Iterator[Problem]:
    """The quorum is 1 to all workers, and all of them if the job has several switches.

    :param elsewhere: another switch in the job's tree; empty if there is none.
    """
    workers = len(job.workers)
    if not 1 <= job.quorum <= workers:
        yield Problem(path, "quorum", job.quorum, f"must be 1..{workers}, the number of workers")
    elif job.quorum < workers and elsewhere:
        why = f"{elsewhere} has a part in this job too, and a lower switch sends its sum once"
        rule = f"must be all {workers} workers: {why}"
        yield Problem(path, "quorum", job.quorum, rule)
    elif job.quorum < workers and job.blind:
        rule = f"must be all {workers} workers: masks of a blind job only cancel in the sum of all of them"
        yield Problem(path, "quorum", job.quorum, rule)


def fewer_rules(path: str, job: Job, elsewhere: str) -> Iterator[Problem]:
    """`workers_min` is 1 to all workers, and all of them if the job has several switches.

    :param elsewhere: another switch in the job's tree; empty if there is none.
    """
    workers = len(job.workers)
    if job.workers_min is None or job.workers_min == workers:
        return
    if not 1 <= job.workers_min <= workers:
        yield Problem(path, "workers_min", job.workers_min, f"must be 1..{workers}, the number of workers")
    elif elsewhere:
        rule = f"must be all {workers} workers, since {elsewhere} has a part in this job too: leave it out"
        yield Problem(path, "workers_min", job.workers_min, rule)


def below_fit(path: str, field: str, job: Job, hosts: int, switch: str) -> Iterator[Problem]:
    """A partial result of a switch below has room for the contributions of that many hosts.

    :param switch: the switch below, in words.
    """
    for op in job.ops:
        if hosts > (most := OP_BELOW_MAX.get(op, hosts)):
            yield Problem(path, field, f"{hosts} hosts", f"at most {most} with op {op} below {switch}")


def overlaps(jobs: list[tuple[str, Job]]) -> Iterator[tuple[Job, Job, Problem]]:
    """Every pair of jobs whose slots overlap. The caller adds what mends it."""
    for (path, job), (other_path, other) in combinations(reversed(jobs), 2):
        if job.slots.base < other.slots.end and other.slots.base < job.slots.end:
            shown = f"{job.slots.base}..{job.slots.end - 1}"
            rule = f"overlaps slots {other.slots.base}..{other.slots.end - 1} of {other_path} ({other.name})"
            yield job, other, Problem(path, "slots", shown, rule)


def either(numbers: tuple[int, ...]) -> str:
    """The numbers in words: "1, 2 or 4"."""
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}"
