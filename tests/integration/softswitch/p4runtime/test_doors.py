# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where the soft switch listens, and that it lets nobody in by accident. Certificates that controllers show are in the
controller's tests."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from helpers.certificates import authority
from helpers.p4runtime.client import DEVICE_ID, TIMEOUT_SECONDS
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc
from softswitch.cli import main
from softswitch.p4runtime.server import BindError, ServerTls, serve
from softswitch.switch import SoftSwitch

CERTIFICATE = ["--grpc-server-cert", "c.pem", "--grpc-server-key", "c.key"]


def answers(channel: grpc.Channel) -> bool:
    stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
    stub.Capabilities(p4rt.CapabilitiesRequest(), timeout=TIMEOUT_SECONDS)
    return True


@contextmanager
def command(*words: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command while it runs, and its line that says it is ready."""
    line = [sys.executable, "-m", "softswitch.cli", "--no-p4", "--engine", "python", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            yield process, next(said for said in iter(process.stderr.readline, "") if "ready" in said)
        finally:
            process.kill()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--grpc-server-addr", "127.0.0.1:0"],
        ["--grpc-server-addr", "0.0.0.0:0"],
        ["--grpc-server-addr", "unix-abstract:s1"],
        ["--grpc-server-ssl", *CERTIFICATE],
    ],
)
def test_an_open_door_takes_a_word(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--no-p4", *words])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "could replace the program: give a Unix socket (--grpc-server-addr unix:PATH), mutual TLS" in told
    assert told.endswith("or --insecure\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--grpc-server-ssl"], "--grpc-server-ssl needs --grpc-server-cert FILE and --grpc-server-key FILE"),
        (["--grpc-server-ssl", "--grpc-server-cert", "c.pem"], "and --grpc-server-key FILE"),
        (["--grpc-server-ssl", *CERTIFICATE, "--grpc-server-with-client-auth"], "needs --grpc-server-cacert FILE"),
        (CERTIFICATE, "only with --grpc-server-ssl"),
        (["--grpc-server-with-client-auth"], "only with --grpc-server-ssl"),
        (["--grpc-server-cacert", "ca.pem"], "only with --grpc-server-ssl"),
    ],
)
def test_half_of_tls(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--no-p4", "--insecure", *words])
    assert text in capsys.readouterr().err


def test_the_command_at_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s1.sock"
    with command("--grpc-server-addr", f"unix:{path}") as (process, ready):
        assert f"P4Runtime unix:{path}," in ready
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with grpc.insecure_channel(f"unix:{path}") as channel:
            assert answers(channel)
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_SECONDS) == 0
    assert not path.exists()


@pytest.mark.openssl
def test_the_command_with_mutual_tls(tmp_path: Path) -> None:
    ours = authority(tmp_path)
    switch, controller = ours.sign("switch"), ours.sign("controller")
    files = ["--grpc-server-cacert", ours.certificate, "--grpc-server-cert", switch.certificate]
    words = ["--grpc-server-ssl", "--grpc-server-with-client-auth", *files, "--grpc-server-key", switch.key]
    with command(*words, "--grpc-server-addr", "127.0.0.1:0") as (_, ready):
        found = re.search(r"P4Runtime port (\d+)", ready)
        assert found is not None
        at, root = f"127.0.0.1:{found[1]}", ours.certificate.read_bytes()
        known = grpc.ssl_channel_credentials(root, controller.key.read_bytes(), controller.certificate.read_bytes())
        with grpc.secure_channel(at, known) as channel:
            assert answers(channel)
        for stranger in (
            grpc.secure_channel(at, grpc.ssl_channel_credentials(root)),
            grpc.insecure_channel(at),
        ):
            with stranger as channel, pytest.raises(grpc.RpcError) as refused:
                answers(channel)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_socket_is_served_once_and_free_after_stop(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s1.sock"
    first = serve(SoftSwitch(engine="python"), address, DEVICE_ID)
    with pytest.raises(BindError, match=r"s1.sock: a server listens there; end it, or choose another"):
        serve(SoftSwitch(engine="python"), address, DEVICE_ID)
    with grpc.insecure_channel(address) as channel:
        assert answers(channel)
    first.stop()
    second = serve(SoftSwitch(engine="python"), address, DEVICE_ID)
    second.stop()


def test_a_socket_that_a_dead_server_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s1.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    server = serve(SoftSwitch(engine="python"), f"unix:{path}", DEVICE_ID)
    with grpc.insecure_channel(f"unix:{path}") as channel:
        assert answers(channel)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    server.stop()


def test_a_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("kept")
    with pytest.raises(BindError, match=r"cannot listen on unix:.*choose another"):
        serve(SoftSwitch(engine="python"), f"unix:{path}", DEVICE_ID)
    assert path.read_text() == "kept"


def test_the_umask_is_as_before(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        serve(SoftSwitch(engine="python"), f"unix:{tmp_path}/s1.sock", DEVICE_ID).stop()
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_files_that_are_missing_or_nonsense(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nothing")
    with pytest.raises(BindError, match="name a file that is there: --grpc-server-cert FILE"):
        serve(SoftSwitch(engine="python"), "127.0.0.1:0", DEVICE_ID, tls=ServerTls(tmp_path / "absent", nonsense))
    with pytest.raises(BindError, match="cannot listen on"):
        serve(SoftSwitch(engine="python"), "127.0.0.1:0", DEVICE_ID, tls=ServerTls(nonsense, nonsense))
