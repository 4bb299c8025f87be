# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads constants and the Sumwire header's layout from the P4 sources and writes them as Python.

It understands what `sizes.p4`, `types.p4` and `headers.p4` consist of: `const TYPE NAME = EXPR;` with
numbers, earlier names and `+ - * /`; `typedef bit<N> name;`; `header NAME { TYPE field; ... }`.
"""

from __future__ import annotations

import ast
import operator
import re
from pathlib import Path

SOURCES = ("sizes.p4", "types.p4", "headers.p4")
TARGET = "protocol/sumwire_protocol/constants.py"

_CONST = re.compile(r"^const\s+(?:int|bit<\d+>|\w+)\s+(\w+)\s*=\s*([^;]+);", re.MULTILINE)
_TYPEDEF = re.compile(r"^typedef\s+bit<(\d+)>\s+(\w+)\s*;", re.MULTILINE)
_HEADER = re.compile(r"^header\s+sumwire_h\s*\{(.*?)\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(bit<\d+>|\w+)\s+(\w+)\s*;", re.MULTILINE)
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
    for source in SOURCES:
        for name, text in _CONST.findall((include / source).read_text()):
            found[name] = _evaluate(ast.parse(text.strip(), mode="eval").body, found)
    return found


def sumwire_fields(include: Path) -> list[tuple[str, int]]:
    """(field, width in bits) of header sumwire_h, in wire order."""
    text = "".join((include / source).read_text() for source in SOURCES)
    widths = {name: int(bits) for bits, name in _TYPEDEF.findall(text)}
    header = _HEADER.search(text)
    if header is None:
        raise P4SourceError("headers.p4 has no `header sumwire_h`")
    fields = []
    for kind, name in _FIELD.findall(header.group(1)):
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
    lines += ["", "# (field, width in bits) of the Sumwire header, in wire order", "SUMWIRE_FIELDS: Final = ("]
    lines += [f'    ("{name}", {width}),' for name, width in sumwire_fields(include)]
    return "\n".join([*lines, ")", ""])
