# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`softswitch --user`: ports and P4Runtime are opened by root, programs are loaded and run by a user without rights."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.p4runtime.client import Controller, Program
from helpers.rights import NOBODY, assert_no_rights_left
from helpers.softswitch.compile_programs import PROGRAMS
from helpers.softswitch.veths import Host

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
