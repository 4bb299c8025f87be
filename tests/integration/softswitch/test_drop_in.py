# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The soft switch where a harness starts ``simple_switch_grpc``."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import grpc
from helpers.p4runtime.client import PROGRAMS, TIMEOUT_SECONDS
from helpers.paths import ROOT
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc

SCRIPTS = tomllib.loads((ROOT / "switch" / "pyproject.toml").read_text())["project"]["scripts"]


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_the_command_that_a_harness_calls(tmp_path: Path) -> None:
    """With the words of p4lang/tutorials' Mininet script, but for ports of the machine's."""
    module, _, name = SCRIPTS["simple_switch_grpc"].partition(":")
    call = f"import sys; from {module} import {name}; sys.exit({name}())"
    script(tmp_path / "simple_switch_grpc", f'#!/bin/sh\nexec "{sys.executable}" -P -c "{call}" "$@"\n')
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
    }
    words = f"simple_switch_grpc --pcap {tmp_path}/pcaps --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0"
    words += f" {PROGRAMS}/tables.json"
    words += " --debugger --log-console --thrift-port 0 -- --grpc-server-addr 127.0.0.1:0 --cpu-port 255"
    with subprocess.Popen(words.split(), stderr=subprocess.PIPE, text=True, env=environment) as process:
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
