# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which worker each rank is: the description of the job, and the machines that the ranks are on.

Rank 0 gets the description: from a job file, from a service, or by starting an aggregator beside itself. All ranks get
it from the store. Each then tells which of the job's addresses are its machine's own. From that all of them compute
the same plan: each machine's ranks are divided among its workers, in the order of their numbers.

Example: two machines with four ranks each, and a job of two hosts: ranks 0 to 3 share worker 0, ranks 4 to 7 worker 1.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from ipaddress import IPv4Address
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sumwire_protocol import constants as p4
from sumwire_protocol.logs.events import Event
from sumwire_protocol.outside import OutsideError, bounded_text, json_of, shown
from sumwire_protocol.version import __version__

from sumwire.config import JobConfig, load_job, parse_job
from sumwire.job.gloo_group import Ranks
from sumwire.start import child, reach
from sumwire.start.description import (
    Wanted,
    address_of,
    completed,
    described,
    is_local,
    public,
    server_address,
    source_towards,
)
from sumwire.start.errors import PlaceError, ServiceError
from sumwire.start.fetch import Service, beside, first_of
from sumwire.start.rendezvous import Rendezvous

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store
else:
    from torch.distributed import Store

RANK_0: Final = "rank0"
SERVICE: Final = "SUMWIRE_SERVICE"
ADDRESS: Final = "SUMWIRE_ADDRESS"
JOB: Final = "SUMWIRE_JOB"
_LOG: Final = logging.getLogger("sumwire")
_LOOPBACK: Final = "127.0.0.1"
WAIT_S: Final = 60.0
"""Seconds that a service has to come."""
_TIMEOUT: Final = timedelta(minutes=30)
_FILE_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Source:
    """Where the job is from, as this rank was told. ``service``: an address; ``job``: a job file; ``aggregator``:
    "rank0" starts one there; ``address``: this machine's own, for "rank0". ``wanted``: what "rank0" makes. ``wait_s``:
    seconds that a service has to come."""

    service: str | None = None
    job: str | Path | None = None
    aggregator: str | None = None
    address: str | None = None
    wanted: Wanted = field(default_factory=Wanted)
    wait_s: float = WAIT_S

    def checked(self) -> Source:
        """With what the environment says. Raises PlaceError."""
        if self.aggregator not in (None, RANK_0):
            raise PlaceError(f"aggregator = {shown(self.aggregator)}: must be 'rank0', or left out")
        given = [name for name in ("service", "job", "aggregator") if getattr(self, name) is not None]
        if len(given) > 1:
            raise PlaceError(f"{' and '.join(given)}: must be one of them")
        service = self.service if given else os.environ.get(SERVICE)
        job = self.job if given or service else os.environ.get(JOB)
        return replace(self, service=service, job=job, address=self.address or os.environ.get(ADDRESS))


@dataclass(frozen=True)
class Place:
    """What this rank is. ``config``: of its node's worker. ``node``: the ranks that share the worker, which is the
    first of them. ``nodes``: those of all workers, by worker. ``found``: where the job is from, in words.
    ``aggregator``: that of rank 0, if it has started one."""

    config: JobConfig
    node: tuple[int, ...]
    nodes: tuple[tuple[int, ...], ...]
    found: str
    rendezvous: Rendezvous
    aggregator: child.Aggregator | None = None

    @property
    def is_worker(self) -> bool:
        """Whether this rank sends and receives for its node."""
        return self.rendezvous.rank == self.node[0]

    def workers(self) -> Ranks:
        """The ranks that are workers, for ``Job(config, ranks=...)``: a collective call of these alone."""
        return self.rendezvous.among(tuple(node[0] for node in self.nodes))


def job_for(
    store: Store,
    rank: int,
    ranks: int,
    source: Source | None = None,
    *,
    each_rank: bool = False,
    check: bool = True,
    timeout: timedelta = _TIMEOUT,
) -> Place:
    """The worker of this rank: a collective call of all ranks, through their store. It needs no process group.

    ``each_rank``: every rank must be a worker; else the ranks of a machine share the workers that it has. ``check``:
    the aggregator must answer each worker. Raises ServiceError, PlaceError, ReachError, StartError and ConfigError:
    on all ranks if one of them fails.
    """
    meeting = Rendezvous(store, rank, ranks, timeout)
    chosen = meeting.telling((source or Source()).checked)
    told = _as_others_know(meeting.gather(meeting.telling(lambda: _own(chosen))))
    meeting.telling(lambda: check_versions([one.get("version", "an older one") for one in told]))
    meeting.telling(lambda: check_files([one["file"] for one in told], [one["service"] for one in told]))
    aggregator: list[child.Aggregator] = []
    try:
        mine = meeting.telling(lambda: _described(chosen, told, each_rank, aggregator)) if rank == 0 else None
        job = meeting.gather(mine)[0]
        entries = job["description"]["addresses"]
        local = meeting.gather([worker for worker, entry in enumerate(entries) if is_local(entry["ip"])])
        machines = [one["machine"] for one in told]
        nodes = meeting.telling(lambda: plan(machines, local, entries, each_rank=each_rank))
        node = next(number for number, members in enumerate(nodes) if rank in members)
        config = meeting.telling(lambda: _config(chosen, job["description"], node))
        place = Place(config, nodes[node], nodes, job["found"], meeting, next(iter(aggregator), None))
        service = Service.parse(job["service"]) if job["service"] else None
        if check and place.is_worker:
            meeting.telling(lambda: reach.check(config, service))
        meeting.gather(None)
    except BaseException:
        for one in aggregator:
            one.close()
        raise
    return place


def _machine(boot: str = "/proc/sys/kernel/random/boot_id", network: str = "/proc/self/ns/net") -> str:
    """What ranks of one machine have in common, and of one network namespace: a container is a machine too."""
    return f"{Path(boot).read_text().strip()}/{Path(network).stat().st_ino}"


def _own(source: Source) -> dict[str, Any]:
    """What a rank tells the others. ``file``: whether it has a job file. ``master``: the address of rank 0's machine as
    this one knows it, "" if unknown."""
    master = _master()
    return {
        "machine": _machine(),
        "address": _own_address(source, master),
        "file": source.job is not None,
        "service": source.service,
        "master": master,
        "version": f"{__version__}, program revision {p4.PROGRAM_REVISION}",
    }


def check_versions(versions: Sequence[str]) -> None:
    """Of sumwire, by rank. Raises PlaceError if they differ: workers must compute the same bits."""
    by_version: dict[str, list[int]] = {}
    for rank, version in enumerate(versions):
        by_version.setdefault(version, []).append(rank)
    if len(by_version) > 1:
        listed = "; ".join(f"{shown(version)} on ranks {ranks}" for version, ranks in by_version.items())
        raise PlaceError(f"versions of sumwire differ: {listed}: install the same one on all machines")


def check_files(files: Sequence[bool], services: Sequence[str | None]) -> None:
    """Whether each rank has a job file, and the service that it was told. Raises PlaceError if only some have a file:
    every worker reads its own."""
    without = [rank for rank, has in enumerate(files) if not has]
    if len(without) in (0, len(files)):
        return
    having = [rank for rank, has in enumerate(files) if has]
    told = [rank for rank in without if services[rank]]
    first = f", where {SERVICE}, or service=, goes before it on ranks {told}" if told else ""
    raise PlaceError(
        f"{JOB}, or job= of sumwire.init(), names a job file on ranks {having}, but not on ranks {without}{first}: "
        "give it to all ranks, or to none"
    )


def _master() -> str:
    try:
        return address_of(os.environ.get("MASTER_ADDR", ""))
    except ServiceError:
        return ""


def _own_address(source: Source, master: str) -> str:
    """The address by which this machine reaches the one of rank 0."""
    if source.address is not None:
        own = server_address(source.address)
        if not is_local(own):
            raise PlaceError(
                f"address = {shown(source.address)}: this machine does not have it; `ip address` says what it has: "
                f"give one of those, or set {ADDRESS} to it"
            )
        return own
    if not source.aggregator or "MASTER_ADDR" not in os.environ:
        return _LOOPBACK
    return source_towards(master or address_of(os.environ["MASTER_ADDR"]))


def _as_others_know(told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the ranks have told, with rank 0's machine by the address that others know it by.

    Debian's own name stands for 127.0.1.1 on the machine itself, and for an address on the others.
    """
    known = next((one["master"] for one in told if one["master"] and not _is_own_alone(one["master"])), None)
    if known is None:
        return [dict(one) for one in told]
    first = told[0]["machine"]
    return [
        {**one, "master": known, "address": known if one["machine"] == first and _is_own_alone(one["address"]) else
         one["address"]}
        for one in told
    ]  # fmt: skip


def _is_own_alone(address: str) -> bool:
    return IPv4Address(address).is_loopback


def _described(
    source: Source, told: Sequence[Mapping[str, Any]], each_rank: bool, started: list[child.Aggregator]
) -> dict[str, Any]:
    """On rank 0. An aggregator that it starts is added to ``started``."""
    if source.job is not None:
        description = completed(_read(Path(source.job)), where=str(source.job))
        # Every worker reads the file itself: what is secret in it does not go through the store.
        kept = {name: value for name, value in description.items() if name in ("addresses", "workers", "name")}
        return {"description": kept, "found": str(source.job), "service": ""}
    if source.aggregator is not None:
        description = described(_hosts(told, each_rank), told[0]["address"], source.wanted)
        child.check_free(
            told[0]["address"], "a job of this script that has started it must be closed first: job.close()"
        )
        started.append(child.started(child.here("--log-level", "warning"), description, lambda _: None))
        return {"description": description, "found": "started by rank 0", "service": ""}
    service, description = first_of(_services(told), source.wait_s, lambda line: _tell(line, source.wait_s))
    return {
        "description": public(description),
        "found": f"found at {service}",
        "service": f"{service.host}:{service.port}",
    }


def _services(told: Sequence[Mapping[str, Any]]) -> list[Service]:
    """That of the lowest rank that was told one, or on rank 0's machine. Raises ServiceError."""
    given = next((one["service"] for one in told if one["service"]), None)
    if given:
        return [Service.parse(given)]
    master = told[0]["master"] or os.environ.get("MASTER_ADDR")
    if master is None:
        raise ServiceError(
            f"no service is known: start `sumwire up --hosts A,B` and set {SERVICE} to its address, or call "
            'sumwire.init(aggregator="rank0")'
        )
    return beside(master)


def _tell(line: str, wait_s: float) -> None:
    _LOG.warning(line, extra=Event.SERVICE_AWAITED(wait_s=wait_s, reason=line))


def _hosts(told: Sequence[Mapping[str, Any]], each_rank: bool) -> list[str]:
    """The addresses of the workers that rank 0 makes a job for: one for each machine, or for each rank."""
    machines = list(dict.fromkeys(one["machine"] for one in told))
    addresses = [one["address"] for one in told]
    if len(machines) == 1 or each_rank:
        hosts = addresses
    else:
        hosts = [next(one["address"] for one in told if one["machine"] == machine) for machine in machines]
    own = [host for host in hosts if IPv4Address(host).is_loopback]
    if own and len(machines) > 1:
        raise PlaceError(
            f"{own[0]} is no address that other machines reach: set {ADDRESS} on each machine to its own, or call "
            "sumwire.init(aggregator='rank0', address=ADDRESS)"
        )
    return hosts


def _read(path: Path) -> Mapping[str, Any]:
    load_job(path, 0)
    try:
        data = json_of(bounded_text(path, _FILE_BYTES))
    except OutsideError as error:
        raise PlaceError(f"{path}: {error}: write the file again") from error
    return dict(data)


def _config(source: Source, description: Mapping[str, Any], worker: int) -> JobConfig:
    return parse_job(description, worker) if source.job is None else load_job(source.job, worker)


def plan(
    machines: Sequence[str],
    local: Sequence[Sequence[int]],
    entries: Sequence[Mapping[str, Any]],
    *,
    each_rank: bool = False,
) -> tuple[tuple[int, ...], ...]:
    """The ranks of each worker, by worker. ``machines``: by rank. ``local``: the workers whose addresses are the
    rank's machine's own, by rank. ``entries``: of the job file, by worker. Raises PlaceError."""
    nodes: dict[int, tuple[int, ...]] = {}
    for machine in dict.fromkeys(machines):
        ranks = [rank for rank, one in enumerate(machines) if one == machine]
        free = [worker for worker in local[ranks[0]] if worker not in nodes]
        hosts = json.dumps([entry["ip"] for entry in entries])
        if not free:
            raise PlaceError(
                f"ranks {ranks}: no address of their machine is one of the job's {hosts}: add it to the hosts of "
                "`sumwire up`, or start no rank there"
            )
        if each_rank and len(free) < len(ranks):
            raise PlaceError(
                f"ranks {ranks}: their machine has {len(free)} of the job's workers {hosts}: name the host once for "
                "each of its ranks: `sumwire up --hosts A,A,B,B`"
            )
        nodes |= zip(free, _parts(ranks, min(len(free), len(ranks))), strict=False)
    missing = [entries[worker]["ip"] for worker in range(len(entries)) if worker not in nodes]
    if missing:
        raise PlaceError(
            f"workers at {', '.join(missing)} have no rank: start ranks there, or leave them out of "
            "the hosts of `sumwire up`"
        )
    return tuple(nodes[worker] for worker in range(len(entries)))


def _parts(ranks: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """The ranks in order, in so many parts whose sizes differ by one at most."""
    ends = [len(ranks) * number // count for number in range(count + 1)]
    return [tuple(ranks[begin:end]) for begin, end in pairwise(ends)]
