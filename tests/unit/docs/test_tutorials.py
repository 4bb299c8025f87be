# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What of the tutorials can be looked at without running them: excerpts, patches, files, pictures."""

from __future__ import annotations

import ast
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from helpers.docs import pages, tutorials
from helpers.paths import ROOT

PAGES = sorted(tutorials.FOLDER.glob("*.md"))
_HUNK = re.compile(r"^@@ .*? @@\n((?:(?!@@|---).*\n)+)", re.MULTILINE)


def hunks(text: str) -> list[tuple[str, str]]:
    """Of a patch: (path, the lines that must be in the file before)."""
    found = []
    for one in re.split(r"^--- a/", text, flags=re.MULTILINE)[1:]:
        path = one.partition("\n")[0]
        for lines in _HUNK.findall(one):
            before = [line[1:] for line in lines.splitlines() if not line.startswith("+")]
            found.append((path, "\n".join(before)))
    return found


def test_patches_of_the_op_apply() -> None:
    patches = [block.text for block in tutorials.blocks_of("op.md") if block.language == "diff"]
    parts = [part for patch in patches for part in hunks(patch)]
    assert len(parts) > 7
    assert [(path, before) for path, before in parts if before not in (ROOT / path).read_text()] == []


def test_an_op_touches_six_files() -> None:
    """And an example."""
    patched = re.findall(r"^\+\+\+ b/(\S+)", (tutorials.FOLDER / "op.md").read_text(), re.MULTILINE)
    written = {path for path in tutorials.files_of("op.md") if not path.startswith("examples/")}
    assert len({*patched, *written}) <= 6 <= len(patched)


def test_the_op_is_not_in_the_program_yet() -> None:
    """Its number must be free."""
    (number,) = re.findall(r"^\+const bit<8> OP_OR32 = (\d+);", (tutorials.FOLDER / "op.md").read_text(), re.MULTILINE)
    taken = re.findall(r"const bit<8> OP_\w+ = (\d+);", (ROOT / "p4src" / "include" / "types.p4").read_text())
    assert len(taken) > 5 and number == str(max(map(int, taken)) + 1)


def test_the_codec_is_the_examples() -> None:
    """Its pieces are the whole file, from the first import on."""
    pieces = [block.text.strip() for block in tutorials.blocks_of("codec.md") if block.language == "py"]
    example = (ROOT / "examples" / "custom_codec.py").read_text()
    code = example[example.index("from __future__") :]
    assert [piece for piece in pieces if piece not in code] == []
    assert sum(len(piece.split()) for piece in pieces) == len(code.split())


@pytest.mark.parametrize(("page", "name"), [("tutorials/p4.md", "sum.p4"), ("p4-library.md", "vectors.p4")])
def test_excerpts_of_a_program_are_the_examples(page: str, name: str) -> None:
    excerpts = [block.text for block in pages.blocks_of(ROOT / "docs" / page) if block.language == "p4"]
    program = (ROOT / "examples" / "p4" / name).read_text()
    assert len(excerpts) > 1 and [excerpt for excerpt in excerpts if excerpt not in program] == []


def test_every_program_is_on_the_page() -> None:
    named = set(re.findall(r"`(\w+\.p4)`", (tutorials.FOLDER / "p4.md").read_text()))
    assert named == {path.name for path in (ROOT / "examples" / "p4").glob("*.p4")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_of_a_tutorial_is_python(page: Path) -> None:
    files = tutorials.files_of(page.name)
    for path, text in files.items():
        if path.endswith(".py"):
            ast.parse(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_tutorial_has_a_picture(page: Path) -> None:
    assert re.search(r"^!\[[^]]{30,}\]\(\.\./images/[\w-]+\.svg\)$", page.read_text(), re.MULTILINE)


def pictures() -> set[Path]:
    texts = [page.read_text() for page in (*PAGES, *(ROOT / "docs" / "explanation").glob("*.md"))]
    return {
        ROOT / "docs" / "images" / name for text in texts for name in re.findall(r"\(\.\./images/([\w.-]+)\)", text)
    }


@pytest.mark.parametrize("picture", sorted(pictures()), ids=lambda path: path.name)
def test_pictures_are_readable_in_the_dark(picture: Path) -> None:
    text = picture.read_text()
    ET.fromstring(text)
    assert "prefers-color-scheme: dark" in text
