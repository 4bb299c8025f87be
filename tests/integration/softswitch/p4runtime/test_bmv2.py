# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The expectations of the other files against bmv2's own P4Runtime server, where simple_switch_grpc is on PATH.

bmv2 implements an older version of the specification; where it answers otherwise, DEVIATIONS says how, so that a
controller that must run on both can look it up.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2
from helpers.p4runtime import table_entries
from helpers.p4runtime.client import CPU_PORT, DEVICE_ID, Controller, Program, insert, items_of
from helpers.p4runtime.messages import FRAME, TO_CPU, cell, counts, group, packet, update
from p4.v1 import p4runtime_pb2 as p4rt
from sumwire_lab.network.switches import free_tcp_port, thrift_option

pytestmark = pytest.mark.bmv2

START_SECONDS = 30

#: Row of BAD or BAD_DEFAULTS: the code bmv2 answers with instead.
DEVIATIONS = {
    "exact empty": "OK",
    "param empty": "OK",
    "range don't care": "OK",
    "is_const": "OK",
    "direct counter negative": "OK",
    "counter": "OK",  # a default entry's direct counter can be written
    "priority negative": "UNKNOWN",
    "keyless": "UNKNOWN",
    "const table": "UNKNOWN",
}


@pytest.fixture(scope="module")
def bmv2_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    port, folder = free_tcp_port(), tmp_path_factory.mktemp("bmv2")
    command = ["simple_switch_grpc", "--no-p4", "--device-id", str(DEVICE_ID), *thrift_option()]
    command += ["--notifications-addr", f"ipc://{folder}/notifications.ipc", "--"]
    command += ["--grpc-server-addr", f"127.0.0.1:{port}", "--cpu-port", str(CPU_PORT)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                grpc.channel_ready_future(channel).result(timeout=START_SECONDS)
            yield port
        finally:
            process.terminate()
            process.wait(timeout=START_SECONDS)


@pytest.fixture
def bmv2(bmv2_port: int, program: Program) -> Iterator[Controller]:
    controller = Controller(bmv2_port)
    assert controller.become(1).status.code == code_pb2.OK
    controller.set_pipeline(program.config())
    yield controller
    controller.half_close()
    controller.wait_for_end()
    controller.close()


def write_code(controller: Controller, update: Any) -> str:
    try:
        controller.write(update)
    except grpc.RpcError as error:
        [item] = items_of(error)
        return str(code_pb2.Code.Name(item.canonical_code))
    return "OK"


@pytest.mark.parametrize("rows", [table_entries.GOOD, {n: r for n, (_, r) in table_entries.NOT_CANONICAL.items()}])
def test_good_entries_read_back(bmv2: Controller, program: Program, rows: dict[str, Any]) -> None:
    for name, make in rows.items():
        bmv2.set_pipeline(program.config())
        entry = make(program)
        bmv2.write(insert(entry))
        assert bmv2.read_entries(type(entry)(table_id=entry.table_id)) == [entry], name


def test_values_are_read_back_canonical(bmv2: Controller, program: Program) -> None:
    for name, (written, read) in table_entries.NOT_CANONICAL.items():
        bmv2.set_pipeline(program.config())
        entry = written(program)
        bmv2.write(insert(entry))
        assert bmv2.read_entries(type(entry)(table_id=entry.table_id)) == [read(program)], name


def test_bad_entries(bmv2: Controller, program: Program) -> None:
    codes = {}
    for name, (make, _code, _text) in table_entries.BAD.items():
        bmv2.set_pipeline(program.config())
        codes[name] = write_code(bmv2, insert(make(program)))
    assert codes == {name: DEVIATIONS.get(name, code) for name, (_, code, _) in table_entries.BAD.items()}


def test_bad_default_entries(bmv2: Controller, program: Program) -> None:
    codes = {}
    for name, (make, make_update, _code) in table_entries.BAD_DEFAULTS.items():
        bmv2.set_pipeline(program.config())
        codes[name] = write_code(bmv2, make_update(make(program)))
    assert codes == {name: DEVIATIONS.get(name, code) for name, (_, _, code) in table_entries.BAD_DEFAULTS.items()}


def test_default_entry(bmv2: Controller, program: Program) -> None:
    table_entries.check_default_entry(bmv2, program)


def test_counter_cells(bmv2: Controller, program: Program) -> None:
    bmv2.write(p4rt.Update(type=p4rt.Update.MODIFY, entity=cell(program, 7, (2**40, 2**62))))
    assert bmv2.read(cell(program, 7)) == [cell(program, 7, (2**40, 2**62))]
    assert counts(bmv2.read(cell(program, None))) == {**dict.fromkeys(range(8), (0, 0)), 7: (2**40, 2**62)}


def test_groups(bmv2: Controller) -> None:
    one = group(1, (1, 0), (2, 1), (2, 2), metadata=b"lost on bmv2")
    bmv2.write(update(p4rt.Update.INSERT, one))
    [read] = bmv2.read(group(1))
    replicas = read.packet_replication_engine_entry.multicast_group_entry.replicas
    assert {(r.egress_port, r.instance) for r in replicas} == {(1, 0), (2, 1), (2, 2)}
    assert write_code(bmv2, update(p4rt.Update.INSERT, one)) == "ALREADY_EXISTS"
    bmv2.write(update(p4rt.Update.MODIFY, group(1, (3, 0))))
    assert bmv2.read(group(0)) == [group(1, (3, 0))]
    bmv2.write(update(p4rt.Update.DELETE, group(1)))
    assert write_code(bmv2, update(p4rt.Update.DELETE, group(1))) == "NOT_FOUND"


def test_packet_out_comes_back_as_packet_in(bmv2: Controller) -> None:
    bmv2.send(TO_CPU)
    expected = packet(p4rt.PacketIn, FRAME, (1, bytes([CPU_PORT])), (2, b"\x2a"))
    assert bmv2.receive().packet == expected
