# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Racks: the hosts of a job in groups, with an aggregator each, the leaf. The leaves are below one root.

Example: ``--hosts A,B,C,D --tree 2`` has the racks A, B and C, D. If the root is on A, the leaves are on B and C.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from sumwire_protocol import constants as p4

from sumwire.config.job_config import WORKERS_MAX
from sumwire.start.errors import StartError

# With fewer leaves the root would have nothing to sum.
_RACKS_MIN: Final = 2
_MOST: Final = p4.JOB_WORKERS_MAX


@dataclass(frozen=True)
class Rack:
    """``hosts``: names or addresses. ``leaf``: that of the server with the rack's aggregator; None for one of hosts."""

    hosts: tuple[str, ...]
    leaf: str | None = None

    @classmethod
    def parse(cls, words: Sequence[str]) -> Rack:
        """The words of an option: HOST,HOST or LEAF=HOST,HOST, with spaces or commas between hosts."""
        text = ",".join(words)
        before, equals, after = text.partition("=")
        leaf, hosts = (before.strip(), after) if equals else (None, before)
        return cls(names(hosts), leaf)


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def divided(hosts: Sequence[str], count: int) -> tuple[Rack, ...]:
    """Hosts in order in so many racks, whose sizes differ by one at most. Raises StartError."""
    most = min(_MOST, len(hosts))
    if not _RACKS_MIN <= count <= most:
        raise StartError(
            f"--tree {count}: {len(hosts)} hosts are divided among {_RACKS_MIN} to {_MOST} leaves, each with one host "
            "at least: give another number, or leave --tree out"
        )
    # The larger ones first: on the first rack one server has the root, and another one the leaf.
    ends = [-(-len(hosts) * number // count) for number in range(count + 1)]
    return tuple(Rack(tuple(hosts[begin:end])) for begin, end in pairwise(ends))


def check(racks: Sequence[Rack]) -> None:
    """Raises StartError if they are too many, or a rack has too many hosts or none."""
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


def check_once(racks: Sequence[Rack], found: Mapping[str, str]) -> None:
    """Raises StartError if a host is in two racks, also under two names. Twice in one means two workers, as without
    racks. ``found``: addresses by name, as far as they are known."""
    first: dict[str, int] = {}
    for number, rack in enumerate(racks, 1):
        for host in rack.hosts:
            address = found.get(host, host)
            if first.setdefault(address, number) != number:
                raise StartError(
                    f"{host} is in rack {first[address]} and in rack {number}: a server has one leaf: name it in one "
                    "of them; twice there, if it shall have two workers"
                )


def leaves(racks: Sequence[Rack], found: Mapping[str, str], root: str) -> dict[str, str]:
    """The name of each leaf's server, in the order of the racks, by its address. ``found``: addresses by name.

    Where none is named it is the rack's first host that has no other aggregator. Raises StartError.
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


def every_name(racks: Sequence[Rack]) -> Iterator[str]:
    """All names and addresses, of hosts and leaves."""
    for rack in racks:
        yield from rack.hosts
        if rack.leaf is not None:
            yield rack.leaf
