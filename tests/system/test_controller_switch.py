# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The controller against real P4Runtime servers: the soft switch in this process, and bmv2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.controller.config_texts import job, star, text
from helpers.controller.real_switches import bmv2, soft_switch
from helpers.paths import ROOT
from softswitch.switch import SoftSwitch
from sumwire_controller.cli import main
from sumwire_controller.deploy.operations import apply, read_status
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import Change, Write
from sumwire_controller.deploy.switch import P4Switch
from sumwire_controller.derive.entries import MulticastGroup, TableEntry
from sumwire_controller.errors import NotPrimaryError, SwitchError, SwitchRefusedError
from sumwire_controller.model.config import Config
from sumwire_controller.parse.config_file import parse_config

PROGRAM_DIR = ROOT / "p4src" / "build"
PROGRAM = Program.load(PROGRAM_DIR)


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
        "aggregator": 1, "forward": 4, "job": 2, "worker": 6, "thc_low": 1, "thc_high": 1, "group": 2, "replica": 7
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


def test_renew(address: str) -> None:
    before = apply(config(address, A, B)).generations
    report = apply(config(address, A, B), renew=["a"])
    assert report.generations["b"] == before["b"]
    assert report.generations["a"] > max(before.values())
    assert len(report.changes) == 3


def test_differences_are_seen_and_mended(address: str) -> None:
    wanted = config(address, B)
    apply(wanted)
    with P4Switch(wanted.switch) as switch:
        route = next(entry for entry in switch.entries(PROGRAM) if str(entry).startswith("forward[dst=10.0.0.4"))
        switch.write(PROGRAM, Change(Write.DELETE, route))
        switch.write(PROGRAM, Change(Write.INSERT, TableEntry("forward", (0x0A010000, 16), (2,))))
        switch.write(PROGRAM, Change(Write.INSERT, MulticastGroup(40, frozenset({(1, 1), (2, 7)}))))
        switch.write(PROGRAM, Change(Write.MODIFY, MulticastGroup(40, frozenset({(3, 9)}))))
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
        switch.write(PROGRAM, Change(Write.INSERT, route))


def test_whoever_comes_later_is_primary(address: str) -> None:
    wanted = config(address)
    apply(wanted)
    with P4Switch(wanted.switch) as earlier, P4Switch(wanted.switch):
        with pytest.raises(NotPrimaryError):
            earlier.write(PROGRAM, Change(Write.DELETE, TableEntry("forward", (0x0A000001, 32), (1,))))
        read_status(wanted)
    assert not apply(wanted).changed


def test_another_program_is_replaced_and_its_entries_with_it(address: str, tmp_path: Path) -> None:
    wanted = config(address, B)
    apply(wanted)
    for file in (PROGRAM_DIR / "sumwire.json", PROGRAM_DIR / "sumwire.p4info.txtpb"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "sumwire.json").write_bytes((PROGRAM_DIR / "sumwire.json").read_bytes() + b"\n")
    assert not read_status(wanted, build_dir=tmp_path).program_runs
    report = apply(wanted, build_dir=tmp_path)
    assert report.program_loaded
    assert len([change for change in report.changes if change.write is not Write.INSERT]) == 0
    assert not apply(wanted, build_dir=tmp_path).changed


def test_a_program_the_switch_cannot_load(address: str, tmp_path: Path) -> None:
    (tmp_path / "sumwire.json").write_bytes(b"{}")
    (tmp_path / "sumwire.p4info.txtpb").write_bytes((PROGRAM_DIR / "sumwire.p4info.txtpb").read_bytes())
    # bmv2 takes even an empty object, and then cannot read its tables.
    with pytest.raises(SwitchError, match=r"(loading the program|reading the tables): (UNKNOWN|INVALID_ARGUMENT)"):
        apply(config(address), build_dir=tmp_path)
    apply(config(address))
    assert read_status(config(address)).in_sync


def test_commands(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s1.yaml"
    path.write_text(text(star(2, jobs=[job("b", 2, 2, 256, 64)])).replace("127.0.0.1:9559", address))
    assert main(["apply", str(path)]) == 0
    assert main(["apply", str(path), "--json"]) == 0
    lines = capsys.readouterr().out
    again = json.loads(lines[lines.index("{") :])
    assert (again["changed"], again["changes"], list(again["generations"])) == (False, [], ["b"])
    assert main(["apply", str(path), "--renew", "b"]) == 0
    assert capsys.readouterr().out.startswith("s1: 3 entries written\n")
    assert main(["status", str(path)]) == 0
    assert capsys.readouterr().out.startswith("s1: as configured\njob 2 b: slots 256..319, quorum 2, generation ")
    assert main(["status", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["in_sync"] is True
    assert main(["apply", str(path), "--renew", "z"]) == 1
    assert main(["apply", str(path), "--p4", str(tmp_path)]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert [("'z'" in errors[0]), ("make p4" in errors[1]), len(errors)] == [True, True, 2]
