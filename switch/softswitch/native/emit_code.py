# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Lines of C, with every intermediate value in a constant of its own.

A value is computed once per block, although p4c repeats subexpressions. Fields are members of the packet's state
(``p``); their values are remembered within a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from softswitch.native.emit_carrier import Carrier
from softswitch.program.emitted_text import comment_text
from softswitch.program.limits import Budget

INDENT = "  "


def comment(text: str) -> str:
    """A comment of one line, whatever ``text`` holds."""
    return f"// {comment_text(text)}"


class Code:
    """One function's body. ``budget``: what the whole program may take."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.lines: list[str] = []
        self._depth = 1
        self._count = 0
        self._known: dict[str, str] = {}
        self._members: dict[str, str] = {}

    def line(self, text: str) -> None:
        line = INDENT * self._depth + text
        self.budget.write(line)
        self.lines.append(line)

    def lines_of(self, *texts: str) -> None:
        """A line for each text that is not empty."""
        for text in texts:
            if text:
                self.line(text)

    def comment(self, text: str) -> None:
        self.line(comment(text))

    def name(self) -> str:
        """A fresh name."""
        self._count += 1
        return f"t{self._count}"

    def value(self, carrier: Carrier, text: str) -> str:
        """Name of a constant that holds ``text``, an expression of constants only."""
        return self._constant(carrier.name, text)

    def condition(self, text: str) -> str:
        return self._constant("bool", text)

    def _constant(self, type_name: str, text: str) -> str:
        key = f"{type_name} {text}"
        known = self._known.get(key)
        if known is None:
            known = self.name()
            self.line(f"const {type_name} {known} = {text};")
            self._known[key] = known
        return known

    # -- the packet's state ----------------------------------------------

    def read(self, member: str, carrier: Carrier) -> str:
        known = self._members.get(member)
        if known is None:
            known = self.name()
            self.line(f"const {carrier.name} {known} = p->{member};")
            self._members[member] = known
        return known

    def write(self, member: str, text: str) -> None:
        """Write a member. ``text`` is a constant or a literal."""
        if self._members.get(member) != text:
            self.line(f"p->{member} = {text};")
            self._members[member] = text

    def forget(self) -> None:
        """Members are read anew from here on."""
        self._members.clear()

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A block of C. Values computed inside are not known after it."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        known, members = dict(self._known), dict(self._members)
        yield
        self._known = known
        self._members = {member: text for member, text in members.items() if self._members.get(member) == text}
        self._depth -= 1
        self.line("}")
