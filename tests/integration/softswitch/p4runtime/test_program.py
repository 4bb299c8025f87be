# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The compiled program of these tests is what p4c makes of its source."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.p4runtime.client import PROGRAMS


@pytest.mark.p4c
def test_compiled_program_is_current(tmp_path: Path) -> None:
    shutil.copy(PROGRAMS / "tables.p4", tmp_path)
    command = ["p4c-bm2-ss", "--std", "p4-16", "-o", "tables.json", "--p4runtime-files", "tables.p4info.txtpb"]
    subprocess.run([*command, "tables.p4"], cwd=tmp_path, check=True, timeout=60)
    for name in ("tables.json", "tables.p4info.txtpb"):
        assert (tmp_path / name).read_bytes() == (PROGRAMS / name).read_bytes(), name
