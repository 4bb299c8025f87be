# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Soft switch and controller as programs, with all that they say in JSON."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import IO

import pytest
from commonlib.events import ProgramEvent
from commonlib.logs import VARIABLE
from helpers.controller.config_texts import star, text
from helpers.controller.real_switches import program
from helpers.controller.topology_texts import leaf_spine
from helpers.logs import Line, checked, lines_in, of
from softswitch.events import SwitchEvent
from sumwire_controller import cli
from sumwire_controller.deploy.switch import P4Switch
from sumwire_controller.model import Switch
from sumwire_protocol.events import Event

JSON = ("--log-format", "json")


def until(stream: IO[str] | None, event: Event) -> list[Line]:
    """Lines up to the first one of this event."""
    assert stream is not None
    lines: list[Line] = []
    while not of(lines, event):
        lines.append(checked(stream.readline().rstrip("\n")))
    return lines


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[Line]]:
    """A command of the controller, in a process of its own, since a test's process has other handlers."""
    with program("sumwire_controller.cli", *JSON, *words) as process:
        _, errors = process.communicate(timeout=300)
    return process.returncode, lines_in(errors)


def test_a_switch_and_its_controllers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ("--device-id", "1", "--engine", "python", "--insecure", "--grpc-server-addr", "127.0.0.1:0")
    more = ("--metrics", "0", "--impair", "drop=0.5,ports=2+1", "-L", "debug")
    with program("softswitch", "--no-p4", *options, *more, *JSON) as switch:
        began = until(switch.stderr, ProgramEvent.READY)
        assert of(began, ProgramEvent.METRICS_SERVED)[0]["at"].startswith("127.0.0.1:")
        assert of(began, SwitchEvent.ENGINE_CHOSEN)[0]["engine"] == "python"
        conditions = of(began, ProgramEvent.IMPAIRED)[0]["conditions"]
        assert (conditions["drop"], conditions["ports"]) == (0.5, [1, 2])
        assert {line["switch"] for line in began} == {"1"}
        address = f"127.0.0.1:{began[-1]['at'].removeprefix('port ')}"

        data = star(2)
        data["switch"]["grpc"] = address
        path = tmp_path / "star.yaml"
        path.write_text(text(data))
        (job,) = data["jobs"]
        status, first = run(capfd, "apply", str(path))
        assert status == 0
        assert [line["event"] for line in first] == [
            event.word for event in (Event.ELECTED, Event.JOB_ADMITTED, Event.SWITCH_APPLIED)
        ]
        assert (first[1]["job"], first[1]["name"], first[1]["renewed"]) == (job["id"], job["name"], False)
        assert first[2]["program_loaded"] and first[2]["rows"] > 4
        # Of another device id, and while another controller is the primary.
        data["switch"]["device_id"] = 2
        (tmp_path / "wrong.yaml").write_text(text(data))
        status, wrong = run(capfd, "status", str(tmp_path / "wrong.yaml"))
        assert (status, wrong[-1]["event"], wrong[-1]["level"]) == (1, ProgramEvent.FAILED.word, "error")
        with P4Switch(Switch("s1", address, 1), 5.0):
            _, taken = run(capfd, "apply", str(path), "--renew", job["name"], "--take-over")
        assert of(taken, Event.TAKEN_OVER)[0]["before"] < of(taken, Event.TAKEN_OVER)[0]["election_id"]
        assert of(taken, Event.JOB_ADMITTED)[0]["renewed"]

        switch.send_signal(signal.SIGTERM)
        _, rest = switch.communicate(timeout=300)
    told = lines_in(rest)
    assert len(of(told, SwitchEvent.PROGRAM_LOADED)) == 1
    assert sum(line["updates"] for line in of(told, SwitchEvent.ROWS_WRITTEN)) == sum(
        line["rows"] for line in (*first, *taken) if line["event"] == Event.SWITCH_APPLIED.word
    )
    joined = of(told, SwitchEvent.CONTROLLER_JOINED)
    assert joined[0]["role"] == "" and [line for line in joined if line["primary"]]
    assert len(of(told, SwitchEvent.CONTROLLER_LEFT)) == 3
    assert {line["code"] for line in of(told, SwitchEvent.CALL_REFUSED)} == {"NOT_FOUND"}
    assert told[-1]["event"] == ProgramEvent.STOPPED.word


def test_what_a_switch_cannot_run(tmp_path: Path) -> None:
    with program("softswitch", str(tmp_path / "absent.json"), "--insecure", *JSON) as switch:
        _, errors = switch.communicate(timeout=300)
    (line,) = lines_in(errors)
    assert (line["event"], switch.returncode) == (ProgramEvent.FAILED.word, 2)
    assert "absent.json" in line["reason"]


def test_what_watch_sees(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every kind of it is an event; what the kinds are, other tests see."""
    from sumwire_controller.deploy import watch

    monkeypatch.setenv(VARIABLE, "json")
    kinds = {
        "dead": Event.ROOT_DEAD, "back": Event.ROOT_BACK, "moved": Event.ROWS_MOVED, "failed": Event.ROWS_FAILED,
        "stranded": Event.JOB_STRANDED,
    }  # fmt: skip

    class Seen(watch.Watch):
        """One that has seen one of each, and is ended."""

        def __enter__(self) -> Seen:
            for kind in kinds:
                self._tell(kind, "spine1", 0.25, "x\ny")
            signal.raise_signal(signal.SIGTERM)
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(watch, "Watch", Seen)
    (tmp_path / "net.yaml").write_text(text(leaf_spine(2, 2, 2)))
    assert cli.main(["watch", str(tmp_path / "net.yaml")]) == 0
    *lines, last = lines_in(capsys.readouterr().out)
    assert [line["event"] for line in lines] == [event.word for event in kinds.values()]
    assert last["event"] == ProgramEvent.READY.word
    assert {(line["switch"], line["reason"], line["after_s"]) for line in lines} == {("spine1", "x\ny", 0.25)}
