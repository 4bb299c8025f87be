# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads calculations and checksums."""

from __future__ import annotations

from dataclasses import replace

from softswitch.program import ir
from softswitch.program.calculations import HASH_WIDTHS
from softswitch.program.limits import CALCULATION_BITS, WIDTH
from softswitch.program.load.expressions import ExprLoader
from softswitch.program.load.node import Node, declared_once, flag_of, shown, source_of, unsupported
from softswitch.program.load.references import Scope


def load_calculations(root: Node, expressions: ExprLoader) -> dict[str, ir.Calculation]:
    calculations: dict[str, ir.Calculation] = {}
    for node in root.section("calculations"):
        calculation = _calculation(node, expressions, node["name"].name())
        declared_once(node["name"], calculation.name, calculations)
        calculations[calculation.name] = calculation
    return calculations


def load_selectors(
    pipeline: Node, expressions: ExprLoader, calculations: dict[str, ir.Calculation], selectors: dict[str, str | None]
) -> None:
    """Puts the calculation of each action profile's selector to ``calculations``, and its name to ``selectors`` by the
    name of the profile. The latter is None where there is no selector, or one with a hash that the switch has not."""
    for node in pipeline.section("action_profiles"):
        name = node["name"].name()
        declared_once(node["name"], name, selectors)
        selector = node.get("selector")
        selectors[name] = None
        if selector is None or selector["algo"].name() not in HASH_WIDTHS:
            continue
        made = replace(_calculation(selector, expressions, f"{name}.$selector"), source=source_of(node))
        if made.payload:
            raise unsupported(f"a selector over the payload, of action profile {name!r}", made.source)
        declared_once(node["name"], made.name, calculations)
        selectors[name] = made.name
        calculations[made.name] = made


def _calculation(node: Node, expressions: ExprLoader, name: str) -> ir.Calculation:
    source = source_of(node)
    algorithm = node["algo"].choice(HASH_WIDTHS, "hash algorithm")
    parts = node["input"].items()
    chunks = tuple(chunk for part in parts for chunk in _chunks(part, expressions, source))
    payload = any(part["type"].value == "payload" for part in parts)
    if sum(chunk.width for chunk in chunks) > CALCULATION_BITS:
        raise node["input"].too_large("an input of more bits", CALCULATION_BITS)
    return ir.Calculation(name, algorithm, chunks, source, payload)


def _chunks(part: Node, expressions: ExprLoader, source: ir.Source) -> list[ir.Chunk]:
    kind = part["type"].value
    if kind == "hexstr":
        width = part["bitwidth"].integer(1, WIDTH)
        return [ir.Chunk(ir.Const(part["value"].hexadecimal(width)), width)]
    if kind == "payload":
        return []
    varbit = expressions.varbit(part, source) if kind == "field" else None
    if varbit is not None:
        owner = expressions.header(part["value"][0], source).name
        return [ir.Chunk(varbit.value, varbit.value.width, varbit.length, owner)]
    if kind == "field":
        field = expressions.field(part["value"], source)
        return [ir.Chunk(field, field.width)]
    if kind == "header":
        header = expressions.header(part["value"], source)
        chunks = [ir.Chunk(each, each.width) for each in expressions.fields_of(part["value"], source)]
        taken_apart = expressions.varbits.get(header.name)
        if taken_apart is not None:
            own = taken_apart.varbit
            chunks.append(ir.Chunk(own.value, own.value.width, own.length, header.name))
            rest = expressions.headers[taken_apart.rest].fields if taken_apart.rest else ()
            chunks += [ir.Chunk(ir.FieldRef(taken_apart.rest or "", f.name, f.width, f.signed), f.width) for f in rest]
        return chunks
    raise unsupported(f"an input of type {shown(kind)} in a checksum or hash", source)


def load_checksum(node: Node, expressions: ExprLoader, calculations: dict[str, ir.Calculation]) -> ir.Checksum:
    source = source_of(node)
    name = node["name"].name()
    kind = node.get("type")
    if kind is not None and kind.value != "generic":
        raise unsupported(f"checksum {name!r} of type {shown(kind.value)}", source)
    condition = node.get("if_cond")
    return ir.Checksum(
        name=name,
        target=expressions.field(node["target"], source),
        calculation=node["calculation"].choice(calculations, "calculation"),
        condition=ir.Const(1) if condition is None else expressions.expr(condition, Scope(source)),
        verify=flag_of(node, "verify", default=True),
        update=flag_of(node, "update", default=True),
    )
