# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Captures of ports have the frames that came in and left, the same with both engines, and are whole at the end."""

from __future__ import annotations

import logging
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.logs import events_of
from helpers.softswitch.compile_programs import PROGRAMS
from helpers.softswitch.veths import TIMEOUT_S, Host
from scapy.utils import PcapNgReader, PcapReader
from softswitch.capture import Capture
from softswitch.events import SwitchEvent
from softswitch.runtime.interface import PortError
from softswitch.switch import EngineChoice, SoftSwitch

pytestmark = pytest.mark.root

ENGINES = ["python", pytest.param("native", marks=pytest.mark.cc)]
FRAMES = 200


def probe(number: int, tag: int) -> bytes:
    """A frame that leaves by port 2. Bytes 12 and 13 are where a VLAN tag would be."""
    return struct.pack(">HHHHII", 0, 2, number, 0, 0, tag) + number.to_bytes(2) * (4 + number % 40)


SENT = [probe(number, 0x81000005 if number % 3 == 0 else 0) for number in range(FRAMES)]


def captured(file: Path) -> list[bytes]:
    now = time.time()
    with PcapReader(str(file)) as reader:
        packets = list(reader)
    assert all(now - 600 < float(packet.time) <= now for packet in packets)
    assert [packet.time for packet in packets] == sorted(packet.time for packet in packets)
    return [bytes(packet.original) for packet in packets]


def through(wires: dict[int, str]) -> list[bytes]:
    """Send all frames into port 1; return what leaves by port 2."""
    with Host(wires[1]) as one, Host(wires[2]) as two:
        left = []
        for frame in SENT:
            one.socket.send(frame)
            left.append(two.socket.recv(65536))
        return left


@pytest.mark.parametrize("engine", ENGINES)
def test_files_are_whole_after_sigterm(tmp_path: Path, wires: dict[int, str], engine: str) -> None:
    """Of a process that has given up root's rights."""
    ports = [word for number, name in wires.items() for word in ("-i", f"{number}@{name}")]
    words = [f"{PROGRAMS}/multicast.json", *ports, "--pcap", f"{tmp_path}/pcaps", "--user", "nobody"]
    line = [sys.executable, "-m", "softswitch.cli", *words, "--engine", engine]
    line += ["--grpc-server-addr", f"unix:{tmp_path}/p4rt"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            assert any("ready" in line for line in iter(process.stderr.readline, ""))
            left = through(wires)
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
    assert sorted(path.name for path in (tmp_path / "pcaps").iterdir()) == sorted(
        f"{name}_{way}.pcap" for name in wires.values() for way in ("in", "out")
    )
    assert captured(tmp_path / "pcaps" / f"{wires[1]}_in.pcap") == SENT
    assert captured(tmp_path / "pcaps" / f"{wires[2]}_out.pcap") == left
    assert len(left) == FRAMES
    assert captured(tmp_path / "pcaps" / f"{wires[1]}_out.pcap") == []
    assert captured(tmp_path / "pcaps" / f"{wires[2]}_in.pcap") == []


INBOUND, OUTBOUND = 1, 2


@pytest.mark.parametrize("engine", ENGINES)
def test_one_pcapng_file_a_port(tmp_path: Path, wires: dict[int, str], engine: EngineChoice) -> None:
    """It says which frames came in; it has nanoseconds, and the interface's name."""
    switch = SoftSwitch((PROGRAMS / "multicast.json").read_text(), engine=engine)
    before_ns = time.time_ns()
    with Capture(tmp_path, wires, pcapng=True), switch.port_runner(wires):
        left = through(wires)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{name}.pcapng" for name in wires.values())
    for port, direction, frames in ((1, INBOUND, SENT), (2, OUTBOUND, left)):
        with PcapNgReader(str(tmp_path / f"{wires[port]}.pcapng")) as reader:
            packets = list(reader)
        assert [bytes(packet.original) for packet in packets] == frames
        assert {(packet.direction, packet.sniffed_on) for packet in packets} == {(direction, wires[port])}
        at_ns = [int(packet.time * 10**9) for packet in packets]
        assert before_ns <= at_ns[0] and at_ns == sorted(at_ns) and at_ns[-1] <= time.time_ns()
        assert any(each % 1000 for each in at_ns)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_full_disk(
    tmp_path: Path, wires: dict[int, str], engine: EngineChoice, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once for a file; the switch goes on, and so do the other files."""
    (tmp_path / f"{wires[1]}_in.pcap").symlink_to("/dev/full")
    switch = SoftSwitch((PROGRAMS / "multicast.json").read_text(), engine=engine)
    with Capture(tmp_path, wires), switch.port_runner(wires):
        left = through(wires)
    assert len(left) == FRAMES
    assert captured(tmp_path / f"{wires[2]}_out.pcap") == left
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert events_of(told) == [SwitchEvent.FILE_ENDED]
    assert "No space left on device: nothing more is written there" in told[0].getMessage()


def test_a_capture_that_cannot_start(tmp_path: Path, wires: dict[int, str]) -> None:
    with pytest.raises(PortError, match="name a folder that can be written"):
        Capture(tmp_path / "none", wires)
    with pytest.raises(PortError, match="port 3 on nonesuch"):
        Capture(tmp_path, {**wires, 3: "nonesuch"})
    with pytest.raises(PortError, match=r"^--pcapng "):
        Capture(tmp_path / "none", wires, pcapng=True)
