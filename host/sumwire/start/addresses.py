# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Resolves addresses: of a host by its name, of this machine, and of this machine as seen by others.

Used by `service`, `programs`, `paths` and `rank_placement`.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from array import array
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

from commonlib.untrusted import shown
from sumwire_protocol import constants as p4

from sumwire.start.errors import ServiceError

_LOCALHOST: Final = "localhost"
_EVERYBODY: Final = IPv4Address("255.255.255.255")
_DIGITS: Final = frozenset("0123456789.")
_NOT_OF_NAMES: Final = frozenset(":/@?#,;[]() ")
# netdevice(7). An ifreq is a name of 16 bytes and, here, a sockaddr_in, whose address is in its bytes 4 to 7.
_SIOCGIFCONF: Final = 0x8912
_IFCONF: Final = "iP"
_IFREQ_BYTES: Final = 16 + struct.calcsize("PPP")
_ADDRESS_AT: Final = 20
_INTERFACES_MOST: Final = 1024


def address_of(host: str) -> str:
    """Return the IPv4 address of a host. Raises ServiceError if it has none."""
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
    """Raise ServiceError for an IPv6 address, also in brackets, with a port or with an interface."""
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
    """Return the IPv4 address of a host, if a single server can have it. Raises ServiceError."""
    found = IPv4Address(address_of(host))
    if found.is_unspecified or found.is_multicast or found == _EVERYBODY:
        named = "" if str(found) == host else f" is {found}, which"
        raise ServiceError(f"host {shown(host)}:{named} is no address of one server: write the server's own")
    return str(found)


def as_others_know(hosts: Mapping[str, str]) -> dict[str, str]:
    """Replace loopback addresses that other machines cannot use. ``hosts``: addresses by name.

    A name that resolves to loopback here, like Debian's own host name, gets this machine's source address towards the
    others.

    Raises ServiceError if some addresses are usable on this machine only, and others are not this machine's.
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
    """Return this machine's source address towards another address. Raises ServiceError without a route."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, p4.SUMWIRE_PORT))
            return str(probe.getsockname()[0])
    except OSError as error:
        text = f"no way to {address}: {error.strerror or error}"
        raise ServiceError(f"{text}: bring the interface up, or add the route: `ip route get {address}`") from error


def is_local(address: str) -> bool:
    """Return whether this machine has the address."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def own_addresses() -> list[str]:
    """Return the IPv4 addresses under which other machines may know this one."""
    room = array("B", bytes(_INTERFACES_MOST * _IFREQ_BYTES))
    asked = struct.pack(_IFCONF, len(room), room.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        length, _ = struct.unpack(_IFCONF, fcntl.ioctl(probe, _SIOCGIFCONF, asked))
    found = [IPv4Address(room[at : at + 4].tobytes()) for at in range(_ADDRESS_AT, length, _IFREQ_BYTES)]
    return [str(address) for address in dict.fromkeys(found) if not address.is_loopback]


def machine_id(boot: str = "/proc/sys/kernel/random/boot_id", network: str = "/proc/self/ns/net") -> str:
    """Return an identifier of this machine and network namespace: a container is a machine too."""
    return f"{Path(boot).read_text().strip()}/{Path(network).stat().st_ino}"
