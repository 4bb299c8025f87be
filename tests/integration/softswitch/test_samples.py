# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""p4c's samples in both engines, and the programs of the tests against their sources."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from fuzz.samples import __main__ as samples
from fuzz.samples.programs import COMPILER
from helpers.softswitch.compile_programs import MANIFEST, PROGRAMS, compile_program, folder_of, names, source_hash

PASSES = """
packet 5 0100 0021 00 ee 00
expect 0 0100 f578 **21 00 ee 00 $
"""


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not on PATH")
def test_a_whole_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "p4c" / "testdata" / "p4_16_samples"
    folder.mkdir(parents=True)
    shutil.copy(PROGRAMS / "stacks.p4", folder / "stacks.p4")
    (folder / "stacks.stf").write_text(PASSES)
    (folder / "broken.p4").write_text("parser")
    words = [str(tmp_path / "p4c"), "--work", str(tmp_path / "work"), "--json", str(tmp_path / "found.json")]
    assert samples.main(words) == 0
    told = "1 programs: 1 load, 1 of them over P4Runtime; 1 packet tests: 1 pass in python"
    assert told in capsys.readouterr().out
    info = tmp_path / "work" / "stacks.p4info.txtpb"
    without_width = 'match_fields { id: 1 name: "f" match_type: EXACT }'
    info.write_text(f'{info.read_text()} tables {{ preamble {{ id: 1 name: "t" }} {without_width} }}')
    (folder / "stacks.stf").write_text(PASSES.replace("f578", "f579"))
    samples.main(words)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["compiled"] == 1 and found["passed"] == {}
    assert "stacks, python" in found["wrong"]
    assert found["served"] == [] and "InvalidArgumentError" in found["unserved"]["stacks"]
    assert samples.main([str(tmp_path), "--work", str(tmp_path)]) == 2


@pytest.mark.parametrize("name", names())
def test_source_hash(name: str) -> None:
    recorded = json.loads(MANIFEST.read_text())
    assert recorded[name] == source_hash(name), f"{name}.p4 changed: run compile_programs.py"


def test_the_hash_is_of_the_source() -> None:
    assert source_hash("cpu") == hashlib.sha256((PROGRAMS / "cpu.p4").read_bytes()).hexdigest()


@pytest.mark.p4c
@pytest.mark.parametrize("name", names())
def test_recompilation_is_byte_equal(name: str, tmp_path: Path) -> None:
    compile_program(name, tmp_path)
    for suffix in (".json", ".p4info.txtpb"):
        assert (tmp_path / f"{name}{suffix}").read_bytes() == (folder_of(name) / f"{name}{suffix}").read_bytes()
