# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The one configuration all packet tests use, twice: as the controller's YAML and as the golden model's objects."""

from __future__ import annotations

import random

from golden.model import MAX32, GoldenSwitch, Host, Job

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

# Any table must do: random ones up to 255, a worker each, so that every one of the 128 coefficients matters.
RANDOM_TABLES = tuple((0, *sorted(random.Random(seed).sample(range(1, 256), 15))) for seed in range(12))
SOLOS = tuple(
    Job(10 + k, HOSTS[:1], slot_base=200 + 2 * k, slots=2, quorum=1, table=table)
    for k, table in enumerate(RANDOM_TABLES)
)
JOBS = (FULL, QUORUM, WIDE, SINGLE, NORMS, *SOLOS)


def golden_switch() -> GoldenSwitch:
    return GoldenSwitch(AGGREGATOR, HOSTS, JOBS)


def _mac(mac: bytes) -> str:
    return mac.hex(":")


def _ip(ip: bytes) -> str:
    return ".".join(map(str, ip))


def _job_yaml(job: Job) -> str:
    names = ", ".join(f"h{worker.port}" for worker in job.workers)
    lines = [
        f"  - name: job{job.number}",
        f"    id: {job.number}",
        f"    ops: [{'max32' if job.ops == {MAX32} else 'thc, max32'}]",
        f"    workers: [{names}]",
        f"    quorum: {job.quorum}",
        f"    slots: {{base: {job.slot_base}, count: {job.slots}}}",
    ]
    if job.table:
        lines.append(f"    thc: {{bits: 4, p: 0.03125, table: {list(job.table)}}}")
    return "\n".join(lines)


def controller_yaml(grpc: str) -> str:
    workers = "\n".join(
        f'  - {{name: h{host.port}, ip: {_ip(host.ip)}, mac: "{_mac(host.mac)}", port: {host.port}}}' for host in HOSTS
    )
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
