# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The soft switch where a harness starts ``simple_switch_grpc`` or ``simple_switch``."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import grpc
import pytest
from helpers.p4runtime.client import PROGRAMS, TIMEOUT_SECONDS
from helpers.paths import ROOT
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc
from softswitch import __main__ as entry
from softswitch import options

SCRIPTS = tomllib.loads((ROOT / "switch" / "pyproject.toml").read_text())["project"]["scripts"]


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def start(folder: Path, words: str) -> subprocess.Popen[str]:
    """Start a command of the distribution's."""
    command = words.split(maxsplit=1)[0]
    module, _, name = SCRIPTS[command].partition(":")
    call = f"import sys; from {module} import {name}; sys.exit({name}())"
    # Another process may be reading it, once it is there.
    if not (folder / command).exists():
        script(folder / command, f'#!/bin/sh\nexec "{sys.executable}" -P -c "{call}" "$@"\n')
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
    }
    return subprocess.Popen(words.split(), stderr=subprocess.PIPE, text=True, env=environment)


def test_the_command_that_a_harness_calls(tmp_path: Path) -> None:
    """With the words of p4lang/tutorials' Mininet script, but for ports of the machine's."""
    words = f"simple_switch_grpc --pcap {tmp_path}/pcaps --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0"
    words += f" {PROGRAMS}/tables.json"
    words += " --debugger --log-console --thrift-port 0 -- --grpc-server-addr 127.0.0.1:0 --cpu-port 255"
    with start(tmp_path, words) as process:
        try:
            assert process.stderr is not None
            said: list[str] = []
            for line in process.stderr:
                said.append(line)
                if found := re.search(r"ready: device 0, P4Runtime port (\d+)", line):
                    break
            assert found is not None, said
            with grpc.insecure_channel(f"127.0.0.1:{found[1]}") as channel:
                stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
                assert stub.Capabilities(p4rt.CapabilitiesRequest(), timeout=TIMEOUT_SECONDS)
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_SECONDS) == 0
        finally:
            process.kill()
    ignored = [line.partition("softswitch: ")[2].split()[0] for line in said if "is ignored" in line]
    assert ignored == ["--nanolog", "--debugger"]


def test_several_switches_that_have_no_p4runtime_in_bmv2(tmp_path: Path) -> None:
    """With the words of p4app's Mininet script, but for the port."""
    words = f"simple_switch --thrift-port 0 --device-id 1 {PROGRAMS}/tables.json --debugger --log-console"
    with start(tmp_path, words) as one, start(tmp_path, words) as other:
        try:
            for process in (one, other):
                assert process.stderr is not None
                assert any("ready: device 1" in line for line in process.stderr)
            for process in (one, other):
                process.send_signal(signal.SIGTERM)
                assert process.wait(TIMEOUT_SECONDS) == 0
        finally:
            one.kill()
            other.kill()


def test_its_commands_come_in_at_bmv2_s_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["simple_switch", "program.json"])
    monkeypatch.setattr(entry, "main", lambda: 0)
    assert entry.in_place_of_bmv2_without_grpc() == 0
    told = options.parse(sys.argv[1:])
    assert (told.thrift_port, told.grpc_server_addr, told.program) == (9090, "127.0.0.1:0", Path("program.json"))
    assert options.parse([*sys.argv[1:], "--thrift-port", "9091"]).thrift_port == 9091


REFUSING = """
import sys, commonlib.p4runtime

class Refusing:
    def find_spec(self, name, path, target=None):
        if name == commonlib.p4runtime.MODULES[0]:
            raise TypeError("Descriptors cannot be created directly")

sys.meta_path.insert(0, hook := Refusing())
commonlib.p4runtime.load_messages = lambda: hook in sys.meta_path and sys.meta_path.remove(hook)
from softswitch.cli import main
sys.exit(main(["--no-p4", "--grpc-server-addr", "unix:" + "n" * 200]))
"""


def test_messages_are_made_before_they_are_imported() -> None:
    """Protobuf 4 and later refuse to import p4runtime's own; here a hook does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-P", "-c", REFUSING]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert ended.returncode == 1 and "cannot listen" in ended.stderr, ended.stderr
