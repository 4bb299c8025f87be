# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Programs of an attacker: no text of the JSON becomes code, and sizes are bounded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fuzz.mutations import ATTACKS, MARKER, escapes_in_c, escapes_in_python, renamed
from helpers.paths import ROOT
from nativelib.errors import CompileError
from softswitch.errors import (
    InvalidEntryError,
    MalformedProgramError,
    NotFoundError,
    ProgramTooLargeError,
    UnsupportedProgramError,
)
from softswitch.native import engine
from softswitch.native.emit import emit_c
from softswitch.native.engine import NativeMachine
from softswitch.native.runtime_library import runtime
from softswitch.program import ir
from softswitch.program.emitted_text import comment_text, identifier, literal
from softswitch.program.limits import CELLS, FILE_BYTES
from softswitch.program.load.node import read_program
from softswitch.program.load.program import load_program
from softswitch.python.emit import emit_program
from softswitch.python.engine import PythonMachine
from softswitch.runtime.entries import CounterValue
from softswitch.runtime.impair import SplitMix
from softswitch.switch import EngineChoice, SoftSwitch

Json = Any
SAMPLES = ["checksum", "corner", "cpu", "multicast", "parse", "tables", "wide"]


@pytest.fixture
def tables(program_text: Callable[[str], str]) -> Json:
    return json.loads(program_text("tables"))


def refusal(root: Json, kind: type[UnsupportedProgramError] = MalformedProgramError) -> UnsupportedProgramError:
    with pytest.raises(UnsupportedProgramError) as caught:
        load_program(root if isinstance(root, str) else json.dumps(root))
    assert type(caught.value) is kind, caught.value
    return caught.value


# ---------------------------------------------------------------- text


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_engine_relies_on_the_loader_for_names(program_text: Callable[[str], str], attack: str) -> None:
    """Every text of the intermediate form is replaced, as if the loader had admitted it."""
    for name in SAMPLES:
        program = renamed(load_program(program_text(name)), attack)
        assert attack in {source.file for source in (action.source for action in program.actions)}
        assert escapes_in_c(emit_c(program).source) == []
        assert escapes_in_python(emit_program(program).source) == []


@pytest.mark.parametrize("attack", ATTACKS)
def test_names_are_from_a_whitelist(tables: Json, attack: str) -> None:
    state = tables["parsers"][0]["parse_states"][0]
    state["name"] = tables["parsers"][0]["init_state"] = attack
    error = refusal(tables)
    assert error.place == "parsers[0].parse_states[0].name"
    assert "is not a name: 1 to 255 letters, digits and _ . $ : | @ ( ) [ ] -; compile the P4 program again" in str(
        error
    )
    assert str(error).isascii()
    assert str(error).isprintable()
    assert len(str(error)) < 300


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if not attack.isprintable()])
def test_file_names_and_messages_are_printable(tables: Json, attack: str) -> None:
    action = tables["actions"][0]
    action["primitives"][0]["source_info"] = {"filename": attack, "line": 7}
    assert refusal(tables).place == "actions[0].primitives[0].source_info.filename"
    message = {"op": "log_msg", "parameters": [{"type": "string", "value": attack}]}
    action["primitives"] = [message]
    assert refusal(tables).place == "actions[0].primitives[0].parameters[0].value"


def test_the_checks_find_escapes() -> None:
    assert escapes_in_c(f"// x\n{MARKER}();\n") == [1]
    assert escapes_in_c(f"// x\\\n{MARKER}();\n") == []
    assert escapes_in_c(f"// x??/\n{MARKER}();\n") == []
    assert escapes_in_c(f"/* x */ {MARKER}(); /* */\n") == [0]
    assert escapes_in_c(f'"// " {MARKER} "') != []
    assert escapes_in_c(f'/* {MARKER} */ // {MARKER}\nchar *a = "\\"{MARKER}";\nint x_{MARKER};\n') == []
    assert escapes_in_python(f"# x\r{MARKER}()\r#\n") != []
    assert escapes_in_python(f"# {MARKER}\nx = '{MARKER}'\ny_{MARKER} = 1\n") == []


def test_text_of_comments_names_and_literals() -> None:
    for attack in ATTACKS:
        text = comment_text(attack)
        assert text.isascii()
        assert text.isprintable()
        assert not {"*/", "/*", "\\", "??"} & {text[i : i + n] for i in range(len(text)) for n in (1, 2)}
        assert identifier(f"f_{attack}", set()).isidentifier()
        assert eval(literal(attack)) == attack
    assert len(comment_text("x" * 10_000)) < 1000
    assert comment_text("p4src/include/control/x.p4:7") == "p4src/include/control/x.p4:7"


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("value", [True, 1.0, float("nan"), float("inf"), "9", None, [9], -1, 10**30, 10**4000])
def test_numbers_are_numbers(tables: Json, value: Any) -> None:
    tables["actions"][0]["id"] = value
    error = refusal(tables)
    assert error.place == "actions[0].id"
    assert len(str(error)) < 300


@pytest.mark.parametrize("value", [7, True, 0.5, "", "0x", "1_0", " 1", "0x1g", "--1", "0x" + "f" * 2000, "١"])
def test_hexadecimal_numbers(tables: Json, value: Any) -> None:
    entry = tables["pipelines"][0]["tables"]
    table = next(t for t in entry if t.get("entries"))
    table["entries"][0]["action_entry"]["action_data"] = [value]
    assert ".action_entry" in refusal(tables).place


def test_a_number_of_thousands_of_digits(tables: Json) -> None:
    text = json.dumps(tables).replace('"line": ', '"line": ' + "9" * 5000, 1)
    assert "is not JSON" in str(refusal(text))


def test_an_entry_fits_its_key_and_its_action(tables: Json) -> None:
    table = next(t for t in tables["pipelines"][0]["tables"] if t.get("entries"))
    table["entries"][0]["action_entry"]["action_data"] = []
    assert "values for the" in str(refusal(tables))


def test_standard_metadata_has_the_widths_that_engines_rely_on(tables: Json) -> None:
    """A check of an index is left out where the field's width already bounds it."""
    declared = next(t for t in tables["header_types"] if t["name"].startswith("standard_metadata"))
    ports = next(part for part in declared["fields"] if part[0] == "ingress_port")
    ports[1] = 1
    assert "has ingress_port of other than 9 bits" in str(refusal(tables))


@pytest.mark.parametrize("port", [-1, 512, 1 << 40])
def test_ports_have_nine_bits(program_text: Callable[[str], str], engine: EngineChoice, port: int) -> None:
    switch = SoftSwitch(program_text("tables"), engine=engine)
    with pytest.raises(InvalidEntryError, match=r"is not in 0\.\.511"):
        switch.process(port, bytes(64))
    with pytest.raises(InvalidEntryError, match=r"is not in 0\.\.511"):
        switch.inject(port, bytes(64))
    with pytest.raises(InvalidEntryError, match=r"is not in 0\.\.511"):
        SoftSwitch(cpu_port=port, engine="python")


def test_a_distance_of_a_shift_is_never_negative(program_text: Callable[[str], str]) -> None:
    root = json.loads(program_text("wide"))
    add = next(action for action in root["actions"] if action["name"] == "ingress.add")
    add["primitives"][0]["parameters"][1]["value"]["value"]["op"] = "<<"
    add["primitives"][0]["parameters"][1]["value"]["value"]["right"] = {"type": "hexstr", "value": "-0x1"}
    assert "a shift by a number that may be negative" in str(refusal(root, UnsupportedProgramError))


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize("size", [CELLS + 1, 2**31, 2**32 + 8, 2**40])
@pytest.mark.parametrize("section", ["counter_arrays", "register_arrays"])
def test_arrays_of_too_many_cells(program_text: Callable[[str], str], section: str, size: int) -> None:
    root = json.loads(program_text("wide" if section == "register_arrays" else "corner"))
    number = next(n for n, array in enumerate(root[section]) if not array.get("is_direct"))
    root[section][number]["size"] = size
    error = refusal(root, ProgramTooLargeError)
    assert str(error) == (
        f"{section}[{number}].size: {size} cells, the soft switch runs at most {CELLS}; make it smaller"
    )


@pytest.mark.parametrize("index", [-1, 8, 2**31, 2**32, 2**63])
def test_no_cell_behind_an_array(program_text: Callable[[str], str], engine: EngineChoice, index: int) -> None:
    switch = SoftSwitch(program_text("corner"), engine=engine)
    counter = next(name for name, array in switch.loaded.program.counters.items() if array.table is None)
    size = switch.counter_size(counter)
    assert size <= 8
    with pytest.raises(NotFoundError, match=f"its size is {size}"):
        switch.read_counter(counter, index)
    with pytest.raises(NotFoundError, match=f"its size is {size}"):
        switch.write_counter(counter, index, CounterValue(1, 1))
    registers = SoftSwitch(program_text("wide"), engine=engine)
    name, declared = next(iter(registers.loaded.program.registers.items()))
    assert declared.size <= 8
    with pytest.raises(InvalidEntryError, match=f"it has {declared.size} cells"):
        registers.write_register(name, index, 0)


@pytest.mark.cc
def test_c_and_python_agree_on_the_cells_of_an_array(program_text: Callable[[str], str]) -> None:
    """C gives no address where the number of cells, or of the array, is another one."""
    machine = NativeMachine(program_text("corner"), SplitMix(1), lambda: 0)
    size = next(array.size for array in machine.program.counters.values() if array.table is None)
    library = runtime()
    assert library.ss_machine_counter(machine.address, 0, size)
    for number, cells in ((0, size + 1), (0, 2**32 + size), (1000, size), (2**31, size)):
        assert not library.ss_machine_counter(machine.address, number, cells)
        assert not library.ss_machine_register(machine.address, number, cells)
    assert not library.ss_machine_set_group(machine.address, 65536, None, 0)


@pytest.mark.cc
def test_c_functions_leave_the_stack_to_each_other(
    program_text: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of a packet lies on the stack. The loader would refuse one of the size that is forbidden here."""
    monkeypatch.setattr(engine, "FRAME_BYTES", 12_288)
    program = load_program(program_text("wide"))
    NativeMachine(program, SplitMix(1), lambda: 0)
    header = next(header for header in program.headers.values() if not header.metadata)
    more = tuple(ir.Field(f"more{number}", 2048) for number in range(50))
    wide = replace(header, fields=(*header.fields, *more))
    with pytest.raises(CompileError, match="stack frame size"):
        NativeMachine(replace(program, headers={**program.headers, header.name: wide}), SplitMix(1), lambda: 0)


def test_c_gets_no_size_that_it_would_cut(program_text: Callable[[str], str]) -> None:
    program = load_program(program_text("corner"))
    name = next(name for name, counter in program.counters.items() if counter.table is None)
    large = {**program.counters, name: replace(program.counters[name], size=2**32 + 8)}
    with pytest.raises(ProgramTooLargeError, match="4294967304 cells"):
        emit_c(replace(program, counters=large))


def test_all_arrays_together(program_text: Callable[[str], str]) -> None:
    root = json.loads(program_text("corner"))
    counter = next(array for array in root["counter_arrays"] if not array.get("is_direct"))
    root["counter_arrays"] += [counter | {"name": f"more{i}", "size": 1 << 20} for i in range(9)]
    error = refusal(root, ProgramTooLargeError)
    assert "registers and counters of" in str(error)
    assert error.place.startswith("counter_arrays[")


def test_tables_are_bounded(tables: Json) -> None:
    table = next(t for t in tables["pipelines"][0]["tables"] if t["name"] == "ingress.longest")
    table["max_size"] = 1 << 40
    assert refusal(tables).place.endswith(".max_size")


def test_file_and_depth(tables: Json, tmp_path: Path) -> None:
    assert "more than" in str(refusal(" " * (FILE_BYTES + 1), ProgramTooLargeError))
    file = tmp_path / "large.json"
    file.write_bytes(b" " * (FILE_BYTES + 1))
    with pytest.raises(ProgramTooLargeError, match=r"large\.json"):
        read_program(file)
    file.write_bytes(b"\xff{}")
    with pytest.raises(MalformedProgramError, match=r"large\.json: the program is not JSON"):
        read_program(file)
    assert "nested more than" in str(refusal('{"pipelines": ' + "[" * 100_000, ProgramTooLargeError))
    nested: Json = 1
    for _ in range(300):
        nested = [nested]
    assert refusal(tables | {"enums": nested}, ProgramTooLargeError).place.startswith("enums[0][0]")


def test_expressions_are_bounded(program_text: Callable[[str], str]) -> None:
    root = json.loads(program_text("wide"))
    add = next(action for action in root["actions"] if action["name"] == "ingress.add")
    value = add["primitives"][0]["parameters"][1]
    field = value["value"]["value"]["left"]["value"]["left"]
    for _ in range(5):
        field = {"type": "expression", "value": {"op": "*", "left": field, "right": field}}
    add["primitives"][0]["parameters"][1] = field
    assert "a value of more bits" in str(refusal(root, ProgramTooLargeError))
    for _ in range(70):
        field = {"type": "expression", "value": {"op": "~", "left": None, "right": field}}
    add["primitives"][0]["parameters"][1] = field
    assert "expressions nested deeper" in str(refusal(root, ProgramTooLargeError))


def test_branches_that_multiply(tables: Json) -> None:
    """Each jump lies inside the branches of the one before: written out, there are more than 2^100 statements."""
    zero = {"type": "hexstr", "value": "0x0"}
    jumps = [
        {"op": "_jump_if_zero", "parameters": [zero, {"type": "hexstr", "value": hex(number + 2)}]}
        for number in range(200)
    ]
    tables["actions"][0]["primitives"] = jumps
    assert refusal(tables, ProgramTooLargeError).place.startswith("actions[0].primitives[")


@pytest.mark.parametrize("op", ["~", "<<", "/"])
def test_code_is_made_in_time(program_text: Callable[[str], str], op: str) -> None:
    """Operators whose code names an operand twice: nested, it would double with every level."""
    program = load_program(program_text("wide"))
    header = next(header for header in program.headers.values() if not header.metadata)
    field = ir.FieldRef(header.name, header.fields[-1].name, header.fields[-1].width)
    value: ir.Expr = field
    for _ in range(60):
        inverted = ir.Binary("&", ir.Unary("~", value), ir.Const(5))
        value = inverted if op == "~" else ir.Binary(op, field, value)
    action = replace(program.actions[0], body=(ir.Assign(field, value),))
    hostile = replace(program, actions=(action, *program.actions[1:]))
    for emit in (emit_program, emit_c):
        try:
            emit(hostile)
        except ProgramTooLargeError as error:
            assert error.place


def test_a_hash_of_very_many_fields_is_python() -> None:
    """Found by the fuzzer: parentheses within each other, of which Python reads 200."""
    root = json.loads((ROOT / "tests/helpers/softswitch/programs/corner.json").read_text())
    inputs = root["calculations"][1]["input"]
    inputs[:] = [*inputs[:1] * 300, *inputs[1:]]
    machine = PythonMachine(load_program(json.dumps(root)), SplitMix(1), lambda: 0)
    machine.process(1, bytes(60))
