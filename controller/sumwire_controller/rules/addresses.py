# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules on names and addresses: their form, and that none occurs twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address
from typing import Final

from sumwire_protocol.constants import DROP_PORT

from sumwire_controller.errors import Problem
from sumwire_controller.model import MAC_PATTERN, MAC_RULE, Switch, mac_number

PORT_MAX: Final = DROP_PORT - 1
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_UNIX: Final = "unix:"
_PATH_MAX: Final = 107
_MAC_GROUP_BIT: Final = 1 << 40


def switch_rules(path: str, switch: Switch) -> Iterator[Problem]:
    """A switch's name, server and device id are well formed."""
    yield from name_rule(path, switch.name)
    if not (_is_socket(switch.grpc) if switch.grpc.startswith(_UNIX) else _is_host_and_port(switch.grpc)):
        yield Problem(path, "grpc", switch.grpc, "must be host:port with a port of 1..65535, or unix:/path")
    if not 0 <= switch.device_id < 1 << 64:
        yield Problem(path, "device_id", switch.device_id, "must be 0..2^64-1")


def _is_host_and_port(address: str) -> bool:
    host, colon, port = address.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= len(str(1 << 16))
    return bool(host and colon and is_number and 0 < int(port) < 1 << 16)


def _is_socket(address: str) -> bool:
    """Linux takes paths of sockets of up to 107 bytes."""
    path = address.removeprefix(_UNIX)
    return path.startswith("/") and not path.endswith("/") and "\0" not in path and len(path.encode()) <= _PATH_MAX


_NAME_RULE: Final = "must be letters, digits, '_', '.' and '-', beginning with a letter or digit, 128 at most"


def name_rule(path: str, name: str) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        yield Problem(path, "name", name, _NAME_RULE)


def address_rules(path: str, ip: IPv4Address, mac: str) -> Iterator[Problem]:
    if ip.is_multicast or ip.is_unspecified or ip.is_loopback or ip.is_reserved:
        yield Problem(path, "ip", str(ip), "must be a unicast address of a host")
    if not MAC_PATTERN.fullmatch(mac):
        yield Problem(path, "mac", mac, MAC_RULE)
    elif mac_number(mac) == 0 or mac_number(mac) & _MAC_GROUP_BIT:
        yield Problem(path, "mac", mac, "must be a unicast address, not zero")


def repeated(fields: Iterable[tuple[str, str, object]], what: str) -> Iterator[Problem]:
    """A problem for each value that occurs again.

    :param fields: path, field and value of each.
    :param what: the value's name in messages.
    """
    first: dict[object, str] = {}
    for path, field, value in fields:
        if value in first:
            yield Problem(path, field, value, f"{what} is already that of {first[value]}: give it another")
        else:
            first[value] = path if not field.startswith("[") else path + field
