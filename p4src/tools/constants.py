# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads constants and the headers' layouts from the P4 sources and writes them as Python.

It understands what `sizes.p4`, `codes.p4`, `types.p4`, `headers.p4` and `hosts.p4` consist of: `const TYPE NAME =
EXPR;` with numbers, earlier names and `+ - * /`; `typedef bit<N> name;` and `typedef bit<(NAME)> name;`; `header NAME {
TYPE field; ... }`; `struct headers_t { NAME_h name; ... }`. A comment behind a code says what the code means.
"""

from __future__ import annotations

import ast
import json
import operator
import re
import textwrap
from pathlib import Path

SOURCES = ("sizes.p4", "codes.p4", "types.p4", "headers.p4", "hosts.p4")
TARGET = "protocol/sumwire_protocol/constants.py"

_CONST = re.compile(r"^const\s+(?:int|bit<\d+>|\w+)\s+(\w+)\s*=\s*([^;]+);", re.MULTILINE)
_TYPEDEF = re.compile(r"^typedef\s+bit<(\d+|\(\w+\))>\s+(\w+)\s*;", re.MULTILINE)
_HEADER = re.compile(r"((?:^//[^\n]*\n)*)^header\s+(\w+)\s*\{(.*?)\}", re.MULTILINE | re.DOTALL)
_STRUCT = re.compile(r"^struct\s+headers_t\s*\{(.*?)\}", re.MULTILINE | re.DOTALL)
_MEANING = re.compile(r"^const\s+[\w<>]+\s+(\w+)\s*=\s*[^;]+;[ ]*//[ ]*(\S.*?)\s*$", re.MULTILINE)
# Codes of the packet whose comments are for whoever looks at packets.
_CODES = ("KIND_", "FLAG_", "REJECT_")
_HEADERS_TYPE = "HEADERS: Final[tuple[tuple[str, tuple[tuple[str, int], ...]], ...]] = ("
# A header whose comment begins so is the program's alone.
_NOT_ON_WIRE = "// Not on the wire"
_FIELD = re.compile(r"(?:^|;)\s*(bit<\d+>|\w+)\s+(\w+)\s*(?=;)", re.MULTILINE)
_BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv}


class P4SourceError(Exception):
    """The sources contain a constant or a header that this reader does not understand."""


def _evaluate(node: ast.expr, known: dict[str, int]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return int(_BINARY[type(node.op)](_evaluate(node.left, known), _evaluate(node.right, known)))
    raise P4SourceError(f"cannot evaluate {ast.unparse(node)!r}: want numbers, earlier constants and + - * /")


def constants(include: Path) -> dict[str, int]:
    """All constants, in order of definition."""
    found: dict[str, int] = {}
    for name, text in _CONST.findall(_text(include)):
        found[name] = _evaluate(ast.parse(text.strip(), mode="eval").body, found)
    return found


def meanings(include: Path) -> dict[str, str]:
    """What the comments behind kinds, flags and reject reasons say, by name."""
    found = _MEANING.findall(_text(include))
    return {name: text for name, text in found if name.startswith(_CODES)}


def headers(include: Path) -> list[tuple[str, list[tuple[str, int]]]]:
    """The headers on the wire in wire order, each with its (field, width in bits)."""
    text, known = _text(include), constants(include)
    widths = {name: _evaluate(ast.parse(bits, mode="eval").body, known) for bits, name in _TYPEDEF.findall(text)}
    types = {name: (comment, _fields(body, widths)) for comment, name, body in _HEADER.findall(text)}
    struct = _STRUCT.search(text)
    if struct is None:
        raise P4SourceError("headers.p4 has no `struct headers_t`")
    found = []
    for kind, name in _FIELD.findall(struct.group(1)):
        if kind not in types:
            raise P4SourceError(f"headers.p4 has no `header {kind}`, which headers_t has as {name}")
        comment, fields = types[kind]
        if not comment.startswith(_NOT_ON_WIRE):
            found.append((name, fields))
    return found


def _text(include: Path) -> str:
    return "".join((include / source).read_text() for source in SOURCES)


def _fields(body: str, widths: dict[str, int]) -> list[tuple[str, int]]:
    fields = []
    for kind, name in _FIELD.findall(body):
        literal = re.fullmatch(r"bit<(\d+)>", kind)
        fields.append((name, int(literal.group(1)) if literal else widths[kind]))
    return fields


def render(include: Path) -> str:
    """The generated module's text."""
    lines = [
        "# SPDX-FileCopyrightText: 2026 The Sumwire authors",
        "# SPDX-License-Identifier: Apache-2.0",
        '"""Constants of the P4 program. Generated from p4src/include by `make p4`; do not edit."""',
        "",
        "from typing import Final",
        "",
    ]
    lines += [f"{name}: Final = {value}" for name, value in constants(include).items()]
    lines += [
        "",
        "# (header, its fields with their widths in bits) of all headers on the wire, in wire order",
        _HEADERS_TYPE,
    ]
    for header, fields in headers(include):
        lines += [f'    ("{header}", (', *_wrapped(fields), "    )),"]
    lines += [")", "", "# Of the Sumwire header", 'SUMWIRE_FIELDS: Final = dict(HEADERS)["sumwire"]']
    lines += ["", "# What kinds, flags and reject reasons mean", "MEANINGS: Final = {"]
    lines += [f'    "{name}": {json.dumps(text)},' for name, text in meanings(include).items()]
    return "\n".join([*lines, "}", ""])


def _wrapped(fields: list[tuple[str, int]]) -> list[str]:
    """The items of a tuple, as many to a line as fit; none is broken."""
    items = " ".join(f'("{name}",\xa0{width}),' for name, width in fields)
    wrapped = textwrap.wrap(items, 110, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return [line.replace("\xa0", " ") for line in wrapped]
