# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads calculations and checksums."""

from __future__ import annotations

from typing import Any

from softswitch.program import ir
from softswitch.program.calculations import HASH_WIDTHS
from softswitch.program.load.expressions import ExprLoader, number, source_of, unsupported

Json = Any


def load_calculation(node: Json, expressions: ExprLoader) -> ir.Calculation:
    source = source_of(node)
    if node["algo"] not in HASH_WIDTHS:
        raise unsupported(f"hash algorithm {node['algo']!r}", source)
    chunks: list[ir.Chunk] = []
    for part in node["input"]:
        if part["type"] == "hexstr":
            chunks.append(ir.Chunk(ir.Const(number(part["value"])), int(part["bitwidth"])))
        elif part["type"] == "field":
            field = expressions.field(part["value"], source)
            chunks.append(ir.Chunk(field, field.width))
        elif part["type"] == "header":
            header = expressions.headers[part["value"]]
            chunks += [ir.Chunk(ir.FieldRef(header.name, f.name, f.width, f.signed), f.width) for f in header.fields]
        else:
            raise unsupported(f"{part['type']} in a checksum or hash", source)
    return ir.Calculation(node["name"], node["algo"], tuple(chunks), source)


def load_checksum(node: Json, expressions: ExprLoader, calculations: dict[str, ir.Calculation]) -> ir.Checksum:
    source = source_of(node)
    if node.get("type", "generic") != "generic" or node["calculation"] not in calculations:
        raise unsupported(f"checksum {node['name']!r} of type {node.get('type')!r}", source)
    condition = node.get("if_cond")
    return ir.Checksum(
        name=node["name"],
        target=expressions.field(node["target"], source),
        calculation=node["calculation"],
        condition=ir.Const(1) if condition is None else expressions.expr(condition, source),
        verify=bool(node.get("verify", True)),
        update=bool(node.get("update", True)),
    )
