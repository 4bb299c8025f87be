# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The compiled programs of these tests are what p4c makes of their sources."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.p4runtime.client import PROGRAMS


@pytest.mark.p4c
@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.json")))
def test_compiled_program_is_current(tmp_path: Path, name: str) -> None:
    for source in PROGRAMS.glob("*.p4"):
        shutil.copy(source, tmp_path)
    command = ["p4c-bm2-ss", "--std", "p4-16", "-o", f"{name}.json", "--p4runtime-files", f"{name}.p4info.txtpb"]
    subprocess.run([*command, f"{name}.p4"], cwd=tmp_path, check=True, timeout=60)
    for made in (f"{name}.json", f"{name}.p4info.txtpb"):
        assert (tmp_path / made).read_bytes() == (PROGRAMS / made).read_bytes(), made
