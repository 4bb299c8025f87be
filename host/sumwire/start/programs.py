# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What `sumwire up` makes of its options: a job, and the programs that are its aggregators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sumwire_protocol import constants as p4

from sumwire.errors import ConfigError
from sumwire.start import child, racks
from sumwire.start.description import (
    Wanted,
    as_others_know,
    described,
    described_tree,
    is_local,
    server_address,
    source_towards,
)
from sumwire.start.errors import StartError
from sumwire.start.keeping import Program
from sumwire.start.racks import Rack

# Lines with an aggregator's counters, while they change.
_REPORT_S: Final = 10.0
# What can be done while another program has the port of the aggregator's address.
_OTHER_ROOT: Final = (
    "run this one on another server, or with another address of this one: --aggregator ADDRESS --listen ADDRESS"
)
# The options that fields of a job come from.
_OPTION_OF: Final = {"job": "--number", "name": "--name", "addresses": "--worker-port", "udp_port": "--worker-port"}


@dataclass(frozen=True)
class Up:
    """``hosts``: the workers' names or addresses. ``racks``: those of a tree of aggregators; or ``leaves``: among so
    many of them ``hosts`` are divided. ``aggregator``: the address of the aggregator, or of the tree's root; None for
    this machine's, or that of ``ssh``. ``ssh``: [USER@]HOST, where it is started then, by ``remote_command``; in a tree
    USER is that of the leaves' machines too, and without HOST only leaves are started so. ``listen``: address and port
    of the service; None for this machine's on the way to the first host. ``switches``: a file of `sumwire-controller`,
    to whose switches the job of name ``wanted.name`` is applied, in place of hosts and aggregator. ``logging``: more
    options of the programs that it starts."""

    hosts: Sequence[str] = ()
    wanted: Wanted = field(default_factory=Wanted)
    racks: Sequence[Rack] = ()
    leaves: int | None = None
    aggregator: str | None = None
    ssh: str | None = None
    remote_command: str = child.REMOTE_COMMAND
    listen: tuple[str, int] | None = None
    switches: Path | None = None
    logging: Sequence[str] = ()

    @property
    def ssh_host(self) -> str:
        """Where the aggregator is started by ssh, or the root of a tree; empty for this machine."""
        return (self.ssh or "").rpartition("@")[2]


def plan(options: Up) -> tuple[dict[str, Any], list[Program]]:
    """The job, and its aggregators, the root first. Raises StartError and ServiceError."""
    if not options.hosts and not options.racks:
        raise StartError("no hosts: name the workers: sumwire up --hosts A,B")
    in_racks = _racks(options)
    try:
        return _tree(options, in_racks) if in_racks else _star(options)
    except ConfigError as error:
        option = _OPTION_OF.get(error.field, error.field)
        raise StartError(f"{option} = {error.value!r}: {error.rule}: give another value, or leave it out") from error


def _racks(options: Up) -> tuple[Rack, ...]:
    """Those of a tree; none without one."""
    if options.racks and (options.hosts or options.leaves is not None):
        raise StartError(
            "--rack beside --hosts or --tree: each --rack is a leaf with its hosts: name all hosts by --rack alone, or "
            "by --hosts, with --tree N to divide them"
        )
    if not options.racks and options.leaves is None:
        _check_star(options)
        return ()
    found = tuple(options.racks) or racks.divided(options.hosts, options.leaves or 0)
    racks.check(found)
    if options.racks:
        racks.check_once(found, {})
    return found


def _check_star(options: Up) -> None:
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


def _star(options: Up) -> tuple[dict[str, Any], list[Program]]:
    addresses = as_others_know({host: server_address(host) for host in options.hosts})
    at = _root(options, addresses[options.hosts[0]])
    job = described([addresses[host] for host in options.hosts], at, options.wanted)
    if not options.ssh:
        _check_place(at, f"--aggregator {at}", f"start the aggregator there: --ssh {at}", _OTHER_ROOT)
    return job, [Program(_command(options, options.ssh))]


def _tree(options: Up, in_racks: Sequence[Rack]) -> tuple[dict[str, Any], list[Program]]:
    addresses = as_others_know({name: server_address(name) for name in racks.every_name(in_racks)})
    if options.racks:
        racks.check_once(in_racks, addresses)
    root = _root(options, addresses[in_racks[0].hosts[0]])
    leaves = racks.leaves(in_racks, addresses, root)
    hosts = [[addresses[host] for host in rack.hosts] for rack in in_racks]
    job = described_tree(dict(zip(leaves, hosts, strict=True)), root, options.wanted)
    if not options.ssh_host:
        _check_place(root, f"--aggregator {root}", f"start the root there: --ssh {root}", _OTHER_ROOT)
    places = {root: options.ssh if options.ssh_host else None}
    places |= {address: _leaf_by_ssh(options, address, name) for address, name in leaves.items()}
    return job, [Program(_command(options, ssh, "--at", at), at) for at, ssh in places.items()]


def _root(options: Up, host: str) -> str:
    """The address of the aggregator, or of the tree's root. ``host``: of the first worker."""
    named = options.aggregator or options.ssh_host
    return server_address(named) if named else source_towards(host)


def _leaf_by_ssh(options: Up, address: str, name: str) -> str | None:
    """Where a leaf is started by ssh; None for this machine."""
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
    child.check_free(address, f"or {beside}")


def _command(options: Up, ssh: str | None, *more: str) -> list[str]:
    words = (*more, "--report", f"{_REPORT_S:g}", *options.logging)
    return child.by_ssh(ssh, options.remote_command, *words) if ssh else child.here(*words)
