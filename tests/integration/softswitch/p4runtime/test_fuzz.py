# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The short form of `make fuzz-p4runtime`; and switches that err, which its oracle must find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fuzz.p4runtime.__main__ import main
from fuzz.p4runtime.episode import Episode, Tally
from fuzz.p4runtime.model import schema_of
from helpers.p4runtime.client import CPU_PORT, DEVICE_ID, PROGRAMS, Program
from softswitch.device import Device
from softswitch.p4runtime.roles import Arbiter
from softswitch.p4runtime.server import serve
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, KeyMatch, Replica
from softswitch.switch import SoftSwitch

FILES = [str(PROGRAMS / "tables.p4info.txtpb"), str(PROGRAMS / "tables.json")]


class Finding(Exception):  # noqa: N818
    """What the oracle reports."""


def raising(what: str, how: str) -> None:
    raise Finding(f"{what}: {how}")


def run_episode(device: Device, program: Program, folder: Path, updates: int, seed: str = "1:0") -> Tally:
    address = f"unix:{folder}/s"
    server = serve(device, address, DEVICE_ID, CPU_PORT)
    try:
        schema = schema_of(program.p4info)
        return Episode(address, DEVICE_ID, schema, program.config(), seed, 1 << 64, updates, raising).run()
    finally:
        server.stop()


def switch(kind: type[SoftSwitch] = SoftSwitch) -> SoftSwitch:
    return kind(engine="python", cpu_port=CPU_PORT)


def test_an_episode(program: Program, tmp_path: Path) -> None:
    tally = run_episode(switch(), program, tmp_path, 600)
    assert tally.accepted > 200
    assert {"INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED"} < set(tally.refused)


class Keeps(SoftSwitch):
    def delete(self, table: str, key: tuple[KeyMatch, ...], priority: int = 0) -> None:
        self._table(table)._row((key, priority))  # and does nothing


class Forgets(SoftSwitch):
    """Counts start anew with every modification."""

    def modify(self, table: str, entry: Entry) -> None:
        counts = CounterValue() if self._table(table).table.has_counter else None
        super().modify(table, entry._replace(counter=counts))


class Boundless(SoftSwitch):
    def insert(self, table: str, entry: Entry) -> None:
        backend = self._table(table)
        backend.table = replace(backend.table, size=1 << 20)
        super().insert(table, entry)


class Deaf(SoftSwitch):
    def set_default_action(self, table: str, action: ActionCall | None) -> None:
        if action is None:
            super().set_default_action(table, action)


class Narrow(SoftSwitch):
    """Has room for seven replicas."""

    def set_group(self, group: int, replicas: tuple[Replica, ...]) -> None:  # type: ignore[override]
        super().set_group(group, replicas[:7])


class Raises(SoftSwitch):
    def write_counter(self, counter: str, index: int, value: CounterValue) -> None:
        raise KeyError(counter)


@pytest.mark.parametrize(
    "kind",
    [Keeps, Deaf, *(pytest.param(kind, marks=pytest.mark.long) for kind in (Forgets, Boundless, Narrow, Raises))],
    ids=lambda kind: kind.__name__,
)
def test_a_switch_that_errs_is_found(kind: type[SoftSwitch], program: Program, tmp_path: Path) -> None:
    with pytest.raises(Finding):
        run_episode(switch(kind), program, tmp_path, 1200)


def test_a_server_that_lets_backups_write_is_found(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Arbiter, "require_primary", lambda *_: None)
    with pytest.raises(Finding, match="instead of PERMISSION_DENIED"):
        run_episode(switch(), program, tmp_path, 1200)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FILES, "--writes", "20", "--engine", "python"]) == 0
    assert "updates/s" in capsys.readouterr().out


def test_a_finding_prints_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.p4runtime.oracle.INVALID", 99)
    assert main([*FILES, "--writes", "20", "--seed", "5", "--engine", "python"]) == 1
    error = capsys.readouterr().err
    assert f"fuzz: repeat it: python -m fuzz.p4runtime {' '.join(FILES)} --seed 5 --only 0" in error
