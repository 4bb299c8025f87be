# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ports at Unix sockets: packets without root and without interfaces."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from helpers.docs import pages
from helpers.paths import ROOT
from softswitch import options
from softswitch.python.unix_port import UnixPort
from softswitch.runtime.entries import ActionCall, Entry, Exact, Replica
from softswitch.runtime.interface import PortError
from softswitch.switch import EngineChoice, SoftSwitch

PROGRAM = ROOT / "examples" / "p4" / "sum.json"
HOSTS = (1, 2, 3, 4)
TIMEOUT_S = 20.0
ENGINES = ["python", pytest.param("native", marks=pytest.mark.cc)]


def frame(number: int, slot: int = 7) -> bytes:
    return b"\xff" * 6 + bytes(6) + struct.pack(">HBI", 0x88B5, slot, number)


def number_of(answer: bytes) -> int:
    return int.from_bytes(answer[15:19])


@contextmanager
def attached(folder: Path, port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        host.bind(str(folder / f"h{port}"))
        host.connect(str(folder / f"p{port}"))
        host.settimeout(TIMEOUT_S)
        yield host


def summing(engine: EngineChoice) -> SoftSwitch:
    switch = SoftSwitch(PROGRAM.read_text(), engine=engine)
    for port in HOSTS:
        call = ActionCall("MyIngress.host", (1 << port - 1, 0b1111, 1))
        switch.insert("MyIngress.hosts", Entry((Exact(port),), call))
    switch.set_group(1, [Replica(port, 0) for port in HOSTS])
    return switch


@pytest.mark.parametrize("engine", ENGINES)
def test_hosts_at_sockets_sum(engine: EngineChoice, tmp_path: Path) -> None:
    """Also a host that has only said where it is gets the answer; one that has said nothing does not."""
    switch = summing(engine)
    assert switch.engine == engine
    with switch.port_runner({port: f"unix:{tmp_path}/p{port}" for port in HOSTS}) as runner, ExitStack() as stack:
        assert [stat.S_IMODE((tmp_path / f"p{port}").stat().st_mode) for port in HOSTS] == [0o600] * 4
        one, two, three = (stack.enter_context(attached(tmp_path, port)) for port in (1, 2, 3))
        two.send(b"")
        three.send(frame(30))
        for number, port in ((20, 2), (40, 4)):
            switch.inject(port, frame(number))
        one.send(frame(10))
        assert [number_of(host.recv(2000)) for host in (one, two, three)] == [100] * 3
    counted = runner.counters
    assert [counted[port].rx_frames for port in HOSTS] == [1, 0, 1, 0]
    assert [(counted[port].tx_frames, counted[port].tx_dropped) for port in HOSTS] == [(1, 0)] * 3 + [(0, 1)]
    assert not list(tmp_path.glob("p*")), "the switch's sockets go with it"


def test_a_host_that_comes_again(tmp_path: Path) -> None:
    """The newest datagram says where a port's other end is. One that has gone costs its frames alone."""
    switch = summing("python")
    ports = {port: f"unix:{tmp_path}/p{port}" for port in HOSTS}
    with switch.port_runner(ports) as runner, attached(tmp_path, 1) as first, attached(tmp_path, 2) as other:
        for host, number in ((first, 10), (other, 20)):
            host.send(frame(number))
        first.close()
        for port, number in ((3, 30), (4, 40)):
            switch.inject(port, frame(number))
        assert number_of(other.recv(2000)) == 100
        (tmp_path / "h1").unlink()
        with attached(tmp_path, 1) as again:
            for host, number in ((again, 11), (other, 20)):
                host.send(frame(number))
            for port, number in ((3, 30), (4, 40)):
                switch.inject(port, frame(number))
            assert [number_of(host.recv(2000)) for host in (again, other)] == [101] * 2
    assert runner.counters[1].tx_dropped == 1


def test_a_path_that_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "p1"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stale:
        stale.bind(str(path))
    with summing("python").port_runner({1: f"unix:{path}"}):
        with pytest.raises(PortError, match=rf"port 1 on unix:{re.escape(str(path))}: a program has this socket"):
            summing("python").port_runner({1: f"unix:{path}"})
        assert path.is_socket()
    path.write_text("mine")
    with pytest.raises(PortError, match="choose another: -i PORT@unix:PATH"):
        summing("python").port_runner({1: f"unix:{path}"})
    assert path.read_text() == "mine"
    with pytest.raises(PortError, match="a Unix socket has a path; choose another: -i PORT@unix:PATH"):
        summing("python").port_runner({1: "unix:"})


def test_a_datagram_that_is_too_long_is_no_shorter_frame(tmp_path: Path) -> None:
    port = UnixPort(1, f"unix:{tmp_path}/p1")
    with closing(port), attached(tmp_path, 1) as host:
        for size, received in ((65537, 0), (65536, 65536), (100_000, 0)):
            host.send(bytes(size))
            assert len(port.receive() or b"") == received
    assert (port.counters.rx_frames, port.counters.rx_cut) == (1, 2)


@pytest.mark.parametrize("option", ["--pcap", "--pcapng"])
def test_sockets_are_not_captured(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--no-p4", "-i", "1@unix:p1", option, str(tmp_path), "--grpc-server-addr", "unix:s"]
    with pytest.raises(SystemExit):
        options.parse(words)
    assert f"{option} captures interfaces, and unix:p1 is none" in capsys.readouterr().err


def test_the_page_s_host_without_rights(tmp_path: Path) -> None:
    """The command without the rights that interfaces need, and the program of the page."""
    (block,) = [each for each in pages.blocks("py") if each.path.name == "softswitch.md" and "AF_UNIX" in each.text]
    rights = "-net_raw,-net_admin"
    without = [] if os.geteuid() else ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
    words = ["-m", "softswitch.cli", str(PROGRAM), "--engine", "python", "--grpc-server-addr", "unix:s1.sock"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def started(*ports: str) -> subprocess.Popen[str]:
        line = [*without, sys.executable, *words, "--log-file", "log", *ports]
        return subprocess.Popen(line, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)

    with started("-i", "1@lo") as refused:
        assert refused.wait(TIMEOUT_S) == 1
    assert "packet sockets need root" in (tmp_path / "log").read_text()
    with started("-i", "1@unix:p1") as process:
        try:
            assert process.stderr is not None
            assert next((said for said in process.stderr if "ready" in said), "")
            line = [sys.executable, "-c", block.text]
            ended = subprocess.run(line, cwd=tmp_path, timeout=TIMEOUT_S, capture_output=True, text=True, check=False)
            assert ended.returncode == 0, ended.stderr
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
    assert "port 1 on unix:p1: rx_frames=1 " in (tmp_path / "log").read_text()
