# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job's lanes. On the switch every lane is a separate job. Pure functions.

Lane k has the job id `id + k`, the k-th of equal parts of the job's slots, and at every worker the UDP port `udp_port +
k`. Example: a job with id 5, slots 0 to 63 and 4 lanes becomes jobs 5, 6, 7 and 8 of 16 slots each.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from sumwire_protocol.constants import PRIORITIES

from sumwire_controller.derive.topology import job_tree, roots_of
from sumwire_controller.errors import NotAdmittedError, PartOfTreeError, UnknownJobError
from sumwire_controller.model import AggregatorAddress, Config, Host, Job, SlotRange, Topology, Worker

LANES_MAX: Final = PRIORITIES
"""The number of priorities: a packet's DSCP has 3 bits for them."""
RECOVERY_PORTS: Final = 1000
"""Workers ask each other for results at the lane's UDP port plus this."""


def lane_jobs(job: Job) -> tuple[Job, ...]:
    """Return a job for each lane, "job/0" and so on; the job itself if it has one lane.

    The job must keep the rules of `rules/parts.py`.
    """
    if job.lanes == 1:
        return (job,)
    count = job.slots.count // job.lanes
    return tuple(
        replace(
            job,
            name=f"{job.name}/{lane}",
            id=number,
            slots=SlotRange(job.slots.base + lane * count, count),
            lanes=1,
            limit_mbit=None if job.limit_mbit is None else job.limit_mbit / job.lanes,
            lane=lane,
        )
        for lane, number in enumerate(job.ids)
    )


def with_lanes(config: Config) -> Config:
    """Return the configuration with a job for each lane. Calling it again changes nothing."""
    return replace(config, jobs=tuple(lane for job in config.jobs for lane in lane_jobs(job)))


def names_of_lanes(jobs: Iterable[Job], names: Collection[str]) -> frozenset[str]:
    """Return the names of all lanes of the jobs in `names`."""
    return frozenset(lane.name for job in jobs if job.name in names for lane in lane_jobs(job))


FORMAT: Final = 3


def unknown_job(name: str, known: Sequence[str]) -> UnknownJobError:
    return UnknownJobError(
        f"job {name!r}: not in the configuration, which has {', '.join(known) or 'none'}; name one of these"
    )


def job_description(source: Config | Topology, name: str) -> dict[str, Any]:
    """Return the content of a job file, ready for JSON.

    Worker k is the host `addresses[k]`. It sends to its `aggregator`, where its number is `seat`. Each of `lanes` has
    its own job number and slots; those of lane 0 are repeated at the top level. `paths` is the number of paths to a
    root; with more than one, results may overtake each other. `workers_min` is there if a run may have fewer workers,
    `blind` if hosts mask what they send, and `key` if packets have authentication tags: the name of the file with the
    key, never the key.

    :raises UnknownJobError: the configuration has no such job.
    :raises NotAdmittedError: the job takes what is free, and `source` does not say what it got.
    :raises PartOfTreeError: the job runs over several switches and `source` is the configuration of only one.
    """
    job = next((job for job in source.jobs if job.name == name), None)
    if job is None:
        raise unknown_job(name, [job.name for job in source.jobs])
    if job.takes_free:
        raise NotAdmittedError(
            f"job {name!r}: it takes the slots that are free, and its switches have not admitted it; "
            "run `sumwire-controller apply CONFIG` first"
        )
    addresses = _in_tree(source, job) if isinstance(source, Topology) else _at_one_switch(source, job)
    lanes = lane_jobs(job)
    description: dict[str, Any] = {
        "format": FORMAT,
        "name": job.name,
        "job": lanes[0].id,
        "ops": list(job.ops),
        "workers": len(job.workers),
        "quorum": job.quorum,
        "slots": lanes[0].slots.count,
        "lanes": [{"job": lane.id, "slots": lane.slots.count} for lane in lanes],
        "paths": len(roots_of(source, job)) if isinstance(source, Topology) else 1,
        "addresses": [{"worker": k, **address} for k, address in enumerate(addresses)],
    }
    if job.quorum_least:
        description["workers_min"] = job.workers_min
    if job.blind:
        description["blind"] = True
    if job.key_file is not None:
        description["key"] = job.key_file
    if job.thc is not None:
        description["thc"] = {"bits": job.thc.bits, "p": job.thc.p, "table": list(job.thc.table)}
    return description


def _at_one_switch(config: Config, job: Job) -> list[dict[str, Any]]:
    workers = [config.worker(name) for name in job.workers]
    others = "a switch above" if job.parents else next((worker.name for worker in workers if worker.is_switch), "")
    if others:
        cure = f"make its job file from the topology: sumwire-controller job-file TOPOLOGY --job {job.name}"
        raise PartOfTreeError(f"job {job.name!r}: has a part at {others} too; {cure}")
    return [_address(worker, config.aggregator, seat) for seat, worker in enumerate(workers)]


def _in_tree(topology: Topology, job: Job) -> list[dict[str, Any]]:
    tree = job_tree(topology, job)
    return [
        _address(host, topology.node(host.switch).aggregator, tree.seat(host.switch, host.name))
        for host in map(topology.host, job.workers)
    ]


def _address(worker: Worker | Host, aggregator: AggregatorAddress, seat: int) -> dict[str, Any]:
    return {"ip": str(worker.ip), "udp_port": worker.udp_port, "aggregator": str(aggregator.ip), "seat": seat}


def job_json(source: Config | Topology, name: str) -> str:
    """Return the text of a job file. Errors are those of `job_description`."""
    return json.dumps(job_description(source, name), indent=2) + "\n"
