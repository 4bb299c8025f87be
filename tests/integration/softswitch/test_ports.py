# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ports of the switch as a process, also as another user."""

from __future__ import annotations

import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.p4runtime.client import Controller, Program
from helpers.paths import ROOT
from helpers.rights import NOBODY, assert_no_rights_left
from helpers.softswitch.compile_programs import PROGRAMS
from helpers.softswitch.veths import TIMEOUT_S, Host, ip, wait_for_carrier
from softswitch.cli import main
from softswitch.runtime import interface
from softswitch.runtime.entries import Replica
from softswitch.runtime.impair import ImpairmentSpec
from softswitch.runtime.interface import PortError
from softswitch.switch import EngineChoice, SoftSwitch

pytestmark = pytest.mark.root


@contextmanager
def switch(folder: Path, wires: dict[int, str], engine: str) -> Iterator[subprocess.Popen[str]]:
    """The command at the Unix socket ``folder/p4rt``, on two ports, once it is ready."""
    ports = [word for number, name in wires.items() for word in ("-i", f"{number}@{name}")]
    words = ["--no-p4", *ports, "--user", "nobody", "--engine", engine, "--device-id", "3"]
    line = [sys.executable, "-m", "softswitch.cli", *words, "--grpc-server-addr", f"unix:{folder}/p4rt"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment, umask=0o077) as process:
        try:
            assert process.stderr is not None
            said = next((line for line in iter(process.stderr.readline, "") if "ready" in line), "")
            assert said
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("engine", ["python", pytest.param("native", marks=pytest.mark.cc)])
def test_a_program_brought_later_is_compiled_and_run_without_rights(
    tmp_path: Path, wires: dict[int, str], engine: str
) -> None:
    with switch(tmp_path, wires, engine) as process, Host(wires[1]) as one, Host(wires[2]) as two:
        assert_no_rights_left(process.pid)
        socket = (tmp_path / "p4rt").stat()
        assert (socket.st_uid, stat.S_IMODE(socket.st_mode)) == (0, 0o600)
        controller = Controller(f"unix:{tmp_path}/p4rt")
        controller.become(1)
        controller.set_pipeline(Program("multicast", PROGRAMS).config())
        one.socket.send(struct.pack(">HHHHII", 0, 2, 7, 0, 0, 0) + bytes(44))
        assert two.socket.recv(2048)[5] == 8
        assert_no_rights_left(process.pid)
        if engine == "native":
            # What was compiled is the user's own, and is kept where only root could have made the folder.
            kept = [path for path in mapped(process.pid) if "softswitch-program" in path]
            assert kept and all(path.startswith(f"/var/cache/nativelib/{NOBODY.pw_uid}/") for path in kept)
            assert all(Path(path).stat().st_uid == NOBODY.pw_uid for path in kept)
            assert all(Path(path).parent.stat().st_mode & 0o077 == 0 for path in kept)
        controller.close()


def mapped(pid: int) -> list[str]:
    return [words[5] for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if len(words := line.split()) > 5]


def test_who_is_unknown_is_told() -> None:
    words = ["--no-p4", "--insecure", "--grpc-server-addr", "127.0.0.1:0", "--user", "no-such-user"]
    done = subprocess.run(
        [sys.executable, "-m", "softswitch.cli", *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "there is no user 'no-such-user'" in done.stderr and "Traceback" not in done.stderr


@pytest.fixture(params=["python", pytest.param("native", marks=pytest.mark.cc)])
def engine(request: pytest.FixtureRequest) -> EngineChoice:
    """Every test that uses it runs with the ports of both engines."""
    chosen: EngineChoice = request.param
    return chosen


@pytest.fixture
def switch_for(program_text: Callable[[str], str], engine: EngineChoice) -> Callable[[str], SoftSwitch]:
    return lambda name: SoftSwitch(program_text(name), seed=1, cpu_port=510, engine=engine)


def probe(group: int, port: int, note: int = 0) -> bytes:
    return struct.pack(">HHHHII", group, port, note, 0, 0, 0) + bytes(44)


def note_of(frame: bytes) -> int:
    return int.from_bytes(frame[4:6])


def test_unicast_multicast_and_counters(wires: dict[int, str], switch_for: Callable[[str], SoftSwitch]) -> None:
    switch = switch_for("multicast")
    switch.set_group(1, [Replica(1, 1), Replica(2, 2), Replica(3, 3)])
    with switch.port_runner(wires) as runner, Host(wires[1]) as one, Host(wires[2]) as two:
        for number in range(100):
            one.socket.send(probe(0, 2, number))
        assert [note_of(two.socket.recv(2048)) for _ in range(100)] == list(range(1, 101))
        two.socket.send(probe(1, 0, 500))
        assert note_of(one.socket.recv(2048)) == 501
        assert len(two.socket.recv(2048)) == 64  # the extra header of the replica with rid 2
    # Stopped: what was sent is counted. What the switch sends it does not receive again.
    assert (runner.counters[1].rx_frames, runner.counters[2].rx_frames) == (100, 1)
    assert (runner.counters[1].tx_frames, runner.counters[2].tx_frames) == (1, 101)
    assert runner.counters[2].rx_bytes == 60


@pytest.mark.parametrize("is_left_out_by", ["kernel", "switch"])
def test_frames_that_the_machine_itself_sends_do_not_come_in(
    wires: dict[int, str],
    switch_for: Callable[[str], SoftSwitch],
    is_left_out_by: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if is_left_out_by == "switch":
        monkeypatch.setattr(interface, "PACKET_IGNORE_OUTGOING", 999)  # as before Linux 4.20: no such option
    with switch_for("multicast").port_runner(wires) as runner, Host(wires[1]) as one, Host(wires[2]) as two:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as local:
            local.bind((wires[1], 0))
            local.send(probe(0, 2, 1))
        assert note_of(one.socket.recv(2048)) == 1
        one.socket.send(probe(0, 2, 2))
        assert note_of(two.socket.recv(2048)) == 3
    assert runner.counters[1].rx_frames == 1


@pytest.mark.parametrize("kind", [0x8100, 0x88A8])
def test_a_vlan_tag_is_part_of_the_frame(
    wires: dict[int, str], switch_for: Callable[[str], SoftSwitch], kind: int
) -> None:
    tagged = struct.pack(">HHHHIHH", 0, 2, 1, 0, 0, kind, 0x0123) + b"\x08\x00" + bytes(range(42))
    with switch_for("multicast").port_runner(wires), Host(wires[1]) as one, Host(wires[2]) as two:
        one.socket.send(tagged)
        out = two.socket.recv(2048)
    # The program writes the packet's length over the tag.
    assert out[12:16] == len(tagged).to_bytes(4)
    assert out[16:] == tagged[16:]


def test_frames_longer_than_the_mtu_are_counted(wires: dict[int, str], switch_for: Callable[[str], SoftSwitch]) -> None:
    ip("link", "set", wires[2], "mtu", "500")
    with switch_for("multicast").port_runner(wires) as runner, Host(wires[1]) as one, Host(wires[2]) as two:
        one.socket.send(probe(0, 2, 1) + bytes(1000))
        one.socket.send(probe(0, 2, 2))
        assert note_of(two.socket.recv(2048)) == 3
        assert runner.counters[2].tx_refused == 1


def test_an_interface_that_goes_down_and_up(wires: dict[int, str], switch_for: Callable[[str], SoftSwitch]) -> None:
    with switch_for("multicast").port_runner(wires) as runner, Host(wires[1]) as one, Host(wires[2]) as two:
        ip("link", "set", wires[2], "down")
        one.socket.send(probe(0, 2, 1))
        one.socket.send(probe(0, 1, 7))  # comes back when the first has been through
        assert note_of(one.socket.recv(2048)) == 8
        assert runner.counters[2].tx_dropped == 1
        ip("link", "set", wires[2], "up")
        wait_for_carrier(wires[2])
        wait_for_carrier(f"{wires[2]}p")
        two.socket.close()
        with Host(wires[2]) as again:
            one.socket.send(probe(0, 2, 2))
            assert note_of(again.socket.recv(2048)) == 3


@pytest.mark.parametrize(("receive", "send"), [(True, False), (False, True)])
def test_impairment_on_one_port(
    wires: dict[int, str], switch_for: Callable[[str], SoftSwitch], receive: bool, send: bool
) -> None:
    spec = ImpairmentSpec(dup=1.0, ports=frozenset({2}), receive=receive, send=send)
    with switch_for("multicast").port_runner(wires, spec), Host(wires[1]) as one, Host(wires[2]) as two:
        two.socket.send(probe(0, 1, 10))
        assert [note_of(one.socket.recv(2048)) for _ in range(1 + receive)] == [11] * (1 + receive)
        one.socket.send(probe(0, 1, 30))  # port 1 is not impaired: nothing more came from port 2
        assert note_of(one.socket.recv(2048)) == 31
        for note in (20, 40):
            one.socket.send(probe(0, 2, note))
            assert [note_of(two.socket.recv(2048)) for _ in range(1 + send)] == [note + 1] * (1 + send)


def test_held_frames_come_without_further_traffic(
    wires: dict[int, str], switch_for: Callable[[str], SoftSwitch]
) -> None:
    switch = switch_for("multicast")
    with switch.port_runner(wires, ImpairmentSpec(reorder=1.0)), Host(wires[1]) as one, Host(wires[2]) as two:
        one.socket.send(probe(0, 2, 5))
        assert note_of(two.socket.recv(2048)) == 6
        switch.inject(9, probe(0, 2, 6))  # held by another thread than the one that waits
        assert note_of(two.socket.recv(2048)) == 7


def test_an_interface_that_is_not_there(engine: EngineChoice) -> None:
    with pytest.raises(PortError, match="port 1 on nothere0: no interface"):
        SoftSwitch(engine=engine).port_runner({1: "nothere0"})


def test_command_runs_until_a_signal(wires: dict[int, str]) -> None:
    interfaces = [word for number, name in wires.items() for word in ("-i", f"{number}@{name}")]
    command = [sys.executable, "-m", "softswitch", str(PROGRAMS / "multicast.json"), *interfaces, "--device-id", "1"]
    target = ["--", "--grpc-server-addr", "127.0.0.1:0", "--cpu-port", "510", "--insecure"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "switch")}
    with subprocess.Popen([*command, *target], stderr=subprocess.PIPE, text=True, env=environment) as process:
        guard = threading.Timer(30.0, process.kill)
        guard.start()
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            ready = next(line for line in lines if "ready" in line)
            assert "device 1" in ready
            assert f"1@{wires[1]} 2@{wires[2]}" in ready
            with Host(wires[1]) as one, Host(wires[2]) as two:
                one.socket.send(probe(0, 2, 41))
                assert note_of(two.socket.recv(2048)) == 42
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            guard.cancel()
            process.kill()


def test_command_refuses_what_it_cannot_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    assert main([str(bad), "--insecure"]) == 2
    assert "no pipelines" in caplog.text
    assert main([str(PROGRAMS / "cpu.json"), "-i", "1@nothere0", "--insecure"]) == 1
    assert "nothere0" in caplog.text


@pytest.mark.parametrize(
    "arguments",
    [
        ["--insecure"],
        ["x.json", "--no-p4", "--insecure"],
        ["--no-p4", "--insecure", "-i", "eth0"],
        ["--no-p4", "--insecure", "-i", "511@eth0"],
        ["--no-p4", "--insecure", "-i", "1@a", "-i", "1@b"],
        ["--no-p4", "--insecure", "--impair", "lose=1"],
        ["--no-p4", "--insecure", "--dump-python"],
    ],
)
def test_command_line_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_dump_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dump-python", str(PROGRAMS / "cpu.json")]) == 0
    compile(capsys.readouterr().out, "dumped", "exec")
