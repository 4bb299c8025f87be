# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Turns the options of `sumwire up` into a job, and into the commands that start its aggregators. Used by `up`.

In a tree the hosts are in racks. Each rack has an aggregator, its leaf, and all leaves are below one root.

Example: ``--hosts A,B,C,D --tree 2`` has the racks A, B and C, D. If the root is on A, the leaves are on B and C.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from sumwire_protocol import constants as p4

from sumwire.config.job_config import WORKERS_MAX
from sumwire.errors import ConfigError
from sumwire.start import supervisor
from sumwire.start.addresses import as_others_know, is_local, server_address, source_towards
from sumwire.start.errors import StartError
from sumwire.start.job_request import JobRequest, job_file_for, tree_job_file
from sumwire.start.supervisor import AggregatorCommand

# With fewer leaves the root would have nothing to sum.
_RACKS_MIN: Final = 2
_MOST: Final = p4.JOB_WORKERS_MAX
# Lines with an aggregator's counters, while they change.
_REPORT_S: Final = 10.0
# What can be done while another program has the port of the aggregator's address.
_OTHER_ROOT: Final = (
    "run this one on another server, or with another address of this one: --aggregator ADDRESS --listen ADDRESS"
)
# The options that fields of a job come from.
_OPTION_OF: Final = {"job": "--number", "name": "--name", "addresses": "--worker-port", "udp_port": "--worker-port"}


@dataclass(frozen=True)
class Rack:
    """One rack. ``hosts``: names or addresses. ``leaf``: the server of the rack's aggregator; None to choose one of the
    hosts."""

    hosts: tuple[str, ...]
    leaf: str | None = None

    @classmethod
    def parse(cls, words: Sequence[str]) -> Rack:
        """Parse the words of an option: HOST,HOST or LEAF=HOST,HOST, with spaces or commas between hosts."""
        text = ",".join(words)
        before, equals, after = text.partition("=")
        leaf, hosts = (before.strip(), after) if equals else (None, before)
        return cls(host_names(hosts), leaf)


def host_names(text: str) -> tuple[str, ...]:
    """Split names at commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def into_racks(hosts: Sequence[str], count: int) -> tuple[Rack, ...]:
    """Divide hosts in order into ``count`` racks whose sizes differ by at most one. Raises StartError."""
    most = min(_MOST, len(hosts))
    if not _RACKS_MIN <= count <= most:
        raise StartError(
            f"--tree {count}: {len(hosts)} hosts are divided among {_RACKS_MIN} to {_MOST} leaves, each with one host "
            "at least: give another number, or leave --tree out"
        )
    # The larger ones first: on the first rack one server has the root, and another one the leaf.
    ends = [-(-len(hosts) * number // count) for number in range(count + 1)]
    return tuple(Rack(tuple(hosts[begin:end])) for begin, end in pairwise(ends))


def check_racks(racks: Sequence[Rack]) -> None:
    """Raise StartError for too many or too few racks, or a rack with too many hosts or none."""
    if not _RACKS_MIN <= len(racks) <= _MOST:
        raise StartError(
            f"{len(racks)} racks: a tree has {_RACKS_MIN} to {_MOST} leaves: repeat --rack for each of them, or name "
            "all hosts in --hosts"
        )
    for number, rack in enumerate(racks, 1):
        if not 1 <= len(rack.hosts) <= _MOST:
            raise StartError(
                f"rack {number} has {len(rack.hosts)} hosts: an aggregator has 1 to {_MOST} workers: divide them among "
                "more racks, or leave an empty one out"
            )
    workers = sum(len(rack.hosts) for rack in racks)
    if workers > WORKERS_MAX:
        raise StartError(
            f"{workers} hosts: a job has at most {WORKERS_MAX} workers: name fewer; several ranks of a server share "
            "its worker"
        )


def check_unique(racks: Sequence[Rack], found: Mapping[str, str]) -> None:
    """Raise StartError if a host is in two racks, also under two names. A host that occurs twice in one rack has two
    workers, as without racks. ``found``: known addresses by name."""
    first: dict[str, int] = {}
    for number, rack in enumerate(racks, 1):
        for host in rack.hosts:
            address = found.get(host, host)
            if first.setdefault(address, number) != number:
                raise StartError(
                    f"{host} is in rack {first[address]} and in rack {number}: a server has one leaf: name it in one "
                    "of them; twice there, if it shall have two workers"
                )


def leaf_servers(racks: Sequence[Rack], found: Mapping[str, str], root: str) -> dict[str, str]:
    """Return the name of each leaf's server by its address, in the order of the racks. ``found``: addresses by name.

    A rack that names no leaf gets its first host that has no other aggregator. Raises StartError.
    """
    chosen: dict[str, str] = {}
    for number, rack in enumerate(racks, 1):
        named = rack.hosts if rack.leaf is None else (rack.leaf,)
        free = [name for name in named if found[name] not in (root, *chosen)]
        if not free:
            raise StartError(_taken(number, named, root in {found[name] for name in named}))
        chosen[found[free[0]]] = free[0]
    return chosen


def _taken(number: int, named: Sequence[str], by_root: bool) -> str:
    other = "the root" if by_root else "the leaf of another rack"
    return (
        f"rack {number}: {', '.join(named)} has {other} already, and an aggregator has its address for itself: name "
        "another server, or another address of that one, for this rack's leaf: `--rack LEAF=HOST,HOST`, or for the "
        "root: `--aggregator ADDRESS`"
    )


def all_names(racks: Sequence[Rack]) -> Iterator[str]:
    """Return all names and addresses of hosts and leaves."""
    for rack in racks:
        yield from rack.hosts
        if rack.leaf is not None:
            yield rack.leaf


@dataclass(frozen=True)
class UpOptions:
    """The options of `sumwire up`. ``hosts``: the workers' names or addresses. ``racks``: those of a tree of
    aggregators. ``leaves``: instead, the number of racks into which ``hosts`` are divided. ``aggregator``: the address
    of the aggregator, or of the tree's root; None for this machine's, or that of ``ssh``. ``ssh``: [USER@]HOST, the
    machine where ``remote_command`` starts it. In a tree USER also applies to the leaves' machines, and without HOST
    only leaves are started by ssh. ``listen``: address and port of the service; None for this machine's on the way to
    the first host. ``switches``: instead of hosts and aggregator, a file of `sumwire-controller`; the job named
    ``request.name`` is applied to its switches. ``logging``: further options for the programs that are started."""

    hosts: Sequence[str] = ()
    request: JobRequest = field(default_factory=JobRequest)
    racks: Sequence[Rack] = ()
    leaves: int | None = None
    aggregator: str | None = None
    ssh: str | None = None
    remote_command: str = supervisor.REMOTE_COMMAND
    listen: tuple[str, int] | None = None
    switches: Path | None = None
    logging: Sequence[str] = ()

    @property
    def ssh_host(self) -> str:
        """Return the host where ssh starts the aggregator, or the root of a tree; "" for this machine."""
        return (self.ssh or "").rpartition("@")[2]


def plan(options: UpOptions) -> tuple[dict[str, Any], list[AggregatorCommand]]:
    """Return the job, and the commands of its aggregators, the root first. Raises StartError and ServiceError."""
    if not options.hosts and not options.racks:
        raise StartError("no hosts: name the workers: sumwire up --hosts A,B, or give it in a Slurm allocation")
    in_racks = _racks(options)
    try:
        return _tree(options, in_racks) if in_racks else _star(options)
    except ConfigError as error:
        option = _OPTION_OF.get(error.field, error.field)
        raise StartError(f"{option} = {error.value!r}: {error.rule}: give another value, or leave it out") from error


def _racks(options: UpOptions) -> tuple[Rack, ...]:
    """The racks of a tree; empty without a tree."""
    if options.racks and (options.hosts or options.leaves is not None):
        raise StartError(
            "--rack beside --hosts or --tree: each --rack is a leaf with its hosts: name all hosts by --rack alone, or "
            "by --hosts, with --tree N to divide them"
        )
    if not options.racks and options.leaves is None:
        _check_star(options)
        return ()
    found = tuple(options.racks) or into_racks(options.hosts, options.leaves or 0)
    check_racks(found)
    if options.racks:
        check_unique(found, {})
    return found


def _check_star(options: UpOptions) -> None:
    if len(options.hosts) > p4.JOB_WORKERS_MAX:
        raise StartError(
            f"{len(options.hosts)} hosts: an aggregator has at most {p4.JOB_WORKERS_MAX} workers: divide them among "
            "several: `--tree N`, or name fewer; several ranks of a server share its worker"
        )
    if options.ssh is not None and not options.ssh_host:
        raise StartError(
            f"--ssh {options.ssh}: names no host, and so is for the leaves of a tree alone: name the aggregator's "
            "server: `--ssh HOST`, or divide the hosts: `--tree N`"
        )


def _star(options: UpOptions) -> tuple[dict[str, Any], list[AggregatorCommand]]:
    addresses = as_others_know({host: server_address(host) for host in options.hosts})
    at = _root(options, addresses[options.hosts[0]])
    job = job_file_for([addresses[host] for host in options.hosts], at, options.request)
    if not options.ssh:
        _check_place(at, f"--aggregator {at}", f"start the aggregator there: --ssh {at}", _OTHER_ROOT)
    return job, [AggregatorCommand(_command(options, options.ssh))]


def _tree(options: UpOptions, in_racks: Sequence[Rack]) -> tuple[dict[str, Any], list[AggregatorCommand]]:
    addresses = as_others_know({name: server_address(name) for name in all_names(in_racks)})
    if options.racks:
        check_unique(in_racks, addresses)
    root = _root(options, addresses[in_racks[0].hosts[0]])
    leaves = leaf_servers(in_racks, addresses, root)
    hosts = [[addresses[host] for host in rack.hosts] for rack in in_racks]
    job = tree_job_file(dict(zip(leaves, hosts, strict=True)), root, options.request)
    if not options.ssh_host:
        _check_place(root, f"--aggregator {root}", f"start the root there: --ssh {root}", _OTHER_ROOT)
    places = {root: options.ssh if options.ssh_host else None}
    places |= {address: _leaf_by_ssh(options, address, name) for address, name in leaves.items()}
    return job, [AggregatorCommand(_command(options, ssh, "--at", at), at) for at, ssh in places.items()]


def _root(options: UpOptions, host: str) -> str:
    """The address of the aggregator, or of the tree's root. ``host``: of the first worker."""
    named = options.aggregator or options.ssh_host
    return server_address(named) if named else source_towards(host)


def _leaf_by_ssh(options: UpOptions, address: str, name: str) -> str | None:
    """The ssh destination for a leaf; None for this machine."""
    if options.ssh is not None and not is_local(address):
        user = options.ssh.rpartition("@")[0]
        return f"{user}@{name}" if user else name
    _check_place(
        address, f"leaf {address}",
        "start the leaves by ssh, each on its server: `--ssh`, or name addresses of this machine for them: "
        "`--rack LEAF=HOST,HOST`", "name another address of this machine for the leaf: `--rack LEAF=HOST,HOST`",
    )  # fmt: skip
    return None


def _check_place(address: str, what: str, elsewhere: str, beside: str) -> None:
    """Raises StartError if no aggregator can be started here at this address. ``what``: who wants it. ``elsewhere`` and
    ``beside``: what can be done where the address is another machine's, and where another program stays there."""
    if not is_local(address):
        raise StartError(
            f"{what}: this machine does not have the address (`ip address` says what it has): run `sumwire up` on the "
            f"server that has it, or {elsewhere}"
        )
    supervisor.check_free(address, f"or {beside}")


def _command(options: UpOptions, ssh: str | None, *more: str) -> list[str]:
    words = (*more, "--report", f"{_REPORT_S:g}", *options.logging)
    return supervisor.by_ssh(ssh, options.remote_command, *words) if ssh else supervisor.here(*words)
