# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Examines this host: versions, compiler, clock, socket buffers; and the worker's address, UDP ports and route to its
switch. Used by `examination` and `switch`.
"""

from __future__ import annotations

import ctypes
import errno
import importlib.metadata
import importlib.util
import json
import platform
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from typing import Final

from commonlib.version import __version__
from nativelib import NoCompilerError, UntrustedError, find_compiler, prebuilt_level, programs
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.doctor.findings import GOOD, NOTE, Finding, bad, good, unknown
from sumwire.transport.link import opening_error
from sumwire.transport.switch_answers import least_mtu, too_narrow
from sumwire.wire.batch import enlarge_buffers
from sumwire.wire.packets import HEADER_BYTES, WORD_BYTES

COMMAND_S: Final = 2.0
_CLOCK: Final = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
# Reading these takes microseconds, and a job reads the time for every batch of packets.
_SLOW_CLOCKS: Final = ("acpi_pm", "hpet", "jiffies", "pit")
_RESOLUTION_MOST_S: Final = 1e-4
# Of the kernel, from adjtimex(2), and more bytes than its struct timex has.
_TIME_ERROR: Final = 5
_TIMEX_BYTES: Final = 512
_PYTHON_LEAST: Final = (3, 11)
# The kernel counts a received packet as more than its bytes.
_TRUE_SIZE: Final = 2
_OFFLOADS: Final = ("generic-segmentation-offload", "generic-receive-offload")
_GET_FLAGS: Final = 0x8913
_GET_MTU: Final = 0x8921
_UP: Final = 0x1
_RUNNING: Final = 0x40
_COMMAND_MOST: Final = 60


def examined(config: JobConfig | None) -> Iterator[Finding]:
    """Return the findings that need no network."""
    yield _versions(config)
    yield _compiler()
    yield _clock()
    yield _buffers(config)


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _versions(config: JobConfig | None) -> Finding:
    torch = _version_of("torch")
    text = (
        f"sumwire {__version__} (program revision {p4.PROGRAM_REVISION}), Python {platform.python_version()}, numpy "
        f"{_version_of('numpy')}, torch {torch or 'missing'}, Linux {platform.release()}"
    )
    if not sys.platform.startswith("linux"):
        return bad("versions", f"{text}: hosts send by sendmmsg", "run workers on Linux")
    if sys.version_info < _PYTHON_LEAST:
        return bad("versions", f"{text}: too old", "use Python 3.11 or later")
    if not torch:
        return bad("versions", text, "pip install 'sumwire[host]'")
    if config is not None and config.blind and importlib.util.find_spec("cryptography") is None:
        return bad("versions", f"{text}: a blind job needs cryptography", "pip install 'sumwire[blind]'")
    return good("versions", text)


def _compiler() -> Finding:
    try:
        return good("compiler", " ".join(find_compiler().command))
    except NoCompilerError as error:
        if (level := prebuilt_level()) is not None:
            return good("compiler", f"none, and none is needed: the kernels came compiled, for {level}")
        return Finding("compiler", NOTE, "none: packets and codecs go by Python and torch, which is slower", str(error))


def _clock() -> Finding:
    resolution = time.clock_getres(time.CLOCK_MONOTONIC)
    source = _CLOCK.read_text().strip() if _CLOCK.exists() else "not told"
    text = f"source {source}, resolution {resolution * 1e9:.0f} ns, {_time_of_day()}"
    if source in _SLOW_CLOCKS or resolution > _RESOLUTION_MOST_S:
        cure = f"choose a quicker one of {_CLOCK.parent / 'available_clocksource'}, such as tsc or kvm-clock"
        return Finding("clock", NOTE, f"{text}: slow to read", cure)
    return good("clock", text)


def _time_of_day() -> str:
    """Whether the time of day is kept by NTP or the like. No job needs it, but logs of several hosts do."""
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state == _TIME_ERROR:
        return "time of day not synchronised: times in logs of several hosts may differ"
    return "time of day synchronised"


def _buffers(config: JobConfig | None) -> Finding:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        enlarge_buffers(udp)
        room = udp.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    if config is None:
        return good("buffers", f"a socket can hold {room} bytes")
    flying = sum(lane.slots for lane in config.lanes) // 2
    need = flying * _TRUE_SIZE * (HEADER_BYTES + p4.SLOT_WORDS * WORD_BYTES)
    text = f"a socket can hold {room} bytes, the results in flight take up to {need}"
    if room < need:
        return Finding("buffers", NOTE, f"{text}: some may be lost", f"sysctl -w net.core.rmem_max={need}")
    return good("buffers", text)


def offloads(device: str) -> Finding:
    """Return the finding on a network device: whether it accepts trains of packets (offload)."""
    told = words_of(["ethtool", "-k", device])
    if told is None:
        return unknown("offloads", "ethtool is not on PATH, or knows nothing of the device")
    rows = dict(line.strip().partition(": ")[::2] for line in told.splitlines())
    # What comes through a veth is still as it was sent, so there is nothing to join again.
    wanted = _OFFLOADS[:1] if "driver: veth" in (words_of(["ethtool", "-i", device]) or "") else _OFFLOADS
    off = [name for name in wanted if not rows.get(name, "").startswith("on")]
    if off:
        cure = f"ethtool -K {device} tx on sg on gso on gro on, where the device can"
        return Finding("offloads", NOTE, f"{device}: {' and '.join(off)} off: more processor time a packet", cure)
    return Finding("offloads", GOOD, f"{device} takes trains of packets")


def words_of(command: list[str]) -> str | None:
    """Return the output of a command; None if it does not exist, fails or takes too long."""
    try:
        done = subprocess.run(
            [programs.program(command[0]), *command[1:]],
            capture_output=True,
            text=True,
            check=True,
            timeout=COMMAND_S,
            env=programs.environment({"LC_ALL": "C"}),
            errors="replace",
        )
    except (OSError, UntrustedError, subprocess.SubprocessError):
        return None
    return done.stdout


@dataclass(frozen=True)
class NetworkPlace:
    """The worker's place in the network. ``here``: the worker's address is this host's. ``way``: there is a route to
    the switch, and its device is up. ``device``: the network device of that route; "" if unknown. ``hop``: the next
    address on the route, a gateway or the switch itself; "" if unknown. ``narrow``: the device's MTU is below the job's
    packet length."""

    here: bool
    way: bool
    device: str
    hop: str = ""
    narrow: bool = False


def own_worker(addresses: list[str]) -> list[int]:
    """Return the workers whose address is this host's."""
    return [number for number, address in enumerate(addresses) if _bind_error(address, 0) is None]


def network(config: JobConfig) -> tuple[NetworkPlace, list[Finding]]:
    """Return where the worker is, and what was found."""
    own = config.own_address
    error = _bind_error(own.ip, 0)
    if error is not None:
        return NetworkPlace(False, False, ""), [bad("address", opening_error(config, own.udp_port, error))]
    findings = [good("address", f"{own.ip} is this host's, worker {config.worker}, seat {config.seat} at the switch")]
    ports = list(_ports(config))
    no_route = _no_route(config)
    if no_route is not None:
        return NetworkPlace(True, False, ""), [*findings, *ports, no_route]
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
    """Return the network devices that have an address, with their flags."""
    told = json.loads(words_of(["ip", "-json", "address", "show", "to", address]) or "[]")
    return [(str(one["ifname"]), one.get("flags", [])) for one in told if "ifname" in one]


def _way(config: JobConfig) -> tuple[NetworkPlace, list[Finding]]:
    """The way to the switch, and findings about route, MTU and offloads."""
    told = words_of(["ip", "-json", "route", "get", config.aggregator, "from", config.own_address.ip])
    if told is None:
        why = "there is one; `ip` of iproute2 is not on PATH, which would name its device"
        return NetworkPlace(True, True, ""), [unknown("route", why)]
    route = json.loads(told)[0]
    device = str(route.get("dev", ""))
    hop = str(route.get("gateway", config.aggregator))
    mtu, flags = _device(device)
    via = f" by {route['gateway']}" if "gateway" in route else ""
    if not flags & _UP:
        text = f"to {config.aggregator}{via} at {device}, which is down"
        return NetworkPlace(True, False, device, hop), [bad("route", text, f"ip link set dev {device} up")]
    if not flags & _RUNNING:
        text = f"to {config.aggregator}{via} at {device}, which has no carrier"
        cure = "look at the cable, and whether the switch's port is up"
        return NetworkPlace(True, False, device, hop), [bad("route", text, cure)]
    need = least_mtu(config)
    width = good("mtu", f"{device} takes {mtu} bytes, the job's packets need {need}")
    narrow = bad("mtu", too_narrow(config, mtu, device).partition(": ")[2])
    found = [good("route", f"to {config.aggregator}{via} at {device}"), width if mtu >= need else narrow]
    return NetworkPlace(True, True, device, hop, narrow=mtu < need), [*found, offloads(device)]


def _device(name: str) -> tuple[int, int]:
    """A device's MTU, and its flags."""
    request = struct.pack("16s16x", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        (mtu,) = struct.unpack_from("i", ioctl(udp, _GET_MTU, request), 16)
        (flags,) = struct.unpack_from("H", ioctl(udp, _GET_FLAGS, request), 16)
    return mtu, flags
