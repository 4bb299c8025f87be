# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every line of docs/security.md names tests, and the tests are there; those of verify-trust's attacks too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.paths import ROOT
from sumwire_lab.verify.security import ATTACKS

PAGE = ROOT / "docs" / "security.md"
UNKEPT = "## What is not kept out"
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[str]:
    """The rows of the tables with tests, without their heads."""
    kept = PAGE.read_text().partition(UNKEPT)[0]
    lines = [line for line in kept.splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith(("| tries to |", "| file |"))]


def exists(file: str, name: str) -> bool:
    path = Path(ROOT, file)
    return path.is_file() and re.search(rf"^(async )?def {name}\(", path.read_text(), re.MULTILINE) is not None


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip()[:40])
def test_every_line_names_tests_that_exist(row: str) -> None:
    named = _TEST.findall(row.rsplit("|", 2)[1])
    assert named, "no test"
    assert [one for one in named if not exists(*one)] == []


def test_the_page_has_rows() -> None:
    assert len(rows()) > 20


@pytest.mark.parametrize("test", sorted({test for tests in ATTACKS.values() for test in tests}))
def test_tests_of_attacks_exist(test: str) -> None:
    file, _, name = test.partition("::")
    assert exists(file, name) if name else Path(ROOT, file).is_file()
