# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a file or a text as JSON, and reads checked values, with their places, out of the JSON.

The loader reads every value through a node, which checks it. Errors name the place, the value, the rule and the cure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commonlib.untrusted import InputTooLongError, UntrustedInputError, bounded_text

from softswitch.errors import MalformedProgramError, ProgramTooLargeError, UnsupportedProgramError
from softswitch.program import ir
from softswitch.program.limits import CONSTANT_BITS, FILE_BYTES, JSON_DEPTH, NAME_LENGTH, OBJECTS, TEXT_LENGTH

Json = Any

_NAME = re.compile(rf"[A-Za-z0-9_.$:|@()\[\]-]{{1,{NAME_LENGTH}}}")
_NAME_RULE = f"is not a name: 1 to {NAME_LENGTH} letters, digits and _ . $ : | @ ( ) [ ] -"
_HEXADECIMAL = re.compile(rf"-?(0[xX])?[0-9a-fA-F]{{1,{CONSTANT_BITS // 4}}}")
_CURE = "compile the P4 program again with p4c"
_SHOWN = 60
_LINES = 2**31 - 1
_FRAGMENT = 200  # characters that are shown of a line of P4


def shown(value: Json) -> str:
    """Return ``value`` on one line of printable ASCII, cut to a limit."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 4 * _SHOWN:
        return f"a number of {value.bit_length()} bits"
    text = ascii(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@dataclass(frozen=True, slots=True)
class JsonNode:
    """One value of JSON. ``key`` is its member or index in ``parent``."""

    value: Json
    parent: JsonNode | None = None
    key: str | int = ""

    @property
    def place(self) -> str:
        """The value's place, such as ``pipelines[0].tables[3].name``."""
        parts: list[str] = []
        node: JsonNode | None = self
        while node is not None and node.parent is not None:
            if isinstance(node.key, int):
                parts.append(f"[{node.key}]")
            else:
                parts.append(f".{node.key}" if _NAME.fullmatch(node.key) else f"[{shown(node.key)}]")
            node = node.parent
        return "".join(reversed(parts)).removeprefix(".") or "the program"

    # -- refusals --------------------------------------------------------

    def wrong(self, rule: str) -> MalformedProgramError:
        """Return the error for a value that breaks ``rule``, which follows the value in the text."""
        return MalformedProgramError(f"{shown(self.value)} {rule}; {_CURE}", self.place)

    def too_large(self, what: str, most: int) -> ProgramTooLargeError:
        return ProgramTooLargeError(f"{what}, the soft switch runs at most {most}; make it smaller", self.place)

    # -- parts -----------------------------------------------------------

    def __getitem__(self, key: str | int) -> JsonNode:
        """A member of an object, or an item of a list. Raises MalformedProgramError."""
        value = self.value
        if isinstance(key, str) and isinstance(value, dict) and key in value:
            return JsonNode(value[key], self, key)
        if isinstance(key, int) and isinstance(value, list) and key < len(value):
            return JsonNode(value[key], self, key)
        raise self.wrong(f"has no member {key!r}" if isinstance(key, str) else f"has no item {key}")

    def get(self, key: str) -> JsonNode | None:
        """Return a member, or None if the member is absent or null."""
        if not isinstance(self.value, dict):
            raise self.wrong("is not an object")
        return None if self.value.get(key) is None else JsonNode(self.value[key], self, key)

    def items(self, most: int = OBJECTS) -> list[JsonNode]:
        if not isinstance(self.value, list):
            raise self.wrong("is not a list")
        if len(self.value) > most:
            raise self.too_large(f"{len(self.value)} items", most)
        return [JsonNode(value, self, index) for index, value in enumerate(self.value)]

    def section(self, key: str, most: int = OBJECTS) -> list[JsonNode]:
        """Return the items of a list that may be absent."""
        member = self.get(key)
        return [] if member is None else member.items(most)

    def members(self, most: int = OBJECTS) -> Iterator[JsonNode]:
        if not isinstance(self.value, dict):
            raise self.wrong("is not an object")
        if len(self.value) > most:
            raise self.too_large(f"{len(self.value)} members", most)
        return (JsonNode(value, self, key) for key, value in self.value.items())

    # -- values ----------------------------------------------------------

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value.isprintable():
            raise self.wrong("is not a printable text")
        if len(self.value) > TEXT_LENGTH:
            raise self.too_large(f"a text of {len(self.value)} characters", TEXT_LENGTH)
        return self.value

    def name(self) -> str:
        if not isinstance(self.value, str) or not _NAME.fullmatch(self.value):
            raise self.wrong(_NAME_RULE)
        return self.value

    def integer(self, low: int, high: int) -> int:
        """Return a number in [low, high]; true and 1.0 are not accepted."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.wrong("is not a whole number")
        if not low <= self.value <= high:
            raise self.wrong(f"is not in {low}..{high}")
        return self.value

    def flag(self, default: bool | None = None) -> bool:
        """Return true or false, or ``default``, if given, for null."""
        if self.value is None and default is not None:
            return default
        if not isinstance(self.value, bool):
            raise self.wrong("is neither true nor false")
        return self.value

    def hexadecimal(self, width: int | None = None) -> int:
        """Read a text of hexadecimal digits, with an optional 0x. Without ``width`` it may have a minus."""
        if not isinstance(self.value, str) or not _HEXADECIMAL.fullmatch(self.value):
            raise self.wrong(f"is not a hexadecimal number of at most {CONSTANT_BITS} bits")
        number = int(self.value, 16)
        if width is not None and not 0 <= number < 1 << width:
            raise self.wrong(f"does not fit in {width} bits")
        return number

    def choice(self, known: Container[str], what: str) -> str:
        """Read a name that the program declares. Raises UnsupportedProgramError for another."""
        if not isinstance(self.value, str) or self.value not in known:
            raise unsupported(f"{what} {shown(self.value)}", source_of(self))
        return self.value


def flag_of(node: JsonNode, key: str, default: bool) -> bool:
    """Return a member that is true, false or absent."""
    member = node.get(key)
    return default if member is None else member.flag()


def source_of(node: JsonNode, outer: ir.Source | None = None) -> ir.Source:
    """Return the P4 position in ``node``'s source_info, else that of the enclosing construct, else the place in the
    JSON."""
    info = node.get("source_info") if isinstance(node.value, dict) else None
    if info is not None and info.value:
        file, line = info.get("filename"), info.get("line")
        if file is not None and line is not None:
            text = info.value.get("source_fragment")
            fragment = text[:_FRAGMENT] if isinstance(text, str) and text.isprintable() else ""
            return ir.Source(file.text(), line.integer(0, _LINES), "" if line.value else node.place, fragment)
    if outer is not None:
        return outer
    return ir.Source(json=node.place)


def unsupported(construct: str, source: ir.Source) -> UnsupportedProgramError:
    return UnsupportedProgramError(f"{construct} is not supported by the soft switch", str(source))


def declared_once(node: JsonNode, name: str, known: Mapping[str, Any]) -> None:
    """Raise MalformedProgramError if ``name``, which ``node`` declares, was declared before."""
    if name in known:
        raise node.wrong(f"declares {shown(name)} a second time")


_BMV2_CURE = "compile the P4 program with p4c --target bmv2, and name the JSON that it writes"


def read_program(path: Path) -> str:
    """Return the text of a program's file. Raises MalformedProgramError and ProgramTooLargeError."""
    try:
        return bounded_text(path, FILE_BYTES)
    except InputTooLongError as error:
        raise _too_long(str(path)) from error
    except UntrustedInputError as error:
        raise MalformedProgramError(f"the program is not JSON: it {error}; {_BMV2_CURE}", str(path)) from error
    except OSError as error:
        told = f"{error.strerror}: the program must be a file to read; {_BMV2_CURE}"
        raise MalformedProgramError(told, str(path)) from error


def parse_program(text: str) -> JsonNode:
    """Parse a program's text. Raises MalformedProgramError and ProgramTooLargeError."""
    if len(text) > FILE_BYTES:
        raise _too_long("the program")
    if not text.strip():
        raise MalformedProgramError(f"the program is empty; {_BMV2_CURE}")
    try:
        root = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise MalformedProgramError(f"the program is not JSON: {error.msg}; {_BMV2_CURE}", place) from error
    except ValueError as error:  # a number of thousands of digits
        raise MalformedProgramError(f"the program is not JSON: {error}; {_BMV2_CURE}") from error
    except RecursionError as error:
        raise _too_deep("the program") from error
    if not isinstance(root, dict) or "pipelines" not in root:
        raise MalformedProgramError(f"the program is not a bmv2 JSON: it has no pipelines; {_BMV2_CURE}")
    node = JsonNode(root)
    if _is_deep(root):
        raise _too_deep(_deepest(node).place)
    return node


def _too_long(place: str) -> ProgramTooLargeError:
    return ProgramTooLargeError(f"the program has more than {FILE_BYTES} bytes; split it", place)


def _too_deep(place: str) -> ProgramTooLargeError:
    return ProgramTooLargeError(f"the JSON is nested more than {JSON_DEPTH} deep; split the expression in P4", place)


def _is_deep(root: Json) -> bool:
    level = [root]
    for _ in range(JSON_DEPTH):
        level = [child for value in level for child in _children(value)]
        if not level:
            return False
    return True


def _children(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _deepest(root: JsonNode) -> JsonNode:
    """A node at the limit of depth."""
    level = [root]
    for _ in range(JSON_DEPTH):
        below: list[JsonNode] = []
        for node in level:
            if isinstance(node.value, dict):
                below += [JsonNode(value, node, key) for key, value in node.value.items()]
            elif isinstance(node.value, list):
                below += [JsonNode(value, node, index) for index, value in enumerate(node.value)]
        level = below
    return level[0]
