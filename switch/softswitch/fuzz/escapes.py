# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whether text of a program got out of the comments and literals of generated code.

Hostile texts hold a marker between characters that no name has. Where such a text is code, the marker is a word of its
own outside comments and literals; where the text was made into a name, the marker is a part of a longer word.
"""

from __future__ import annotations

import ast
import re

MARKER = "ESCAPED"

# What a compiler of C does before it looks at comments: trigraphs, and lines that go on.
_TRIGRAPH = "??/"
_JOINED = re.compile(r"\\[ \t\v\f]*\n")
_LINE_ENDS = re.compile(r"\r\n|\r")
_C = re.compile(
    r"""(?P<skipped>//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<word>\w+)|(?P<other>.)""",
    re.DOTALL,
)


def escapes_in_c(source: str) -> list[int]:
    """Lines, from 0, on which the marker is a word of code. A text that does not end on its line counts."""
    text = _LINE_ENDS.sub("\n", source)
    text = _JOINED.sub("", text.replace(_TRIGRAPH, "\\"))
    found: list[int] = []
    line = 0
    for match in _C.finditer(text):
        opened = match["other"] in ('"', "'")
        if match["word"] == MARKER or opened or ((match["skipped"] or "").startswith("/*") and not _closed(match[0])):
            found.append(line)
        line += match[0].count("\n")
    return found


def _closed(comment: str) -> bool:
    return len(comment) >= 4 and comment.endswith("*/")


def escapes_in_python(source: str) -> list[int]:
    """Lines, from 1, on which the marker is a name. Line 0: the source is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return [0]
    return [
        getattr(node, "lineno", 0)
        for node in ast.walk(tree)
        if MARKER in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", ""))
    ]
