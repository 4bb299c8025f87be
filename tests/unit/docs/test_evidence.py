# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every fenced block of README and the pages is run by a test, or the table says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.docs import pages
from helpers.docs.evidence import EVIDENCE, Key, Shown
from helpers.docs.pages import Block
from helpers.paths import ROOT

REASON_WORDS_MIN = 4
PRINTED = {(block.name, block.language): block for page in pages.pages() for block in pages.blocks_of(page)}
RUN = {key: test for key, test in EVIDENCE.items() if not isinstance(test, Shown)}


def test_every_block_has_an_entry() -> None:
    assert len(PRINTED) > 80
    missing = [f"{block.path.name}:{block.line}: {key}" for key, block in PRINTED.items() if key not in EVIDENCE]
    assert missing == [], "put them into tests/helpers/docs/evidence.py"


def test_every_entry_has_a_block() -> None:
    assert EVIDENCE.keys() - PRINTED.keys() == set()


def looks_at(test: str, block: Block) -> bool:
    """Whether the test is there, and its file or one that it names in tests/helpers/docs names the page."""
    file, _, name = test.partition("::")
    path = Path(ROOT, file)
    if not path.is_file() or re.search(rf"^(async )?def {name}\(", path.read_text(), re.MULTILINE) is None:
        return False
    text = path.read_text()
    helpers = [ROOT / "tests" / "helpers" / "docs" / f"{one}.py" for one in ("python_blocks",) if one in text]
    named = (block.path.name, "pages.blocks(", "pages.blocks_of(")
    return any(word in one for one in (text, *(one.read_text() for one in helpers)) for word in named)


@pytest.mark.parametrize("key", RUN, ids=" ".join)
def test_what_runs_a_block_reads_its_page(key: Key) -> None:
    assert looks_at(RUN[key], PRINTED[key])


def test_python_blocks_are_run() -> None:
    assert [key for key in PRINTED if key[1] == "python" and key not in RUN] == []


def test_a_reason_is_a_sentence() -> None:
    reasons = [entry.why for entry in EVIDENCE.values() if isinstance(entry, Shown)]
    assert [why for why in reasons if len(why.split()) < REASON_WORDS_MIN] == []


def test_a_test_that_is_not_there_is_found() -> None:
    block = next(iter(PRINTED.values()))
    here = "tests/unit/docs/test_evidence.py"
    assert not looks_at(f"{here}::test_of_nothing", block)
    assert not looks_at("tests/unit/docs/test_nothing.py::test_of_nothing", block)
