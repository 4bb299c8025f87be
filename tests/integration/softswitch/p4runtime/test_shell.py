# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The client that p4runtime-shell uses, against the server."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.p4runtime.client import DEVICE_ID, PROGRAMS, Program, insert
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.p4runtime.server import P4RuntimeServer

p4runtime = pytest.importorskip("p4runtime_sh.p4runtime")


def test_p4runtime_shells_client(server: P4RuntimeServer, program: Program, tmp_path: Path) -> None:
    client = p4runtime.P4RuntimeClient(DEVICE_ID, f"127.0.0.1:{server.port}", (0, 1))
    try:
        assert client.api_version() == "1.4.1"
        client.set_fwd_pipe_config(PROGRAMS / "tables.p4info.txtpb", PROGRAMS / "tables.json")
        assert client.get_p4info() == program.p4info
        entry = program.entry("exact_t", action=program.action("forward", port=b"\x05"), dst=("exact", b"\x01"))
        client.write_update(insert(entry))
        responses = list(client.read_one(p4rt.Entity(table_entry=program.entry("exact_t"))))
        assert [entity.table_entry for response in responses for entity in response.entities] == [entry]
        with pytest.raises(p4runtime.P4RuntimeWriteException, match="ALREADY_EXISTS"):
            client.write_update(insert(entry))
        backup = p4runtime.P4RuntimeClient(DEVICE_ID, f"127.0.0.1:{server.port}", (0, 0))
        backup.tear_down()
    finally:
        client.tear_down()
