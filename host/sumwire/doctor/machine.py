# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The host by itself: versions, compiler, clock, socket buffers, offloads of a device."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nativelib import NoCompilerError, UntrustedError, find_compiler, prebuilt_level, programs
from sumwire_protocol import constants as p4
from sumwire_protocol.version import __version__

from sumwire.config import JobConfig
from sumwire.doctor.findings import GOOD, NOTE, Finding, bad, good, unknown
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


def examined(config: JobConfig | None) -> Iterator[Finding]:
    """Findings that need no network."""
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
    """Whether the device takes trains of packets."""
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
    """What a command prints; None if it is not there, fails, or takes long."""
    environment = programs.environment({"LC_ALL": "C"})
    try:
        done = subprocess.run(
            [programs.program(command[0]), *command[1:]],
            capture_output=True,
            text=True,
            check=True,
            timeout=COMMAND_S,
            env=environment,
            errors="replace",
        )
    except (OSError, UntrustedError, subprocess.SubprocessError):
        return None
    return done.stdout
