# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules on the parts that a switch's file and a topology file have in common: names, addresses, jobs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address
from itertools import combinations
from typing import Final

from sumwire_protocol.constants import (
    DROP_PORT,
    SIGN_WORKERS_MAX,
    SLOT_WORDS,
    SLOTS_TOTAL,
    THC_INDEX_PLANES,
    VOTE_WORKERS_MAX,
)

from sumwire_controller.errors import Problem
from sumwire_controller.model.config import MAC_PATTERN, MAC_RULE, OP_CODES, Job, SlotRange, Switch, Thc, mac_number

PORT_MAX: Final = DROP_PORT - 1
SUM_MAX: Final = (1 << SLOT_WORDS) - 1
"""Largest sum that fits the planes of a slot."""
COUNT_MAX: Final = (1 << 8) - 1
"""Largest `count` that fits its field in a packet."""
OP_HOSTS_MAX: Final = {"sign": SIGN_WORKERS_MAX, "vote": VOTE_WORKERS_MAX}
"""Hosts whose contributions an op's payload has room for, for the ops that have less room than COUNT_MAX."""
PARENTS: Final = (1, 2, 4)
"""A job's slots can be shared out among this many switches above: by the lowest bits of the slot's number."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MAC_GROUP_BIT: Final = 1 << 40


def switch_rules(path: str, switch: Switch) -> Iterator[Problem]:
    yield from name_rule(path, switch.name)
    host, colon, port = switch.grpc.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        yield Problem(path, "grpc", switch.grpc, "must be host:port with a port of 1..65535")
    if not 0 <= switch.device_id < 1 << 64:
        yield Problem(path, "device_id", switch.device_id, "must be 0..2^64-1")


def name_rule(path: str, name: str) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        yield Problem(path, "name", name, "must be letters, digits, '_', '.' and '-', beginning with a letter or digit")


def address_rules(path: str, ip: IPv4Address, mac: str) -> Iterator[Problem]:
    if ip.is_multicast or ip.is_unspecified or ip.is_loopback or ip.is_reserved:
        yield Problem(path, "ip", str(ip), "must be a unicast address of a host")
    if not MAC_PATTERN.fullmatch(mac):
        yield Problem(path, "mac", mac, MAC_RULE)
    elif mac_number(mac) == 0 or mac_number(mac) & _MAC_GROUP_BIT:
        yield Problem(path, "mac", mac, "must be a unicast address, not zero")


def repeated(fields: Iterable[tuple[str, str, object]], what: str) -> Iterator[Problem]:
    first: dict[object, str] = {}
    for path, field, value in fields:
        if value in first:
            yield Problem(path, field, value, f"{what} is already that of {first[value]}")
        else:
            first[value] = path if not field.startswith("[") else path + field


def op_rules(path: str, job: Job) -> Iterator[Problem]:
    if not job.ops:
        yield Problem(path, "ops", [], f"must name at least one of {', '.join(OP_CODES)}")
    for i, op in enumerate(job.ops):
        if op not in OP_CODES:
            yield Problem(path, f"ops[{i}]", op, f"unknown op; known are {', '.join(OP_CODES)}")
    yield from repeated(((f"{path}.ops", f"[{i}]", op) for i, op in enumerate(job.ops)), "op")
    if "thc" in job.ops and job.thc is None:
        yield Problem(path, "thc", None, "is required with op thc")
    if "thc" not in job.ops and job.thc is not None:
        yield Problem(path, "thc", "{...}", "is only for op thc, which this job does not have")


def slot_rules(path: str, slots: SlotRange) -> Iterator[Problem]:
    """Are the slots on the switch? `lane_rules.py` knows how many a job needs."""
    if slots.base < 0:
        yield Problem(path, "base", slots.base, "must be 0 or more")
    if slots.end > SLOTS_TOTAL:
        rule = f"slots {slots.base}..{slots.end - 1} end beyond the switch's {SLOTS_TOTAL}"
        yield Problem(path, "count", slots.count, rule)


def thc_rules(path: str, thc: Thc, workers: int) -> Iterator[Problem]:
    if not (math.isfinite(thc.p) and 0 < thc.p < 1):
        yield Problem(path, "p", thc.p, "must lie between 0 and 1, both excluded")
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
        if i > 0 and value <= table[i - 1]:
            yield Problem(path, f"table[{i}]", value, f"must be above the value before it, {table[i - 1]}")


def hosts_fit(path: str, job: Job, hosts: int) -> Iterator[Problem]:
    """Is there room for the contributions of that many hosts?"""
    shown = f"{hosts} hosts"
    if hosts > COUNT_MAX:
        yield Problem(path, "workers", shown, f"at most {COUNT_MAX}, the largest count of a packet")
    for op in job.ops:
        if hosts > OP_HOSTS_MAX.get(op, hosts):
            yield Problem(path, "workers", shown, f"at most {OP_HOSTS_MAX[op]} with op {op}")


def quorum_rules(path: str, job: Job, elsewhere: str) -> Iterator[Problem]:
    """:param elsewhere: another switch that has a part in the job, empty if there is none."""
    workers = len(job.workers)
    if not 1 <= job.quorum <= workers:
        yield Problem(path, "quorum", job.quorum, f"must be 1..{workers}, the number of workers")
    elif job.quorum < workers and elsewhere:
        rule = f"must be all {workers} workers: {elsewhere} has a part in this job too"
        yield Problem(path, "quorum", job.quorum, rule)


def overlaps(jobs: list[tuple[str, Job]]) -> Iterator[tuple[Job, Job, Problem]]:
    """Every pair of jobs that want the same slots."""
    for (path, job), (other_path, other) in combinations(reversed(jobs), 2):
        if job.slots.base < other.slots.end and other.slots.base < job.slots.end:
            shown = f"{job.slots.base}..{job.slots.end - 1}"
            rule = f"overlaps slots {other.slots.base}..{other.slots.end - 1} of {other_path} ({other.name})"
            yield job, other, Problem(path, "slots", shown, rule)


def either(numbers: tuple[int, ...]) -> str:
    """The numbers in words."""
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}"
