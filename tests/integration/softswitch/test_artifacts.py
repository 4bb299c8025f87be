# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The compiled test programs are those of the P4 sources beside them.

``make``-free way to renew them, from the repository's root:
``python tests/helpers/softswitch/compile_programs.py``.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from helpers.softswitch.compile_programs import MANIFEST, PROGRAMS, compile_program, names, source_hash


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
        assert (tmp_path / f"{name}{suffix}").read_bytes() == (PROGRAMS / f"{name}{suffix}").read_bytes()
