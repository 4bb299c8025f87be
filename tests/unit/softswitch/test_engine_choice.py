# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which engine runs, and the warning if it is not the preferred one."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest
from commonlib.events import ProgramEvent
from helpers.logs import events_of
from helpers.softswitch.compile_programs import PROGRAMS
from nativelib import CompileError, NoCompilerError
from softswitch.cli import main
from softswitch.errors import UnsupportedProgramError
from softswitch.native import engine as native_engine
from softswitch.native import engine as native_machine
from softswitch.native.emit import CProgram
from softswitch.native.engine import NativeMachine
from softswitch.program import ir
from softswitch.program.load.program import load_program
from softswitch.python.engine import PythonMachine
from softswitch.switch import EngineChoice, SoftSwitch

ProgramText = Callable[[str], str]


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/bin/false")


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The native engine refuses every program."""

    def refuse(program: ir.Program, *, coverage: bool = False) -> CProgram:
        raise UnsupportedProgramError("too wide for C")

    monkeypatch.setattr(native_machine, "emit_c", refuse)
    monkeypatch.setattr(native_engine, "emit_c", refuse)


def ran(chosen: SoftSwitch) -> list[tuple[int, bytes]]:
    """What ``tables`` answers to a frame of zeros."""
    return chosen.process(0, bytes(16))


@pytest.mark.cc
def test_auto_is_native_where_there_is_a_compiler(program_text: ProgramText, caplog: pytest.LogCaptureFixture) -> None:
    chosen = SoftSwitch(program_text("tables"))
    assert chosen.engine == "native"
    assert isinstance(chosen.loaded, NativeMachine)
    assert "ss_program" in chosen.loaded.source
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert SoftSwitch().engine == "native"


@pytest.mark.usefixtures("no_compiler")
def test_auto_is_python_without_a_compiler_and_says_so_once(
    program_text: ProgramText, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = SoftSwitch(program_text("tables"))
    chosen.load(program_text("wide"))
    assert chosen.engine == "python"
    assert isinstance(chosen.loaded, PythonMachine)
    (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "Python engine" in warning.getMessage()
    assert events_of([warning]) == [ProgramEvent.KERNELS_MISSING]
    assert "/bin/false" in warning.getMessage()


@pytest.mark.usefixtures("no_compiler")
def test_native_without_a_compiler_is_refused(program_text: ProgramText) -> None:
    with pytest.raises(NoCompilerError, match="/bin/false"):
        SoftSwitch(program_text("tables"), engine="native")
    with pytest.raises(NoCompilerError):
        SoftSwitch(engine="native")


def test_python_asks_for_no_compiler(
    program_text: ProgramText, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def find(**_: object) -> None:
        raise AssertionError("nobody asked for a compiler")

    monkeypatch.setattr(native_engine, "find_compiler", find)
    chosen = SoftSwitch(program_text("tables"), engine="python")
    assert chosen.engine == "python"
    assert "def process" in chosen.loaded.source
    assert caplog.records == []


@pytest.mark.cc
@pytest.mark.usefixtures("refusing")
def test_what_only_python_runs(program_text: ProgramText, caplog: pytest.LogCaptureFixture) -> None:
    chosen = SoftSwitch(program_text("tables"))
    assert chosen.engine == "python"
    assert "too wide for C" in caplog.text
    assert ran(chosen) == ran(SoftSwitch(program_text("tables"), engine="python"))
    with pytest.raises(UnsupportedProgramError, match="too wide for C"):
        SoftSwitch(program_text("tables"), engine="native")


@pytest.mark.cc
def test_an_engine_once_chosen_stays(program_text: ProgramText, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports run on it: a program that it cannot run is refused, and the one before stays."""
    chosen = SoftSwitch(program_text("tables"))
    before, answer = chosen.loaded, ran(chosen)

    def fail(*_: object, **__: object) -> None:
        raise CompileError("cc: out of registers")

    monkeypatch.setattr(native_machine, "build", fail)
    with pytest.raises(UnsupportedProgramError, match="out of registers"):
        chosen.load(program_text("wide"))
    assert chosen.loaded is before
    assert ran(chosen) == answer


def test_what_neither_engine_runs_is_said_as_it_is(program_text: ProgramText, caplog: pytest.LogCaptureFixture) -> None:
    root = json.loads(program_text("tables"))
    root["extern_instances"] = [{"name": "stack", "id": 0}]
    with pytest.raises(UnsupportedProgramError, match="extern"):
        SoftSwitch(json.dumps(root))
    assert "engine" not in caplog.text


def test_verify_loads_nothing(program_text: ProgramText, engine: EngineChoice) -> None:
    chosen = SoftSwitch(program_text("tables"), engine=engine)
    before = chosen.loaded
    chosen.verify(program_text("wide"))
    with pytest.raises(UnsupportedProgramError):
        chosen.verify("{}")
    assert chosen.loaded is before


@pytest.mark.cc
@pytest.mark.usefixtures("refusing")
def test_verify_asks_the_engine_that_runs(program_text: ProgramText) -> None:
    native = SoftSwitch(engine="native")
    with pytest.raises(UnsupportedProgramError, match="too wide for C"):
        native.verify(program_text("tables"))
    SoftSwitch(engine="python").verify(program_text("tables"))


def test_programs_come_as_text_or_read_already(program_text: ProgramText, engine: EngineChoice) -> None:
    text = program_text("tables")
    assert ran(SoftSwitch(load_program(text), engine=engine)) == ran(SoftSwitch(text, engine=engine))


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize(("option", "shown"), [("--dump-c", "ss_program"), ("--dump-python", "def process(")])
@pytest.mark.usefixtures("no_compiler")
def test_the_source_is_shown_without_compiling(option: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(PROGRAMS / "tables.json"), option]) == 0
    assert shown in capsys.readouterr().out


@pytest.mark.usefixtures("no_compiler")
def test_the_command_ends_where_the_engine_it_was_told_cannot_run(caplog: pytest.LogCaptureFixture) -> None:
    assert main(["--no-p4", "--insecure", "--engine", "native"]) == 1
    assert "/bin/false" in caplog.text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--no-p4", "--engine", "rust"], "invalid choice: 'rust'"),
        (["x.json", "--dump-c", "--dump-python"], "not allowed with argument"),
        (["--no-p4", "--dump-c"], "need a program"),
    ],
)
def test_what_the_command_does_not_take(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
