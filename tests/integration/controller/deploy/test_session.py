# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever a switch does, the controller raises a typed error in time and leaves no thread behind."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.rpc import code_pb2
from helpers.controller.config_texts import star, text
from helpers.controller.fake_p4runtime import FakeServer, serving
from sumwire_controller.cli import main
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import EntryChange, Write
from sumwire_controller.deploy.switch import P4Switch
from sumwire_controller.derive.entries import TableEntry
from sumwire_controller.errors import NotPrimaryError, SwitchRefusedError, SwitchUnreachableError
from sumwire_controller.model import Switch

PROGRAM = Program.load()
ROUTE = EntryChange(Write.INSERT, TableEntry("forward", (0x0A000001, 32), (3,)))
DEADLINE_S = 1.5
# Where no answer comes at all.
IN_VAIN_S = 0.3
SLACK_S = 5.0


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    for thread in left:
        thread.join(SLACK_S)
    assert not [thread for thread in left if thread.is_alive()]


def open_switch(address: str, timeout_s: float = DEADLINE_S) -> P4Switch:
    return P4Switch(Switch("s1", address, 1), timeout_s)


@pytest.fixture
def deaf_port() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(SwitchUnreachableError, match=rf"switch s1 at {address}: opening the session: UNAVAIL.*start"):
        open_switch(address)


def test_a_listener_that_says_nothing(deaf_port: str) -> None:
    start = time.monotonic()
    with pytest.raises(SwitchUnreachableError, match=r"no answer within 0\.3 s"):
        open_switch(deaf_port, IN_VAIN_S)
    assert time.monotonic() - start < IN_VAIN_S + SLACK_S


def test_a_server_that_never_answers_arbitration() -> None:
    with serving(FakeServer(arbitration="silent")) as fake, pytest.raises(SwitchUnreachableError, match=r"0\.3 s"):
        open_switch(fake.address, IN_VAIN_S)


def test_a_backup_is_no_session(capsys: pytest.CaptureFixture[str]) -> None:
    words = rf"with election id {2**64 - 1}; end it, or take over: sumwire-controller apply CONFIG --take-over$"
    with serving(FakeServer(arbitration="backup")) as fake, pytest.raises(NotPrimaryError, match=words):
        open_switch(fake.address, IN_VAIN_S)
    assert capsys.readouterr().out == ""


def test_refused_arbitration() -> None:
    with serving(FakeServer(arbitration="refuse")) as fake, pytest.raises(SwitchRefusedError, match="no device 1 here"):
        open_switch(fake.address)


def test_a_session_asks_for_the_highest_id_first() -> None:
    with serving(FakeServer()) as fake:
        open_switch(fake.address).close()
    assert fake.election_ids == [0, 1]


def test_another_controller_asks_at_the_same_moment() -> None:
    with serving(FakeServer(arbitration="duplicate")) as fake, pytest.raises(NotPrimaryError, match="same moment"):
        open_switch(fake.address)


def test_reading_alone_takes_part_in_no_election() -> None:
    with serving(FakeServer()) as fake:
        with P4Switch(Switch("s1", fake.address, 1), DEADLINE_S, read_only=True) as switch:
            assert switch.entries(PROGRAM) == frozenset()
        assert fake.election_ids == []


@pytest.mark.parametrize(
    ("code", "details", "kind", "words"),
    [
        (grpc.StatusCode.UNKNOWN, [(code_pb2.ALREADY_EXISTS, "there is one")], SwitchRefusedError,
         r"insert forward\[dst=10.0.0.1, prefix=32\] to_port\(port=3\): UNKNOWN: ALREADY_EXISTS: there is one"),
        (grpc.StatusCode.UNKNOWN, [(code_pb2.OK, ""), (code_pb2.NOT_FOUND, "none")], SwitchRefusedError,
         "NOT_FOUND: none"),
        (grpc.StatusCode.UNKNOWN, [], SwitchRefusedError, "UNKNOWN: outer text"),
        (grpc.StatusCode.UNKNOWN, None, SwitchRefusedError, "UNKNOWN: outer text"),
        (grpc.StatusCode.INVALID_ARGUMENT, None, SwitchRefusedError, "INVALID_ARGUMENT: outer text"),
        (grpc.StatusCode.PERMISSION_DENIED, None, NotPrimaryError, "PERMISSION_DENIED"),
        (grpc.StatusCode.UNAVAILABLE, None, SwitchUnreachableError, "UNAVAILABLE"),
    ],
)  # fmt: skip
def test_refused_writes(
    code: grpc.StatusCode, details: list[tuple[int, str]] | None, kind: type[Exception], words: str
) -> None:
    server = FakeServer(write_code=code, write_details=details)
    with serving(server) as fake, open_switch(fake.address) as switch, pytest.raises(kind, match=words):
        switch.write(PROGRAM, ROUTE)


def test_reads_have_a_deadline() -> None:
    words = "reading the tables: DEADLINE_EXCEEDED"
    with (
        serving(FakeServer(silent_reads=True)) as fake,
        open_switch(fake.address) as switch,
        pytest.raises(SwitchUnreachableError, match=words),
    ):
        switch.entries(PROGRAM)


def test_only_unreachable_and_not_primary_are_worth_a_retry() -> None:
    assert (SwitchUnreachableError.retryable, NotPrimaryError.retryable, SwitchRefusedError.retryable) == (
        True,
        True,
        False,
    )


def test_an_unreachable_switch_is_one_line_and_status_1(
    deaf_port: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text(star()).replace("127.0.0.1:9559", deaf_port))
    for command in ("apply", "status"):
        assert main([command, str(path), "--timeout", "0.2"]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert len(captured.err.splitlines()) == 1
        assert captured.err.startswith(f"switch s1 at {deaf_port}: ")
