# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The description of a job for some hosts: a job file's content, with slots for the link."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any, Final

from sumwire_protocol import constants as p4
from sumwire_protocol.outside import shown

from sumwire.config import parse_job
from sumwire.config.brief import DEFAULT_OPS, DEFAULT_SLOTS, addresses, tree_of
from sumwire.config.brief import completed as all_fields
from sumwire.errors import ConfigError, UsageError
from sumwire.start.errors import ServiceError
from sumwire.wire.packets import HEADER_BYTES, LOWER_HEADER_BYTES, WORD_BYTES

DEFAULT_GBIT: Final = 10.0
DEFAULT_RTT_MS: Final = 0.2
DEFAULT_NAME: Final = "sumwire"
DEFAULT_NUMBER: Final = 1
# A worker keeps half of the slots under way. Slots come in whole trains.
_SLOT_STEP: Final = 64
_RESULT_BITS: Final = 8 * (LOWER_HEADER_BYTES + HEADER_BYTES + p4.SLOT_WORDS * WORD_BYTES)
_LOCALHOST: Final = "localhost"
_EVERYBODY: Final = IPv4Address("255.255.255.255")
_DIGITS: Final = frozenset("0123456789.")
_NOT_OF_NAMES: Final = frozenset(":/@?#,;[]() ")
# What a description may have that everybody may read. What is not here could be a secret.
_PUBLIC: Final = frozenset(
    {
        "format", "name", "job", "ops", "workers", "quorum", "slots", "addresses", "thc", "lanes", "paths",
        "workers_min", "blind", "tree",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """What a job shall be like. ``gbit``: the rate of a worker's link in Gbit/s. ``rtt_ms``: the round trip to the
    aggregator and back, and in a tree also that from a leaf to the root. ``bits``: of THC's indices, None for the
    default. ``port``: the workers' first UDP port."""

    name: str = DEFAULT_NAME
    number: int = DEFAULT_NUMBER
    bits: int | None = None
    gbit: float = DEFAULT_GBIT
    rtt_ms: float = DEFAULT_RTT_MS
    port: int = p4.SUMWIRE_PORT


def described(hosts: Sequence[str], aggregator: str, wanted: Wanted) -> dict[str, Any]:
    """The content of a job file, in which every host is a worker. ``hosts``, ``aggregator``: IPv4 addresses.

    THC's table is the best one for so many workers. Raises ConfigError for a job that cannot be.
    """
    slots = slots_for(wanted.gbit, wanted.rtt_ms)
    return _described({"addresses": addresses(hosts, aggregator, wanted.port)}, slots, wanted)


def described_tree(leaves: Mapping[str, Sequence[str]], root: str, wanted: Wanted) -> dict[str, Any]:
    """As :func:`described`, for a tree of aggregators of two levels. ``leaves``: the hosts of each leaf."""
    # A chunk is under way for two round trips: to the leaf, and from there to the root.
    slots = slots_for(wanted.gbit, 2 * wanted.rtt_ms)
    return _described(tree_of(leaves, root, wanted.port), slots, wanted)


def _described(placed: Mapping[str, list[dict[str, Any]]], slots: int, wanted: Wanted) -> dict[str, Any]:
    workers = len(placed["addresses"])
    thc = {} if wanted.bits is None else {"thc": {"bits": wanted.bits}}
    made = {
        "format": 3, "name": wanted.name, "job": wanted.number, "ops": list(DEFAULT_OPS), "workers": workers,
        "quorum": workers, "slots": slots, **thc, **placed,
    }  # fmt: skip
    try:
        return completed(made)
    except ConfigError as error:
        # There is no job file to correct.
        raise ConfigError(error.field, error.value, error.rule, cure="give another value, or leave it out") from error


def completed(data: Mapping[str, Any], *, where: str = "job") -> dict[str, Any]:
    """A job file's content with all fields. Raises ConfigError."""
    parse_job(data, 0, where=where)
    return dict(all_fields(data, where=where))


def slots_for(gbit: float, rtt_ms: float) -> int:
    """Slots with which a worker's link stays busy: twice the results of a round trip, at least 512.

    Example: 100 Gbit/s and 0.2 ms are 20 Mbit under way, 2,277 results of 8,784 bits. So the job gets all 4096 slots.
    """
    if not (0 < gbit < math.inf and 0 < rtt_ms < math.inf):
        raise UsageError(
            f"a link of {gbit:g} Gbit/s and a round trip of {rtt_ms:g} ms: both must be above 0, and finite: leave "
            f"them out for {DEFAULT_GBIT:g} and {DEFAULT_RTT_MS:g}"
        )
    under_way = gbit * 1e6 * rtt_ms / _RESULT_BITS
    wanted = math.ceil(2 * under_way / _SLOT_STEP) * _SLOT_STEP
    return min(max(wanted, DEFAULT_SLOTS), p4.SLOTS_TOTAL)


def public(description: Mapping[str, Any]) -> Mapping[str, Any]:
    """The description, if everybody may read it. Raises ServiceError."""
    secret = sorted(description.keys() - _PUBLIC)
    if secret:
        raise ServiceError(
            f"the job has {', '.join(secret)}, and plain HTTP would tell it to everybody on the network: bring the job "
            'file to every server in a safe way, and give it to the script: sumwire.init(job="FILE")'
        )
    return description


def address_of(host: str) -> str:
    """The IPv4 address of a host. Raises ServiceError if it has none."""
    try:
        return str(IPv4Address(host))
    except AddressValueError:
        pass  # a name
    check_family(host, "host")
    if not host or set(host) <= _DIGITS or set(host) & _NOT_OF_NAMES or not host.isprintable():
        raise ServiceError(f"host {shown(host)}: must be a name or an IPv4 address, and nothing else: write 10.0.0.1")
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ServiceError(f"host {shown(host)}: {reason}: write its IPv4 address in place of the name") from error
    return str(found[0][4][0])


def check_family(host: str, what: str) -> None:
    """Raises ServiceError for an IPv6 address, also in brackets, with a port or with an interface."""
    text = host.removeprefix("http://").removesuffix("/")
    bare = text[1:].partition("]")[0] if text.startswith("[") else text
    try:
        IPv6Address(bare)
    except AddressValueError:
        return
    raise ServiceError(
        f"{what} = {shown(host)}: is an IPv6 address, and Sumwire's packets are IPv4: give the server an IPv4 address, "
        "and write that"
    )


def server_address(host: str) -> str:
    """The IPv4 address of a host, if one server can have it. Raises ServiceError."""
    found = IPv4Address(address_of(host))
    if found.is_unspecified or found.is_multicast or found == _EVERYBODY:
        named = "" if str(found) == host else f" is {found}, which"
        raise ServiceError(f"host {shown(host)}:{named} is no address of one server: write the server's own")
    return str(found)


def as_others_know(hosts: Mapping[str, str]) -> dict[str, str]:
    """``hosts``: addresses by name. A name that stands for this machine alone here, as Debian has it for its own name,
    gets this machine's address on the way to the others.

    Raises ServiceError for an address that is this machine's own alone, if others are not.
    """
    own = sorted(host for host, address in hosts.items() if IPv4Address(address).is_loopback)
    others = [address for host, address in hosts.items() if host not in own]
    if not own or not others:
        return dict(hosts)
    fixed = [host for host in own if host in (hosts[host], _LOCALHOST)]
    if fixed:
        named = f"host {shown(fixed[0])} is {hosts[fixed[0]]} here"
        raise ServiceError(f"{named}, which no other server reaches: write the address that the others know it by")
    return {**hosts, **dict.fromkeys(own, source_towards(others[0]))}


def source_towards(address: str) -> str:
    """This machine's own address on the way to another one. Raises ServiceError without a way."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, p4.SUMWIRE_PORT))
            return str(probe.getsockname()[0])
    except OSError as error:
        text = f"no way to {address}: {error.strerror or error}"
        raise ServiceError(f"{text}: bring the interface up, or add the route: `ip route get {address}`") from error


def is_local(address: str) -> bool:
    """Whether this machine has the address."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
