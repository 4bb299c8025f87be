# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""p4c's packet tests (STF): one statement a line, ``#`` starts a comment.

``packet PORT HEX`` sends, ``expect PORT HEX`` waits for what leaves, with ``*`` for any digit and ``$`` for the frame's
end; ``add TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...)`` and ``setdefault TABLE ACTION(...)`` write tables.
Other statements are commands of bmv2's command line (``mirroring_add SESSION PORT``), kept as words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


class StfError(ValueError):
    """A line that is no statement."""


@dataclass(frozen=True)
class Send:
    port: int
    frame: bytes


@dataclass(frozen=True)
class Expect:
    """``pattern``: hexadecimal digits and ``*``; None for any frame. ``whole``: nothing may follow it.

    ``port`` None: no frame at all leaves.
    """

    port: int | None
    pattern: str | None = None
    whole: bool = False

    def fits(self, frame: bytes) -> bool:
        if self.pattern is None:
            return True
        text = frame.hex().upper()
        if len(text) < len(self.pattern) or (self.whole and len(text) != len(self.pattern)):
            return False
        return all(wanted in ("*", digit) for wanted, digit in zip(self.pattern, text, strict=False))


@dataclass(frozen=True)
class Call:
    name: str
    args: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Add:
    table: str
    priority: int | None
    keys: tuple[tuple[str, str], ...]
    call: Call


@dataclass(frozen=True)
class SetDefault:
    table: str
    call: Call


@dataclass(frozen=True)
class Command:
    words: tuple[str, ...]


Statement = Send | Expect | Add | SetDefault | Command

_NAME = r"\"[^\"]+\"|[A-Za-z_$][\w$.\[\]]*"
_ADD = re.compile(
    rf"(?P<table>{_NAME})\s+(?:(?P<priority>\d+)\s+)?(?P<keys>.*?)\s*(?P<action>{_NAME})\s*\((?P<args>.*)\)"
)
_DEFAULT = re.compile(rf"(?P<table>{_NAME})\s+(?P<action>{_NAME})\s*\((?P<args>.*)\)")
_KEY = re.compile(rf"({_NAME})\s*:\s*([0-9A-Za-z*]+(?:/\d+)?)\s*")
_ARGUMENT = re.compile(r"\s*([\w$.]+)\s*:\s*([0-9A-Za-z]+)\s*")


def parse(text: str) -> list[Statement]:
    """Raises StfError, which names the line."""
    statements: list[Statement] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split(None, 1)
        if words:
            try:
                statements += _statement(words[0].lower(), words[1].strip() if words[1:] else "")
            except ValueError as error:
                raise StfError(f"line {number}: {line.strip()!r}: {error}") from error
    return statements


def _statement(kind: str, rest: str) -> Iterator[Statement]:
    if kind == "packet":
        port, data = _port_and_data(rest)
        yield Send(port, bytes.fromhex(data))
    elif kind == "expect":
        port, data = _port_and_data(rest)
        whole = data.endswith("$")
        yield Expect(port, data.rstrip("$").upper() or None, whole)
    elif kind == "no_packet":
        yield Expect(None)
    elif kind == "add":
        found = _matched(_ADD, rest.split("=", maxsplit=1)[0].strip())
        keys = tuple((_plain(name), value) for name, value in _all(_KEY, found["keys"]))
        priority = None if found["priority"] is None else int(found["priority"])
        yield Add(_plain(found["table"]), priority, keys, _call(found))
    elif kind == "setdefault":
        found = _matched(_DEFAULT, rest)
        yield SetDefault(_plain(found["table"]), _call(found))
    elif kind != "wait":
        yield Command((kind, *rest.split()))


def _port_and_data(rest: str) -> tuple[int, str]:
    port, _, data = rest.partition(" ")
    return int(port), "".join(data.split())


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError("is no statement")
    return found


def _all(pattern: re.Pattern[str], text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise ValueError(f"{text[at:]!r} is no NAME:VALUE")
        found.append((match[1], match[2]))
        at = match.end()
    return found


def _call(found: re.Match[str]) -> Call:
    args = [_all(_ARGUMENT, part)[0] for part in found["args"].split(",") if part.strip()]
    return Call(_plain(found["action"]), tuple(args))


def _plain(name: str) -> str:
    return name.strip('"')


def number(text: str) -> int:
    """A number of STF: decimal, or with 0x, 0b or 0o."""
    return int(text, 0) if text[:2].lower() in ("0x", "0b", "0o") else int(text)
