# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Maps ranks to workers, from the job description and each rank's machine.

Rank 0 gets the description: from a job file, from a service, or by starting an aggregator beside itself. All ranks get
it from the store. Each rank then tells the others which of the job's addresses its machine has. From that all of them
compute the same plan: each machine's ranks are divided among its workers, in the order of their numbers.

Example: two machines with four ranks each, and a job of two hosts: ranks 0 to 3 share worker 0, ranks 4 to 7 worker 1.

:func:`job_for` is called by `sumwire.init()`, and :func:`find` by the backend "sumwire".
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from ipaddress import IPv4Address
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch.distributed as dist
from commonlib.untrusted import UntrustedInputError, bounded_text, json_of, shown
from commonlib.version import __version__
from sumwire_protocol import constants as p4
from sumwire_protocol.events import Event

from sumwire.config import JobConfig, load_job, parse_job
from sumwire.errors import SumwireError
from sumwire.job.gloo import Ranks, default_timeout
from sumwire.start import supervisor
from sumwire.start.addresses import address_of, is_local, machine_id, server_address, source_towards
from sumwire.start.errors import NotReadyError, PlaceError, PortTakenError, ServiceError, StartError
from sumwire.start.job_request import JobRequest, complete_job_file, job_file_for, public
from sumwire.start.reach import check_reach
from sumwire.start.rendezvous import Rendezvous
from sumwire.start.service import ServiceAddress, beside, first_of

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

RANK_0: Final = "rank0"
SERVICE: Final = "SUMWIRE_SERVICE"
ADDRESS: Final = "SUMWIRE_ADDRESS"
JOB: Final = "SUMWIRE_JOB"
_LOG: Final = logging.getLogger("sumwire")
_LOOPBACK: Final = "127.0.0.1"
# Jobs of one machine that find a place by themselves.
_JOBS_BESIDE: Final = 16
WAIT_S: Final = 60.0
"""Seconds that a service has to come."""
_TIMEOUT: Final = timedelta(minutes=30)
_FILE_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class JobSource:
    """Where this rank gets the job from. ``service``: an address. ``job``: a job file. ``aggregator``: "rank0" starts
    one on rank 0's machine. ``address``: this machine's own, for "rank0". ``request``: the job that "rank0" makes.
    ``wait_s``: seconds to wait for a service."""

    service: str | None = None
    job: str | Path | None = None
    aggregator: str | None = None
    address: str | None = None
    request: JobRequest = field(default_factory=JobRequest)
    wait_s: float = WAIT_S

    def checked(self) -> JobSource:
        """Return the source, completed from the environment. Raises PlaceError."""
        if self.aggregator not in (None, RANK_0):
            raise PlaceError(f"aggregator = {shown(self.aggregator)}: must be 'rank0', or left out")
        given = [name for name in ("service", "job", "aggregator") if getattr(self, name) is not None]
        if len(given) > 1:
            raise PlaceError(f"{' and '.join(given)}: must be one of them")
        service = self.service if given else os.environ.get(SERVICE)
        job = self.job if given or service else os.environ.get(JOB)
        return replace(self, service=service, job=job, address=self.address or os.environ.get(ADDRESS))


@dataclass(frozen=True)
class RankPlacement:
    """The worker of this rank. ``config``: that worker's. ``node``: the ranks that share it; the first of them sends
    and receives. ``nodes``: the ranks of every worker. ``found``: in words, where the job comes from. ``aggregator``:
    the one that rank 0 has started, if any."""

    config: JobConfig
    node: tuple[int, ...]
    nodes: tuple[tuple[int, ...], ...]
    found: str
    rendezvous: Rendezvous
    aggregator: supervisor.RunningAggregator | None = None

    @property
    def is_worker(self) -> bool:
        """Whether this rank sends and receives for its node."""
        return self.rendezvous.rank == self.node[0]

    def workers(self) -> Ranks:
        """Return the ranks that are workers, for ``Job(config, ranks=...)``: a collective call of those ranks only."""
        return self.rendezvous.among(tuple(node[0] for node in self.nodes))


def job_for(
    store: Store,
    rank: int,
    ranks: int,
    source: JobSource | None = None,
    *,
    each_rank: bool = False,
    check: bool = True,
    timeout: timedelta = _TIMEOUT,
) -> RankPlacement:
    """Place this rank: a collective call of all ranks, through their store. It needs no process group.

    ``each_rank``: every rank must be a worker; otherwise the ranks of a machine share the machine's workers. ``check``:
    test that the aggregator answers each worker. Raises ServiceError, PlaceError, ReachError, StartError and
    ConfigError: on all ranks if one of them fails.
    """
    meeting = Rendezvous(store, rank, ranks, timeout)
    chosen = meeting.telling((source or JobSource()).checked)
    told = _as_others_know(meeting.gather(meeting.telling(lambda: _own(chosen))))
    meeting.telling(lambda: check_versions([one.get("version", "an older one") for one in told]))
    meeting.telling(lambda: check_files([one["file"] for one in told], [one["service"] for one in told]))
    aggregator: list[supervisor.RunningAggregator] = []
    try:
        mine = meeting.telling(lambda: _described(chosen, told, each_rank, aggregator)) if rank == 0 else None
        job = meeting.gather(mine)[0]
        entries = job["description"]["addresses"]
        local = meeting.gather([worker for worker, entry in enumerate(entries) if is_local(entry["ip"])])
        machines = [one["machine"] for one in told]
        nodes = meeting.telling(lambda: plan(machines, local, entries, each_rank=each_rank))
        node = next(number for number, members in enumerate(nodes) if rank in members)
        config = meeting.telling(lambda: _config(chosen, job["description"], node))
        place = RankPlacement(config, nodes[node], nodes, job["found"], meeting, next(iter(aggregator), None))
        service = ServiceAddress.parse(job["service"]) if job["service"] else None
        if check and place.is_worker:
            meeting.telling(lambda: check_reach(config, service))
        meeting.gather(None)
    except BaseException:
        for one in aggregator:
            one.close()
        raise
    return place


def _own(source: JobSource) -> dict[str, Any]:
    """What a rank tells the others. ``file``: whether it has a job file. ``master``: the address of rank 0's machine as
    this machine resolves it, "" if unknown."""
    master = _master()
    return {
        "machine": machine_id(),
        "address": _own_address(source, master),
        "file": source.job is not None,
        "service": source.service,
        "master": master,
        "version": f"{__version__}, program revision {p4.PROGRAM_REVISION}",
    }


def check_versions(versions: Sequence[str]) -> None:
    """Raise PlaceError if the ranks have different versions of sumwire: workers must compute the same bits."""
    by_version: dict[str, list[int]] = {}
    for rank, version in enumerate(versions):
        by_version.setdefault(version, []).append(rank)
    if len(by_version) > 1:
        listed = "; ".join(f"{shown(version)} on ranks {ranks}" for version, ranks in by_version.items())
        raise PlaceError(f"versions of sumwire differ: {listed}: install the same one on all machines")


def check_files(files: Sequence[bool], services: Sequence[str | None]) -> None:
    """Raise PlaceError if only some ranks have a job file, since every worker reads its own. ``files``: whether each
    rank has one. ``services``: the service that each rank was given."""
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


def _own_address(source: JobSource, master: str) -> str:
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
    """Return what the ranks told, with the address of rank 0's machine as the others know it.

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
    source: JobSource, told: Sequence[Mapping[str, Any]], each_rank: bool, started: list[supervisor.RunningAggregator]
) -> dict[str, Any]:
    """Get the description, on rank 0. An aggregator that it starts is appended to ``started``."""
    if source.job is not None:
        description = complete_job_file(_read(Path(source.job)), where=str(source.job))
        # Every worker reads the file itself: what is secret in it does not go through the store.
        kept = {name: value for name, value in description.items() if name in ("addresses", "workers", "name")}
        return {"description": kept, "found": str(source.job), "service": ""}
    if source.aggregator is not None:
        description, aggregator = _beside_rank_0(source, told, each_rank)
        started.append(aggregator)
        return {"description": description, "found": "started by rank 0", "service": ""}
    service, description = first_of(_services(told), source.wait_s, lambda line: _tell(line, source.wait_s))
    return {
        "description": public(description),
        "found": f"found at {service}",
        "service": f"{service.host}:{service.port}",
    }


def _beside_rank_0(
    source: JobSource, told: Sequence[Mapping[str, Any]], each_rank: bool
) -> tuple[dict[str, Any], supervisor.RunningAggregator]:
    """A job, and its aggregator, which this rank has started. Raises StartError.

    The port of an aggregator is fixed. So jobs of a single machine have loopback addresses of their own, where the user
    has not given one: the second is at 127.0.0.2, if the first is at 127.0.0.1.
    """
    own = told[0]["address"]
    is_free_to_choose = source.address is None and all(
        (one["machine"], one["address"]) == (told[0]["machine"], own) for one in told
    )
    loopbacks = [str(IPv4Address(_LOOPBACK) + number) for number in range(_JOBS_BESIDE if is_free_to_choose else 0)]
    taken: list[PortTakenError] = []
    for address in dict.fromkeys((own, *loopbacks)):
        at = [{**one, "address": address} for one in told] if loopbacks else told
        try:
            return _started_at(at, job_file_for(_hosts(at, each_rank), address, source.request))
        except PortTakenError as error:
            taken.append(error)
    raise taken[0]


def _started_at(
    told: Sequence[Mapping[str, Any]], description: dict[str, Any]
) -> tuple[dict[str, Any], supervisor.RunningAggregator]:
    """Raises StartError, and PortTakenError also if another program takes the port meanwhile."""
    address = told[0]["address"]
    check = partial(
        supervisor.check_free, address, f"or call job.close() first if it is this script's; or {_elsewhere(told)}"
    )
    check()
    for port in _workers_ports(description, address):
        check(port=port, holder="a worker of another job")
    try:
        return description, supervisor.started(supervisor.here("--log-level", "warning"), description, lambda _: None)
    except StartError:
        check()
        raise


def _workers_ports(description: Mapping[str, Any], address: str) -> list[int]:
    """The UDP ports of the workers at this address, of every lane."""
    config = parse_job(description, 0)
    lanes = (config.for_lane(lane) for lane in range(len(config.lanes)))
    return [worker.udp_port for lane in lanes for worker in lane.addresses if worker.ip == address]


def _elsewhere(told: Sequence[Mapping[str, Any]]) -> str:
    """How a second "rank0" gets an address without an aggregator."""
    if len({one["machine"] for one in told}) > 1:
        return f"set {ADDRESS} to another address of each machine"
    own = IPv4Address(told[0]["address"])
    free = own + 1 if own.is_loopback else IPv4Address(_LOOPBACK)
    return f'give this script another address: sumwire.init(aggregator="rank0", address="{free}")'


def _services(told: Sequence[Mapping[str, Any]]) -> list[ServiceAddress]:
    """The service to ask: that of the lowest rank that was told one, or on rank 0's machine. Raises ServiceError."""
    given = next((one["service"] for one in told if one["service"]), None)
    if given:
        return [ServiceAddress.parse(given)]
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
    except UntrustedInputError as error:
        raise PlaceError(f"{path}: {error}: write the file again") from error
    return dict(data)


def _config(source: JobSource, description: Mapping[str, Any], worker: int) -> JobConfig:
    return parse_job(description, worker) if source.job is None else load_job(source.job, worker)


def plan(
    machines: Sequence[str],
    local: Sequence[Sequence[int]],
    entries: Sequence[Mapping[str, Any]],
    *,
    each_rank: bool = False,
) -> tuple[tuple[int, ...], ...]:
    """Compute the ranks of each worker. ``machines``: by rank. ``local``: by rank, the workers whose addresses belong
    to the rank's machine. ``entries``: the job file's, by worker. Raises PlaceError."""
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
    """Divide the ranks in order into ``count`` parts whose sizes differ by at most one."""
    ends = [len(ranks) * number // count for number in range(count + 1)]
    return [tuple(ranks[begin:end]) for begin, end in pairwise(ends)]


def find(rank: int, size: int, store: Store) -> JobConfig | None:
    """Find the job for the backend "sumwire", as this rank's worker sees it. It comes from the service at
    SUMWIRE_SERVICE, if any rank's environment sets it, or else from one on rank 0's machine.

    A collective call of the default group's ranks, each of which must be a worker. None for another group, and if there
    is no such service. Raises the errors of :func:`sumwire.start.job_for`.
    """
    if size != dist.get_world_size():
        return None
    timeout = default_timeout()
    known = os.environ.get(SERVICE) or (_beside() if rank == 0 else None)
    if not any(Rendezvous(store, rank, size, timeout).gather(known)):
        return None
    config = job_for(store, rank, size, each_rank=True, timeout=timeout).config
    if config.worker != rank:
        raise PlaceError(
            f"rank {rank} is on the machine of worker {config.worker} of job {config.name}: name the hosts of "
            "`sumwire up` in the order of the ranks"
        )
    return config


def _beside() -> str | None:
    """MASTER_ADDR, if a service answers on that machine, even if its aggregator is not ready."""
    master = os.environ.get("MASTER_ADDR")
    try:
        return master if master and first_of(beside(master), 0.0, lambda _: None) else None
    except NotReadyError:
        return master
    except SumwireError:
        return None
