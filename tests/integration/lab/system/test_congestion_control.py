# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The congestion control of connections that somebody else has made."""

from __future__ import annotations

import socket
from pathlib import Path
from unittest.mock import Mock

import pytest
import sumwire
from sumwire_lab.experiments import outer_steps
from sumwire_lab.system import congestion_control


def kind(connection: socket.socket) -> str:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def test_all_connections_of_the_process_and_nothing_else(tmp_path: Path) -> None:
    """Sockets of another kind, and other open files, are left alone."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        (tmp_path / "file").open("w"),
    ):
        for name in ("reno", kind(near)):
            assert congestion_control.choose(name) >= 3
            assert {kind(one) for one in (server, near, far)} == {name}
        with pytest.raises(FileNotFoundError):
            congestion_control.choose("no-such-kind")


def test_outer_steps_choose_for_connections_that_are_made_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of gloo's connects after the size has begun, and its connections have the machine's kind at first."""
    monkeypatch.setattr(outer_steps, "Outer", lambda *arguments, **options: None)
    monkeypatch.setattr(outer_steps, "through_group", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        steps = outer_steps.OuterSteps(Mock(sumwire.Job), 0, ["reno"])
        steps.begin(1)
        with socket.create_connection(server.getsockname()) as late:
            late.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
            steps.prepare()
            assert kind(late) == "reno"
