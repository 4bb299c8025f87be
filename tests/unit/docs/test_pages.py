# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The files that pages name exist, numbers are those of the code, and sentences are short."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.docs.pages import inline_code, pages
from helpers.paths import ROOT
from sumwire.transport.steady import COLLECTED_PART
from sumwire.wire.packets import HEADER_BYTES
from sumwire_protocol import constants as p4
from sumwire_protocol.wireshark import table as wireshark

FOLDERS = (
    "common",
    "protocol",
    "p4src",
    "controller",
    "host",
    "switch",
    "native",
    "mininet",
    "tests",
    "docs",
    "examples",
    "packaging",
    "scripts",
)
# Names that a reader is to replace, and files that a recipe makes as its example.
PLACEHOLDERS = (
    "NAME",
    "control/paused.p4",
    "control/or32.p4",
    "examples/or32.py",
    "train.py",
    "rounding.py",
    "why.py",
    "send.py",
)
SENTENCE_WORDS_MAX = 40
PARTS = {1: "all", 2: "half", 3: "a third", 4: "a quarter"}
_FILE = re.compile(r"[\w./-]+\.(?:py|p4|c|h)")
_DOTTED = re.compile(r"(?:sumwire|sumwire_\w+|softswitch|nativelib)(?:\.\w+)+")
_FENCED = re.compile(r"^```.*?^```$|^    .*?$", re.MULTILINE | re.DOTALL)
_PARAGRAPHS = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.|>) )")
_SENTENCES = re.compile(r"(?<=[.!?:;])\s+(?=[A-Za-z`*0-9(\"])")
# In README and tutorials, which are read from the beginning to the end, a colon ends no sentence.
_WHOLE_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Za-z`*0-9(\"\[])")


@pytest.fixture(scope="module")
def files() -> set[str]:
    found = [
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".p4", ".c", ".h")
    ]
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_files_on_pages_exist(files: set[str]) -> None:
    """A file may be named by the end of its path."""
    named = {(page, word) for page, code in inline_code() for word in code.split() if _FILE.fullmatch(word)}
    assert len(named) > 50
    missing = {
        (page, word)
        for page, word in named
        if not any(f"/{path}".endswith(f"/{word}") for path in files)
        and not any(placeholder in word for placeholder in PLACEHOLDERS)
    }
    assert missing == set()


def resolved(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        with contextlib.suppress(AttributeError):
            functools.reduce(getattr, parts[length:], found)
            return True
    return False


def of_the_dissector() -> set[str]:
    """Names in Wireshark: fields of the header, and what the dissector adds."""
    added = re.findall(r'"(sumwire\.[\w.]+)"', wireshark.DISSECTOR.read_text())
    return {*added, *(f"sumwire.{name}" for name, _ in p4.SUMWIRE_FIELDS), "sumwire.values"}


def test_dotted_names_on_pages_exist() -> None:
    named = {(page, code) for page, code in inline_code() if _DOTTED.fullmatch(code)}
    assert len(named) > 15
    assert {(page, name) for page, name in named if not resolved(name)} - {
        ("see.md", name) for name in of_the_dissector()
    } == set()


def is_read_through(page: Path) -> bool:
    return page.name in ("README.md", "index.md", "start.md") or page.parent.name == "tutorials"


def sentences(page: Path, ends: re.Pattern[str] = _SENTENCES) -> list[str]:
    """Of running text and lists, without tables, blocks and headings."""
    prose = _FENCED.sub("\n\n", re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL))
    found = []
    for paragraph in _PARAGRAPHS.split(prose):
        lines = [
            line for line in paragraph.lstrip("> ").splitlines() if not line.lstrip("> ").startswith(("|", "#", "!"))
        ]
        found += ends.split(" ".join(" ".join(lines).split()))
    return found


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("aggregator.md", f"An answer has {HEADER_BYTES} bytes, and is never longer than the question"),
        ("host.md", f"waits until {PARTS[COLLECTED_PART]} of its open chunks is answered"),
    ],
)
def test_pages_have_the_numbers_of_the_code(page: str, text: str) -> None:
    assert text in " ".join((ROOT / "docs" / page).read_text().split())


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    ends = _WHOLE_SENTENCES if is_read_through(page) else _SENTENCES
    assert [text for text in sentences(page, ends) if len(text.split()) > SENTENCE_WORDS_MAX] == []
