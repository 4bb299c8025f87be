# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The compiled program is what p4c makes of its sources."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from helpers.p4_tools import build, tna
from helpers.paths import ROOT

PROGRAMS = [ROOT / build.PROGRAM, *(ROOT / "examples" / "p4").glob("*.p4")]
PROGRAMS = sorted(path.relative_to(ROOT) for path in PROGRAMS if " main;" in path.read_text())


@pytest.mark.p4c
def test_recompilation_is_byte_equal(tmp_path: Path) -> None:
    compiled_with = json.loads((ROOT / build.MANIFEST).read_text())["p4c"]
    version = build.compiler_version()
    if version != compiled_with:
        pytest.skip(f"compiled with p4c {compiled_with}, here is {version}")
    build.compile_program(build.PROGRAM, tmp_path / "json", tmp_path / "p4info.txtpb")
    assert (tmp_path / "json").read_bytes() == (ROOT / build.JSON).read_bytes()
    assert (tmp_path / "p4info.txtpb").read_bytes() == (ROOT / build.P4INFO).read_bytes()


@pytest.mark.p4c
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_p4c_warns_of_nothing(program: Path, tmp_path: Path) -> None:
    command = [build.COMPILER, "-I", "p4src", str(program), "-o", str(tmp_path / "json")]
    if '#include "aggregation.p4"' in (ROOT / program).read_text():
        command += ["--Wdisable=unused", "--Wdisable=removed"]  # of the library it needs a part
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stderr == ""


@pytest.mark.tofino
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_program_for_tofino_takes_what_its_report_says(tmp_path: Path) -> None:
    found = tna.compile_program(tmp_path)
    assert found["stages"]["used"] <= 12
    assert found == json.loads((ROOT / tna.REPORT).read_text())
