# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Fenced blocks and inline code of README and the pages, with the place they are printed at."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from helpers.paths import ROOT

_HEADING = re.compile(r"#+ (.*?)( \{#.*\})?$")
_INLINE = re.compile(r"`([^`\n]+)`")
# Also in a list or a quotation, whose mark stands before each line of the block.
_FENCE = re.compile(r"((?:> ?| )*)```(\w*)$")


@dataclass(frozen=True)
class Block:
    """``name`` is the page and the heading above it, with a number from the second block of a language on."""

    name: str
    language: str
    text: str
    path: Path
    line: int


def pages() -> list[Path]:
    """README, CONTRIBUTING, and every page of the site that is written by hand."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "examples" / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted(path for folder in ("tutorials", "explanation") for path in (ROOT / "docs" / folder).glob("*.md")),
    ]


def blocks(*languages: str) -> list[Block]:
    """All fenced blocks in these languages; "" for blocks without one."""
    return [block for page in pages() for block in blocks_of(page) if block.language in languages]


def blocks_of(page: Path) -> Iterator[Block]:
    """All fenced blocks of one page."""
    lines = page.read_text().splitlines()
    heading, seen = "", Counter[tuple[str, str]]()
    position = 0
    while position < len(lines):
        line = lines[position]
        if fence := _FENCE.match(line):
            mark, language = fence[1], fence[2]
            end = lines.index(f"{mark}```", position + 1)
            seen[heading, language] += 1
            number = seen[heading, language]
            name = f"{page.name}: {heading}" + (f" ({number})" if number > 1 else "")
            inside = [line.removeprefix(mark).removeprefix(mark.rstrip()) for line in lines[position + 1 : end]]
            yield Block(name, language, "\n".join(inside) + "\n", page, position + 2)
            position = end
        elif match := _HEADING.match(line):
            heading = match[1]
        position += 1


def inline_code() -> list[tuple[str, str]]:
    """(page, code) of every code span outside fenced blocks."""
    found = []
    for page in pages():
        prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for paragraph in prose.split("\n\n"):
            found += [(page.name, code) for code in _INLINE.findall(" ".join(paragraph.split()))]
    return found
