# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The controller against real P4Runtime servers: the soft switch in this process, and bmv2."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2
from helpers.controller.config_texts import job, star, text
from helpers.controller.real_switches import bmv2, soft_switch
from helpers.logs import lines_of, of
from helpers.paths import ROOT
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc
from softswitch.switch import SoftSwitch
from sumwire_controller.cli import main
from sumwire_controller.deploy.operations import apply, bring_about, read_status
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import EntryChange, Write
from sumwire_controller.deploy.switch import P4Switch
from sumwire_controller.deploy.watch import SwitchesMetrics
from sumwire_controller.derive.entries import MulticastGroup, TableEntry
from sumwire_controller.errors import NotPrimaryError, RunningJobsError, SwitchError, SwitchRefusedError
from sumwire_controller.model import Config
from sumwire_controller.parse.files import parse_config
from sumwire_protocol.events import Event

PROGRAM_DIR = ROOT / "p4src" / "build"
PROGRAM = Program.load(PROGRAM_DIR)
NOW = 1_800_000_000


@pytest.fixture(scope="module", params=["soft", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running switch of each kind. Tests do not depend on what an earlier one left in it."""
    log = tmp_path_factory.mktemp("bmv2") / "switch.log"
    with soft_switch(SoftSwitch()) if request.param == "soft" else bmv2(log) as running:
        yield running


def config(address: str, *jobs: dict[str, Any]) -> Config:
    parsed = parse_config(text(star(4, jobs=list(jobs))))
    return replace(parsed, switch=replace(parsed.switch, grpc=address))


A = job("a", 1, 4, 0, 256, "thc max32")
A["thc"] = {"bits": 2, "p": 0.1, "table": [0, 9, 33, 60]}
B = job("b", 2, 2, 256, 64)


def test_metrics_are_the_status(address: str, caplog: pytest.LogCaptureFixture) -> None:
    wanted = config(address, A, B)
    apply(wanted)
    down = replace(wanted, switch=replace(wanted.switch, name="down", grpc="127.0.0.1:1"))
    source = SwitchesMetrics([wanted, down], timeout=2)
    found = told_by(source)
    told_by(source)
    (silent,) = of(lines_of(caplog.records), Event.SWITCH_SILENT)
    assert silent["switch"] == "down"
    status = read_status(wanted)
    name = status.switch
    assert found["sumwire_switch_up"] == {(name,): 1, ("down",): 0}
    assert found["sumwire_switch_in_sync"] == {(name,): 1}
    assert found["sumwire_switch_worker_packets"] == {
        (name, str(one.job), str(one.worker)): one.packets for one in status.workers
    }
    assert len(status.workers) == 6
    assert found["sumwire_switch_verdicts"] == {(name, what): one.packets for what, one in status.verdicts.items()}
    assert found["sumwire_switch_refused_packets"] == {
        (name, what): one.packets for what, one in status.rejects.items()
    }


def told_by(source: SwitchesMetrics) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for reading in source():
        found.setdefault(reading.metric.name, {})[reading.labels] = reading.value
    return found


def test_apply_twice_and_read_back(address: str) -> None:
    first = apply(config(address, A, B))
    second = apply(config(address, A, B))
    assert (second.changed, second.changes, second.generations) == (False, (), first.generations)
    status = read_status(config(address, A, B))
    assert (status.in_sync, status.differences) == (True, ())
    assert [(found.id, found.name, found.slots) for found in status.jobs] == [(1, "a", 256), (2, "b", 64)]
    assert {found.generation for found in status.jobs} == set(first.generations.values())
    assert [(found.job, found.worker, found.packets) for found in status.workers] == [
        (1, 0, 0), (1, 1, 0), (1, 2, 0), (1, 3, 0), (2, 0, 0), (2, 1, 0)
    ]  # fmt: skip
    kinds = [line.split("[")[0].split(" ")[0] for line in status.entries]
    counts = {kind: kinds.count(kind) for kind in kinds}
    assert counts == {
        "aggregator": 1, "forward": 4, "source": 4, "job": 2, "worker": 6, "thc_low": 1, "thc_high": 1, "group": 2,
        "replica": 7,
    }  # fmt: skip


def test_every_step_from_one_configuration_to_another(address: str) -> None:
    steps = [
        config(address, A, B),
        config(address, B),
        config(address, A, {**B, "workers": ["h4", "h1", "h2"]}),
        config(address, {**A, "id": 3}),
        config(address),
    ]
    seen: list[int] = []
    for step in steps:
        report = apply(step)
        assert not apply(step).changed
        assert read_status(step).differences == ()
        seen += report.generations.values()
    assert len(set(seen)) == len(seen) - 1  # b kept its own in the second step
    assert max(seen) > 1_700_000_000


def count_packets(wanted: Config, job_id: int, seat: int, packets: int) -> None:
    """Let a worker's counter say that it has sent packets."""
    with P4Switch(wanted.switch) as switch:
        rows = switch.rows(PROGRAM, "worker")
        (row,) = [row for row in rows if isinstance(row, TableEntry) and row.key == (job_id, seat)]
        request = p4runtime_pb2.WriteRequest(device_id=wanted.switch.device_id)
        request.election_id.high, request.election_id.low = switch._session.election_id
        entity = request.updates.add(type=p4runtime_pb2.Update.MODIFY).entity
        entity.direct_counter_entry.table_entry.CopyFrom(PROGRAM.to_entity(row).table_entry)
        entity.direct_counter_entry.table_entry.ClearField("action")
        entity.direct_counter_entry.data.packet_count = packets
        switch._session.stub.Write(request)


def test_a_job_that_has_run_is_changed_only_on_demand(address: str) -> None:
    wanted = config(address, A, B)
    apply(wanted, force=True)
    count_packets(wanted, 1, 3, 12)
    assert not apply(wanted).changed
    apply(config(address, A, {**B, "quorum": 1}))
    with pytest.raises(RunningJobsError, match=r"job a \(1\), 12 packets: quorum 4 -> 3, generation"):
        apply(config(address, {**A, "quorum": 3}, B))
    assert [(found.worker, found.packets) for found in read_status(wanted).workers if found.packets] == [(3, 12)]
    apply(wanted, renew=["a"], force=False)
    assert not any(found.packets for found in read_status(wanted).workers)  # admitted anew
    count_packets(wanted, 1, 0, 1)
    with pytest.raises(RunningJobsError, match="job 1, 1 packets: would leave"):
        apply(config(address, B))
    apply(config(address, B), force=True)


def test_differences_are_seen_and_mended(address: str) -> None:
    wanted = config(address, B)
    apply(wanted)
    with P4Switch(wanted.switch) as switch:
        route = next(entry for entry in switch.entries(PROGRAM) if str(entry).startswith("forward[dst=10.0.0.4"))
        switch.write(PROGRAM, EntryChange(Write.DELETE, route))
        switch.write(PROGRAM, EntryChange(Write.INSERT, TableEntry("forward", (0x0A010000, 16), (2,))))
        switch.write(PROGRAM, EntryChange(Write.INSERT, MulticastGroup(40, frozenset({(1, 1), (2, 7)}))))
        switch.write(PROGRAM, EntryChange(Write.MODIFY, MulticastGroup(40, frozenset({(3, 9)}))))
    assert read_status(wanted).differences == (
        "foreign: forward[dst=10.1.0.0, prefix=16] to_port(port=2)",
        "foreign: group 40: 3#9",
        "missing: forward[dst=10.0.0.4, prefix=32] to_port(port=4)",
    )
    assert len(apply(wanted).changes) == 3
    assert read_status(wanted).in_sync


def test_the_switchs_reason_is_named(address: str) -> None:
    wanted = config(address)
    apply(wanted)
    route = TableEntry("forward", (0x0A000001, 32), (1,))
    with (
        P4Switch(wanted.switch) as switch,
        pytest.raises(SwitchRefusedError, match=r"insert forward\[dst=10.0.0.1, prefix=32\].*: ALREADY_EXISTS"),
    ):
        switch.write(PROGRAM, EntryChange(Write.INSERT, route))


def test_a_connected_primary_is_outranked_only_on_demand(address: str) -> None:
    wanted = config(address)
    apply(wanted, force=True)
    row = TableEntry("forward", (0x0A000001, 32), (1,))
    with P4Switch(wanted.switch) as earlier:
        read_status(wanted)
        with pytest.raises(NotPrimaryError, match=r"take over: sumwire-controller apply CONFIG --take-over$"):
            apply(wanted)
        earlier.write(PROGRAM, EntryChange(Write.DELETE, row))
        assert apply(wanted, take_over=True).changed
        with (
            P4Switch(wanted.switch, take_over=True),
            pytest.raises(NotPrimaryError, match="another controller has become the primary"),
        ):
            earlier.write(PROGRAM, EntryChange(Write.DELETE, row))
    assert not apply(wanted).changed


@pytest.fixture(params=["soft", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A running switch of each kind that has seen no election."""
    with soft_switch(SoftSwitch()) if request.param == "soft" else bmv2(tmp_path / "switch.log") as running:
        yield running


def test_a_primary_that_leaves_is_waited_for(fresh: str) -> None:
    wanted = config(fresh)
    apply(wanted)
    stranger = Stranger(fresh, 1 << 70)
    leaves = threading.Timer(0.2, stranger.leave)
    leaves.start()
    assert not apply(wanted).changed
    leaves.join()


@pytest.mark.parametrize("left_behind", [1 << 60, 1 << 64, (1 << 128) - 1])
def test_an_id_that_somebody_left_behind_locks_nobody_out(fresh: str, left_behind: int) -> None:
    wanted = config(fresh)
    Stranger(fresh, left_behind).leave()
    assert apply(wanted).program_loaded
    assert not apply(wanted).changed


def test_above_the_highest_id_there_is_none(fresh: str) -> None:
    wanted = config(fresh)
    stranger = Stranger(fresh, (1 << 128) - 1)
    with pytest.raises(NotPrimaryError, match=r"end the controller that has it, or restart the switch$"):
        apply(wanted, take_over=True)
    stranger.leave()


class Stranger:
    """Another controller, which is the primary with the given election id until it leaves."""

    def __init__(self, address: str, election_id: int) -> None:
        self._channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
        self._requests: queue.Queue[Any] = queue.Queue()
        self._stream: Any = p4runtime_pb2_grpc.P4RuntimeStub(self._channel).StreamChannel(
            iter(self._requests.get, None), timeout=20
        )
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = 1
        request.arbitration.election_id.high, request.arbitration.election_id.low = divmod(election_id, 1 << 64)
        self._requests.put(request)
        assert next(self._stream).arbitration.status.code == code_pb2.OK

    def leave(self) -> None:
        self._requests.put(None)
        assert list(self._stream) == []
        self._channel.close()


def test_another_program_is_replaced_and_its_entries_with_it(address: str, tmp_path: Path) -> None:
    wanted = config(address, B)
    apply(wanted)
    for file in (PROGRAM_DIR / "sumwire.json", PROGRAM_DIR / "sumwire.p4info.txtpb"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "sumwire.json").write_bytes((PROGRAM_DIR / "sumwire.json").read_bytes() + b"\n")
    other = read_status(wanted, build_dir=tmp_path)
    assert (other.program_runs, other.program.split(" ")[0]) == (False, "sumwire")
    count_packets(wanted, 2, 1, 4)
    with pytest.raises(RunningJobsError, match=r"job b \(2\), 4 packets: program sumwire .* would be replaced"):
        apply(wanted, build_dir=tmp_path)
    assert read_status(wanted).in_sync
    report = apply(wanted, build_dir=tmp_path, force=True)
    assert report.program_loaded
    assert len([change for change in report.changes if change.write is not Write.INSERT]) == 0
    assert not apply(wanted, build_dir=tmp_path).changed


def test_a_program_the_switch_cannot_load(address: str) -> None:
    wanted, broken = config(address), Program(PROGRAM.p4info, b"{}")
    # bmv2 takes even an empty object, and then cannot read its tables.
    words = r"(loading the program|reading the tables): (UNKNOWN|INVALID_ARGUMENT): .*apply CONFIG$"
    with P4Switch(wanted.switch) as switch, pytest.raises(SwitchError, match=f"(?s){words}"):
        bring_about(wanted, switch, broken, (), NOW, force=True)
    apply(wanted)
    assert read_status(wanted).in_sync


def test_commands(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s1.yaml"
    path.write_text(text(star(2, jobs=[job("b", 2, 2, 256, 64)])).replace("127.0.0.1:9559", address))
    assert main(["apply", str(path)]) == 0
    assert main(["apply", str(path), "--json"]) == 0
    lines = capsys.readouterr().out
    again = json.loads(lines[lines.index("{") :])
    assert (again["changed"], again["changes"], list(again["generations"])) == (False, [], ["b"])
    assert main(["apply", str(path), "--renew", "b"]) == 0
    assert capsys.readouterr().out.startswith("s1: 7 entries written\n")
    assert main(["status", str(path)]) == 0
    assert capsys.readouterr().out.startswith("s1: as configured\njob 2 b: slots 256..319, quorum 2, generation ")
    assert main(["status", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["in_sync"] is True
    assert main(["apply", str(path), "--renew", "z"]) == 1
    assert main(["apply", str(path), "--p4", str(tmp_path)]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert [("'z'" in errors[0]), ("make p4" in errors[1]), len(errors)] == [True, True, 2]
