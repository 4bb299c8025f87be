# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Lines of Python with indentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from softswitch.errors import ProgramTooLargeError
from softswitch.program.emitted_text import comment_text
from softswitch.program.limits import Budget
from softswitch.python.common_subexpressions import eliminate_common_subexpressions


def bare(text: str) -> str:
    """``text`` without outer parentheses that enclose all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


MAX_DEPTH = 90  # blocks inside each other; Python takes a hundred


class Writer:
    """Collects source lines. ``budget``: what the whole program may take."""

    def __init__(self, budget: Budget) -> None:
        self.lines: list[str] = []
        self._budget = budget
        self._depth = 0

    def line(self, text: str) -> None:
        line = "    " * self._depth + text
        self._budget.write(line)
        self.lines.append(line)

    def extend(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

    def comment(self, text: str) -> None:
        """Write a comment of one line, whatever ``text`` holds."""
        self.line(f"# {comment_text(text)}")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """``head`` ends in a colon; an empty body becomes ``pass``."""
        self.line(head)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ProgramTooLargeError(
                f"branches nested too deeply for Python, more than {MAX_DEPTH}; use the native engine"
            )
        before = len(self.lines)
        yield
        if all(line.lstrip().startswith("#") for line in self.lines[before:]):
            self.line("pass")
        self._depth -= 1

    def zero(self, names: Iterable[str], value: str = "0") -> None:
        """One chained assignment; nothing for no names."""
        chain = " = ".join(names)
        if chain:
            self.line(f"{chain} = {value}")

    def text(self) -> str:
        return "\n".join(eliminate_common_subexpressions(self.lines)) + "\n"
