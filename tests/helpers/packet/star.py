# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The one configuration all packet tests use, twice: as the controller's YAML and as the golden model's objects."""

from __future__ import annotations

import random
from dataclasses import replace

from golden.model import MAX32, OP_NAMES, OPS, SHORT_OPS, SUM32, VOTE, GoldenSwitch, Host, Job, Parent, digest_of

# The table published with THC (granularity 30), and one that needs all eight planes.
PUBLISHED_TABLE = (0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30)
WIDE_TABLE = (0, 1, 2, 5, 9, 14, 22, 35, 41, 58, 63, 77, 90, 101, 113, 127)

AGGREGATOR = Host(0, bytes.fromhex("025357000064"), bytes([10, 0, 0, 100]))
HOSTS = tuple(Host(k, bytes([0, 0, 0, 0, 0, k]), bytes([10, 0, 0, k])) for k in range(1, 5))

FULL = Job(1, HOSTS, slot_base=0, slots=8, quorum=4, table=PUBLISHED_TABLE)
QUORUM = Job(2, HOSTS[:3], slot_base=8, slots=3, quorum=2, table=PUBLISHED_TABLE)
WIDE = Job(3, HOSTS[2:], slot_base=11, slots=4, quorum=2, table=WIDE_TABLE)
SINGLE = Job(4, HOSTS[1:2], slot_base=4094, slots=2, quorum=1, table=PUBLISHED_TABLE)
NORMS = Job(5, HOSTS, slot_base=100, slots=4, quorum=4, ops=frozenset({MAX32}))
ALL_OPS = frozenset(OPS)
EVERY = Job(6, HOSTS, slot_base=110, slots=8, quorum=4, table=PUBLISHED_TABLE, ops=ALL_OPS)

# In a tree: this switch as a leaf with two workers, as a root of three lower switches, and in between.
PARENT = Host(4, bytes.fromhex("025357000001"), bytes([10, 0, 1, 1]))
LOWER = tuple(
    Host(k, bytes.fromhex("0253570000") + bytes([16 + k]), bytes([10, 0, 1, 10 + k]), weight=weight, is_switch=True)
    for k, weight in ((1, 2), (2, 1), (3, 4))
)
LEAF = Job(7, HOSTS[:2], 120, 8, quorum=2, table=PUBLISHED_TABLE, ops=ALL_OPS, parent=Parent(PARENT, 3))
ROOT = Job(8, LOWER, 130, 8, quorum=3, table=PUBLISHED_TABLE, ops=ALL_OPS)
# Fifteen votes, the most there may be: two lower switches of seven, and a host beside them.
SEVENS = tuple(
    Host(k, bytes.fromhex("0253570000") + bytes([32 + k]), bytes([10, 0, 1, 20 + k]), weight=7, is_switch=True)
    for k in (1, 2)
)
FIFTEEN = Job(30, (*SEVENS, HOSTS[2]), 150, 2, quorum=3, ops=frozenset({VOTE}))
MIDDLE = Job(9, LOWER[:2], 140, 8, quorum=2, table=PUBLISHED_TABLE, ops=ALL_OPS, parent=Parent(PARENT, 0))

# Any table must do: random ones up to 255, a worker each, so that every one of the 128 coefficients matters.
RANDOM_TABLES = tuple((0, *sorted(random.Random(seed).sample(range(1, 256), 15))) for seed in range(12))
SOLOS = tuple(
    Job(10 + k, HOSTS[:1], slot_base=200 + 2 * k, slots=2, quorum=1, table=table)
    for k, table in enumerate(RANDOM_TABLES)
)
# Two switches above, which share the slots; or the chunks one by one.
PARENTS = (Parent(PARENT, 3), Parent(Host(3, bytes.fromhex("025357000002"), bytes([10, 0, 1, 2])), 2))
SHARED = Job(31, HOSTS[:2], 160, 8, 2, PUBLISHED_TABLE, ALL_OPS, parent=PARENTS[0], parents=PARENTS)
SPRAYED = Job(32, HOSTS[:2], 170, 8, 2, PUBLISHED_TABLE, ALL_OPS, parent=PARENTS[0], parents=PARENTS, sprays=True)
# Runs of two workers and more.
ELASTIC = Job(33, HOSTS, 180, 8, quorum=4, table=PUBLISHED_TABLE, ops=ALL_OPS, quorum_least=2)
# A job that may send 128 KiB at once and then next to nothing.
BUDGETED = Job(34, HOSTS, 190, 4, quorum=4, ops=frozenset({SUM32}), budget=1)
# Whose packets have authentication tags.
KEY = bytes(range(100, 132))
KEYED = Job(40, HOSTS, 230, 8, quorum=4, table=PUBLISHED_TABLE, ops=frozenset(SHORT_OPS), key=KEY)
KEYED_LEAF = Job(41, HOSTS[:2], 240, 8, 2, PUBLISHED_TABLE, frozenset(SHORT_OPS), parent=Parent(PARENT, 3), key=KEY)
KEYED_ROOT = Job(42, LOWER, 250, 8, quorum=3, table=PUBLISHED_TABLE, ops=frozenset(SHORT_OPS), key=KEY[::-1])
JOBS = (
    FULL, QUORUM, WIDE, SINGLE, NORMS, EVERY, LEAF, ROOT, MIDDLE, FIFTEEN, SHARED, SPRAYED, ELASTIC, BUDGETED, KEYED,
    KEYED_LEAF, KEYED_ROOT, *SOLOS,
)  # fmt: skip
WORKERS = (*HOSTS, *LOWER, *SEVENS)


def golden_switch() -> GoldenSwitch:
    return GoldenSwitch(AGGREGATOR, WORKERS, tuple(replace(job, digest=_digest(job)) for job in JOBS))


def _digest(job: Job) -> int:
    """Of a job in a tree the switch's own configuration does not know the whole: 0."""
    if job.parent or any(worker.is_switch for worker in job.workers):
        return 0
    names, table = [OP_NAMES[op] for op in job.ops], job.table
    return digest_of(
        job.number, names, len(job.workers), quorum=job.quorum, least=job.quorum_least, slots=job.slots, table=table
    )


def _mac(mac: bytes) -> str:
    return mac.hex(":")


def _ip(ip: bytes) -> str:
    return ".".join(map(str, ip))


def _name(host: Host) -> str:
    return f"s{host.weight}-{host.port}" if host.is_switch else f"h{host.port}"


def _worker_yaml(host: Host) -> str:
    stands_for = f", stands_for: {host.weight}" if host.is_switch else ""
    return f'  - {{name: {_name(host)}, ip: {_ip(host.ip)}, mac: "{_mac(host.mac)}", port: {host.port}{stands_for}}}'


def _parent_yaml(parent: Parent) -> str:
    above = parent.switch
    return f'{{port: {above.port}, ip: {_ip(above.ip)}, mac: "{_mac(above.mac)}", worker: {parent.worker}}}'


def _job_yaml(job: Job) -> str:
    lines = [
        f"  - name: job{job.number}",
        f"    id: {job.number}",
        f"    ops: [{', '.join(OP_NAMES[op] for op in sorted(job.ops))}]",
        f"    workers: [{', '.join(map(_name, job.workers))}]",
        f"    quorum: {job.quorum}",
        f"    slots: {{base: {job.slot_base}, count: {job.slots}}}",
    ]
    if job.table:
        lines.append(f"    thc: {{bits: 4, p: 0.03125, table: {list(job.table)}}}")
    if job.parent:
        above = ", ".join(_parent_yaml(parent) for parent in job.parents or (job.parent,))
        lines.append(f"    parents: [{above}]")
    if job.sprays:
        lines.append("    spray: hash")
    if job.budget:
        lines.append(f"    limit_mbit: {job.budget / 100}")
    if job.quorum_least:
        lines.append(f"    workers_min: {job.quorum_least}")
    return "\n".join(lines)


def controller_yaml(grpc: str) -> str:
    workers = "\n".join(map(_worker_yaml, WORKERS))
    jobs = "\n".join(map(_job_yaml, JOBS))
    return f"""
switch: {{name: s1, grpc: "{grpc}", device_id: 1}}
aggregator: {{ip: {_ip(AGGREGATOR.ip)}, mac: "{_mac(AGGREGATOR.mac)}"}}
ports: [1, 2, 3, 4]
workers:
{workers}
jobs:
{jobs}
"""
