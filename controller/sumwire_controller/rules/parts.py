# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules on parts that a switch's configuration and a topology share: names, addresses, and a job's own fields.

Each function yields a `Problem` for every broken rule. `path` names the object in the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address
from itertools import combinations, pairwise
from typing import Final, TypeVar

from sumwire_protocol.constants import DROP_CLASSES, DROP_PORT, JUMBO_SLOTS, SLOT_WORDS, SLOTS_TOTAL, THC_INDEX_PLANES
from sumwire_protocol.ops import COUNT_MAX, JUMBO, OPS
from sumwire_protocol.tables import P_LEAST, SUM_MAX, can_clip

from sumwire_controller.derive.entries import RATE_PER_MBIT, SEED_BITS
from sumwire_controller.derive.jobs import LANES_MAX, RECOVERY_PORTS
from sumwire_controller.errors import Problem
from sumwire_controller.model import (
    DEGRADE_MODES,
    MAC_PATTERN,
    MAC_RULE,
    OP_CODES,
    SLOTS_MIN,
    SPRAYS,
    Job,
    Switch,
    Thc,
    VirtualQueue,
    mac_number,
)

T = TypeVar("T")

PORT_MAX: Final = DROP_PORT - 1
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_UNIX: Final = "unix:"
_PATH_MAX: Final = 107
_MAC_GROUP_BIT: Final = 1 << 40


def placed(name: str, items: Iterable[T | None]) -> list[tuple[str, T]]:
    """Return the readable parts of a list in a file, each with its path."""
    return [(f"{name}[{i}]", item) for i, item in enumerate(items) if item is not None]


def switch_rules(path: str, switch: Switch) -> Iterator[Problem]:
    """Check that a switch's name, server and device id are well formed."""
    yield from name_rule(path, switch.name)
    if not (_is_socket(switch.grpc) if switch.grpc.startswith(_UNIX) else _is_host_and_port(switch.grpc)):
        yield Problem(path, "grpc", switch.grpc, "must be host:port with a port of 1..65535, or unix:/path")
    if not 0 <= switch.device_id < 1 << 64:
        yield Problem(path, "device_id", switch.device_id, "must be 0..2^64-1")


def _is_host_and_port(address: str) -> bool:
    host, colon, port = address.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= len(str(1 << 16))
    return bool(host and colon and is_number and 0 < int(port) < 1 << 16)


def _is_socket(address: str) -> bool:
    """Linux takes paths of sockets of up to 107 bytes."""
    path = address.removeprefix(_UNIX)
    return path.startswith("/") and not path.endswith("/") and "\0" not in path and len(path.encode()) <= _PATH_MAX


_NAME_RULE: Final = "must be letters, digits, '_', '.' and '-', beginning with a letter or digit, 128 at most"


def name_rule(path: str, name: str) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        yield Problem(path, "name", name, _NAME_RULE)


def address_rules(path: str, ip: IPv4Address, mac: str) -> Iterator[Problem]:
    if ip.is_multicast or ip.is_unspecified or ip.is_loopback or ip.is_reserved:
        yield Problem(path, "ip", str(ip), "must be a unicast address of a host")
    if not MAC_PATTERN.fullmatch(mac):
        yield Problem(path, "mac", mac, MAC_RULE)
    elif mac_number(mac) == 0 or mac_number(mac) & _MAC_GROUP_BIT:
        yield Problem(path, "mac", mac, "must be a unicast address, not zero")


def repeated(fields: Iterable[tuple[str, str, object]], what: str) -> Iterator[Problem]:
    """Yield a problem for each value that occurs again.

    :param fields: path, field and value of each.
    :param what: the value's name in messages.
    """
    first: dict[object, str] = {}
    for path, field, value in fields:
        if value in first:
            yield Problem(path, field, value, f"{what} is already that of {first[value]}: give it another")
        else:
            first[value] = path if not field.startswith("[") else path + field


def degrade_rules(path: str, job: Job, elsewhere: str) -> Iterator[Problem]:
    """Rules on a job's `degrade`.

    :param elsewhere: another switch in the job's tree; empty if there is none.
    """
    if job.degrade is None:
        return
    if elsewhere:
        rule = f"is only for a job that one switch has alone; {elsewhere} has a part in this one: leave it out"
        yield Problem(path, "degrade", "{...}", rule)
    if "thc" not in job.ops:
        yield Problem(path, "degrade", "{...}", "is only for op thc, which this job does not have: leave it out")
    path = f"{path}.degrade"
    if not 0 <= job.degrade.seed < 1 << SEED_BITS:
        yield Problem(path, "seed", job.degrade.seed, f"must be 0..2^{SEED_BITS}-1")
    if not (math.isfinite(job.degrade.share) and 0 <= job.degrade.share <= 1):
        yield Problem(path, "share", job.degrade.share, "must be 0..1, the share of the packets that are hit")
    if job.degrade.mode not in DEGRADE_MODES:
        yield Problem(path, "mode", job.degrade.mode, f"must be one of {', '.join(DEGRADE_MODES)}")


JOB_ID_MAX: Final = (1 << 15) - 2
"""A job's multicast group is its id + 1, and bmv2's P4Runtime server reserves the groups from 2^15 on."""
LIMIT_LEAST: Final = 0.01
LIMIT_MOST: Final = ((1 << 32) - 1) / RATE_PER_MBIT
_UDP_PORT_MAX: Final = (1 << 16) - 1


def lane_rules(path: str, job: Job) -> Iterator[Problem]:
    """Rules on the number of lanes, their ids and the number of their slots."""
    if not 1 <= job.lanes <= LANES_MAX:
        yield Problem(path, "lanes", job.lanes, f"must be 1..{LANES_MAX}, the priorities there are")
        return
    if not 0 <= job.id <= JOB_ID_MAX:
        yield Problem(path, "id", job.id, f"must be 0..{JOB_ID_MAX}")
    elif job.ids[-1] > JOB_ID_MAX:
        rule = f"the last of its {job.lanes} lanes would have the id {job.ids[-1]}: at most {JOB_ID_MAX}"
        yield Problem(path, "id", job.id, rule)
    yield from _slots(f"{path}.slots", job)
    if job.spray not in SPRAYS:
        yield Problem(path, "spray", job.spray, f"must be {' or '.join(SPRAYS)}")
    if job.limit_mbit is not None and not LIMIT_LEAST <= job.limit_mbit / job.lanes <= LIMIT_MOST:
        rule = f"must be {LIMIT_LEAST:g}..{LIMIT_MOST:.0f} Mbit/s for each of its {job.lanes} lanes"
        yield Problem(path, "limit_mbit", job.limit_mbit, rule)


def _slots(path: str, job: Job) -> Iterator[Problem]:
    field, count, lanes = slots_field(job), job.slots.count, job.lanes
    if count < SLOTS_MIN:
        yield Problem(path, field, count, f"must be at least {SLOTS_MIN}: half of them are in flight")
    elif count % lanes:
        yield Problem(path, field, count, f"must be a multiple of {lanes}, so that all lanes have equally many")
    elif count // lanes < SLOTS_MIN:
        rule = f"must be at least {SLOTS_MIN * lanes}: {SLOTS_MIN} for each of {lanes} lanes"
        yield Problem(path, field, count, rule)


def slots_field(job: Job) -> str:
    """Return the field of `slots` that says how many."""
    return "most" if job.takes_free else "count"


def divides_equally(job: Job, roots: int) -> bool:
    """Return whether each lane's slots can be divided equally among `roots` roots. A wrong number of lanes counts as
    one lane."""
    lanes = job.lanes if 1 <= job.lanes <= LANES_MAX and job.slots.count % job.lanes == 0 else 1
    return job.slots.count // lanes % roots == 0


def multiple_for(job: Job, roots: int) -> str:
    """Return in words of which number a job's number of slots must be a multiple."""
    return str(roots) if job.lanes == 1 else f"{roots * job.lanes} ({job.lanes} lanes)"


def port_rules(path: str, job: Job, hosts: Iterable[tuple[str, int]]) -> Iterator[Problem]:
    """Rule: the UDP ports of all lanes, and the recovery ports above them, are at most 65535.

    :param hosts: name and `udp_port` of the job's workers that are hosts.
    """
    room = max(1, min(job.lanes, LANES_MAX)) - 1 + RECOVERY_PORTS
    for name, udp_port in hosts:
        if 0 < udp_port <= _UDP_PORT_MAX < udp_port + room:
            rule = (
                f"{name} has udp_port {udp_port}: must be at most {_UDP_PORT_MAX - room}, as {job.lanes} lanes use "
                f"ports up to udp_port + {room}"
            )
            yield Problem(path, "lanes", job.lanes, rule)


def jobs_distinct(jobs: list[tuple[str, Job]]) -> Iterator[Problem]:
    """Check that no two jobs have the same name or an id in common."""
    for (other_path, other), (path, job) in combinations(jobs, 2):
        if other.name == job.name:
            yield Problem(path, "name", job.name, f"name is already that of {other_path}: give it another")
        yield from _ids(path, job, other_path, other)


def _ids(path: str, job: Job, other_path: str, other: Job) -> Iterator[Problem]:
    if job.id >= other.id + max(other.lanes, 1) or other.id >= job.id + max(job.lanes, 1):
        return
    if job.lanes == other.lanes == 1:
        yield Problem(path, "id", job.id, f"id is already that of {other_path}: give it another")
    else:
        rule = f"ids {shown_ids(job)} of its lanes overlap ids {shown_ids(other)} of {other_path} ({other.name})"
        yield Problem(path, "id", job.id, f"{rule}: give it others")


def shown_ids(job: Job) -> str:
    """Return the ids of a job's lanes in words: "5" or "5..8"."""
    return str(job.id) if job.lanes == 1 else f"{job.id}..{job.id + job.lanes - 1}"


_BYTES_MAX: Final = (1 << 32) - 1


def queue_rules(path: str, queue: VirtualQueue) -> Iterator[Problem]:
    """Rules on a queue's rate and thresholds. The caller checks the port."""
    if not 1 / RATE_PER_MBIT <= queue.rate_mbit <= _BYTES_MAX // RATE_PER_MBIT:  # also refuses NaN
        rule = f"must be above 0: 1/{RATE_PER_MBIT}..{_BYTES_MAX // RATE_PER_MBIT} Mbit/s"
        yield Problem(path, "rate_mbit", queue.rate_mbit, rule)
    if not 0 < queue.drop_all_bytes <= _BYTES_MAX:
        yield Problem(path, "drop_all_bytes", queue.drop_all_bytes, f"must be 1..{_BYTES_MAX} bytes")
    if not 0 <= queue.mark_bytes <= queue.drop_all_bytes:
        rule = f"must be 0..{queue.drop_all_bytes}, the threshold above which everything is lost"
        yield Problem(path, "mark_bytes", queue.mark_bytes, rule)
    yield from _drop_rules(path, queue)


def _drop_rules(path: str, queue: VirtualQueue) -> Iterator[Problem]:
    thresholds = queue.drop_bytes
    if len(thresholds) != DROP_CLASSES:
        rule = f"must have {DROP_CLASSES} thresholds, for drop classes 3, 2, 1, 0, not {len(thresholds)}"
        yield Problem(path, "drop_bytes", list(thresholds), rule)
        return
    if thresholds[0] < 1:
        yield Problem(path, "drop_bytes[0]", thresholds[0], "must be above 0: class 3 is not lost at an empty queue")
    for i, (lower, higher) in enumerate(pairwise(thresholds), 1):
        if higher < lower:
            rule = f"must not be below {lower}: class {DROP_CLASSES - i} is lost before class {DROP_CLASSES - i - 1}"
            yield Problem(path, f"drop_bytes[{i}]", higher, rule)
    if thresholds[-1] > queue.drop_all_bytes:
        rule = f"must not be above drop_all_bytes, {queue.drop_all_bytes}"
        yield Problem(path, f"drop_bytes[{DROP_CLASSES - 1}]", thresholds[-1], rule)


OP_HOSTS_MAX: Final = {op.name: op.workers_max for op in OPS if op.workers_max < COUNT_MAX}
"""The most hosts whose contributions fit the payload of an op, for the ops with less room than COUNT_MAX."""
OP_BELOW_MAX: Final = {op.name: op.workers_below_max for op in OPS if op.workers_below_max < COUNT_MAX}
"""The most hosts below one switch whose contributions fit that switch's partial results."""
PARENTS: Final = (1, 2, 4)
"""The numbers of switches above that a job may have. The lowest bits of a slot's number select one of them."""


def op_rules(path: str, job: Job) -> Iterator[Problem]:
    """Rules: the ops are known, none is repeated, and `thc` is given exactly with op thc."""
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
    if JUMBO.name in job.ops:
        yield from _jumbo_rules(path, job)
    if job.blind and "sum32" not in job.ops:
        yield Problem(path, "ops", list(job.ops), "must have sum32, which sums what a blind job masks: add it")


def _jumbo_rules(path: str, job: Job) -> Iterator[Problem]:
    """Rules of packets of 8192 values."""
    if "thc" not in job.ops:
        yield Problem(path, "ops", list(job.ops), "must have thc beside jumbo, which sums by the same table: add it")
    if job.key is not None or job.blind:
        rule = f"must not have {JUMBO.name} in a blind job or one with a key, whose packets are short: leave it out"
        yield Problem(path, "ops", list(job.ops), rule)
    if job.degrade is not None:
        rule = f"loses and cuts packets of thc alone: leave it, or {JUMBO.name}, out"
        yield Problem(path, "degrade", "{...}", rule)
    if job.slots.end > JUMBO_SLOTS and not job.takes_free:
        rule = f"slots {job.slots.base}..{job.slots.end - 1}: with op {JUMBO.name} must be below {JUMBO_SLOTS}"
        yield Problem(path, "slots", f"{job.slots.base}..{job.slots.end - 1}", rule)


def slot_rules(path: str, job: Job) -> Iterator[Problem]:
    """Rule: the slots are within the switch's. `lane_rules` checks how many slots a job needs."""
    slots = job.slots
    if slots.base < 0:
        yield Problem(path, "base", slots.base, "must be 0 or more")
    if slots.end > SLOTS_TOTAL:
        beyond = f"slots {slots.base}..{slots.end - 1} end beyond the switch's {SLOTS_TOTAL}"
        rule = f"{beyond}: must be at most {max(SLOTS_TOTAL - slots.base, 0)} from this base on"
        yield Problem(path, slots_field(job), slots.count, rule)


def thc_rules(path: str, thc: Thc, workers: int) -> Iterator[Problem]:
    """Rules: the table is well formed, and the sum over `workers` hosts fits the planes of a slot."""
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
    """Check that a packet has room for the contributions of ``hosts`` hosts."""
    shown = f"{hosts} hosts"
    if hosts > COUNT_MAX:
        yield Problem(path, "workers", shown, f"at most {COUNT_MAX}, the largest count of a packet")
    for op in job.ops:
        if hosts > OP_HOSTS_MAX.get(op, hosts):
            yield Problem(path, "workers", shown, f"at most {OP_HOSTS_MAX[op]} with op {op}")


def quorum_rules(path: str, job: Job, elsewhere: str) -> Iterator[Problem]:
    """Rule: the quorum is between 1 and the number of workers, and all of them if the job has several switches.

    :param elsewhere: another switch in the job's tree; "" if there is none.
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
    """Rule: `workers_min` is between 1 and the number of workers, and all of them if the job has several switches.

    :param elsewhere: another switch in the job's tree; "" if there is none.
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
    """Rule: a partial result of a switch below has room for the contributions of `hosts` hosts.

    :param switch: the switch below, in words.
    """
    for op in job.ops:
        if hosts > (most := OP_BELOW_MAX.get(op, hosts)):
            yield Problem(path, field, f"{hosts} hosts", f"at most {most} with op {op} below {switch}")


def overlaps(jobs: list[tuple[str, Job]]) -> Iterator[tuple[Job, Job, Problem]]:
    """Yield every pair of jobs whose slots overlap. The caller adds the cure."""
    fixed = [(path, job) for path, job in jobs if not job.takes_free]
    for (path, job), (other_path, other) in combinations(reversed(fixed), 2):
        if job.slots.base < other.slots.end and other.slots.base < job.slots.end:
            shown = f"{job.slots.base}..{job.slots.end - 1}"
            rule = f"overlaps slots {other.slots.base}..{other.slots.end - 1} of {other_path} ({other.name})"
            yield job, other, Problem(path, "slots", shown, rule)


def either(numbers: tuple[int, ...]) -> str:
    """Return the numbers in words: "1, 2 or 4"."""
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}"
