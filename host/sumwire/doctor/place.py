# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The worker's place in the network: its address, its UDP ports, the way to its switch."""

from __future__ import annotations

import errno
import json
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from typing import Final

from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.doctor.findings import Finding, bad, good, unknown
from sumwire.doctor.machine import offloads, words_of
from sumwire.transport.link import opening_error
from sumwire.transport.switch_answers import least_mtu, too_narrow

_GET_FLAGS: Final = 0x8913
_GET_MTU: Final = 0x8921
_UP: Final = 0x1
_RUNNING: Final = 0x40
_COMMAND_MOST: Final = 60


@dataclass(frozen=True)
class Place:
    """``here``: the worker's address is this host's. ``way``: there is a route to the switch, and its device is
    connected. ``device``: towards the switch; "" if not known. ``hop``: the next address on the way, a gateway's or the
    switch's own; "" if not known. ``narrow``: the device takes no packet as long as the job's."""

    here: bool
    way: bool
    device: str
    hop: str = ""
    narrow: bool = False


def own_worker(addresses: list[str]) -> list[int]:
    """The numbers of the workers whose address is this host's."""
    return [number for number, address in enumerate(addresses) if _bind_error(address, 0) is None]


def examined(config: JobConfig) -> tuple[Place, list[Finding]]:
    """Where the worker is, and what was found."""
    own = config.own_address
    error = _bind_error(own.ip, 0)
    if error is not None:
        return Place(False, False, ""), [bad("address", opening_error(config, own.udp_port, error))]
    findings = [good("address", f"{own.ip} is this host's, worker {config.worker}, seat {config.seat} at the switch")]
    ports = list(_ports(config))
    no_route = _no_route(config)
    if no_route is not None:
        return Place(True, False, ""), [*findings, *ports, no_route]
    place, way = _way(config)
    return place, [*findings, *ports, *way]


def _bind_error(address: str, port: int) -> OSError | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        try:
            udp.bind((address, port))
        except OSError as error:
            return error
    return None


def _ports(config: JobConfig) -> Iterator[Finding]:
    """The UDP port of each lane."""
    for lane in range(len(config.lanes)):
        own = config.for_lane(lane).own_address
        error = _bind_error(own.ip, own.udp_port)
        if error is None:
            yield good("port", f"UDP {own.udp_port} is free")
        elif error.errno == errno.EADDRINUSE:
            who = _owner(own.udp_port) or "another process on this host (another user's, or root tells which)"
            text = f"job {config.job}, worker {config.worker}: UDP port {own.udp_port} is in use by {who}"
            yield bad("port", f"{text}: a run is under way, or an earlier one has not ended", "end that process first")
        else:
            yield bad("port", opening_error(config, own.udp_port, error))


def _owner(port: int) -> str:
    """The process that has a UDP port; "" if this user may not know."""
    rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    numbers = {f"socket:[{row[9]}]" for row in rows if int(row[1].rpartition(":")[2], 16) == port}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found = any(str(link.readlink()) in numbers for link in (folder / "fd").iterdir())
            if found:
                command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
                shown = "".join(letter for letter in command if letter.isprintable())
                return f"process {folder.name} ({shown[:_COMMAND_MOST]})"
        # Ended meanwhile, or another user's.
        except OSError:
            continue
    return ""


def _no_route(config: JobConfig) -> Finding | None:
    """That there is no route to the switch, as of a device that is down; None if there is one."""
    own = config.own_address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        try:
            udp.bind((own.ip, 0))
            udp.connect((config.aggregator, p4.SUMWIRE_PORT))
        except OSError as error:
            down = [name for name, flags in devices_of(own.ip) if "UP" not in flags]
            if down:
                text = f"no route to {config.aggregator}: {down[0]}, which has {own.ip}, is down"
                return bad("route", text, f"ip link set dev {down[0]} up")
            return bad("route", opening_error(config, own.udp_port, error))
    return None


def devices_of(address: str) -> list[tuple[str, list[str]]]:
    """The devices that have an address, with their flags."""
    told = json.loads(words_of(["ip", "-json", "address", "show", "to", address]) or "[]")
    return [(str(one["ifname"]), one.get("flags", [])) for one in told if "ifname" in one]


def _way(config: JobConfig) -> tuple[Place, list[Finding]]:
    """The way to the switch, and findings about route, MTU and offloads."""
    told = words_of(["ip", "-json", "route", "get", config.aggregator, "from", config.own_address.ip])
    if told is None:
        why = "there is one; `ip` of iproute2 is not on PATH, which would name its device"
        return Place(True, True, ""), [unknown("route", why)]
    route = json.loads(told)[0]
    device = str(route.get("dev", ""))
    hop = str(route.get("gateway", config.aggregator))
    mtu, flags = _device(device)
    via = f" by {route['gateway']}" if "gateway" in route else ""
    if not flags & _UP:
        text = f"to {config.aggregator}{via} at {device}, which is down"
        return Place(True, False, device, hop), [bad("route", text, f"ip link set dev {device} up")]
    if not flags & _RUNNING:
        text = f"to {config.aggregator}{via} at {device}, which has no carrier"
        cure = "look at the cable, and whether the switch's port is up"
        return Place(True, False, device, hop), [bad("route", text, cure)]
    need = least_mtu(config)
    width = good("mtu", f"{device} takes {mtu} bytes, the job's packets need {need}")
    narrow = bad("mtu", too_narrow(config, mtu, device).partition(": ")[2])
    found = [good("route", f"to {config.aggregator}{via} at {device}"), width if mtu >= need else narrow]
    return Place(True, True, device, hop, narrow=mtu < need), [*found, offloads(device)]


def _device(name: str) -> tuple[int, int]:
    """A device's MTU, and its flags."""
    request = struct.pack("16s16x", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        (mtu,) = struct.unpack_from("i", ioctl(udp, _GET_MTU, request), 16)
        (flags,) = struct.unpack_from("H", ioctl(udp, _GET_FLAGS, request), 16)
    return mtu, flags
