# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads meters, digests and value sets."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch.program import ir
from softswitch.program.limits import CELLS, OBJECTS
from softswitch.program.load.expressions import ExprLoader
from softswitch.program.load.node import Node, declared_once, flag_of, shown, source_of, unsupported
from softswitch.program.load.references import Scope

_BITS = 16
_RATES = 2


@dataclass
class Externs:
    """``set_sizes``: of value sets. ``targets``: where the colour of a table's direct meter goes. ``digest_request``:
    None until a digest was asked for. ``selectors``: by action profile, see
    :func:`softswitch.program.load.checksums.load_selectors`."""

    meters: dict[str, ir.Meter] = field(default_factory=dict)
    targets: dict[str, ir.FieldRef] = field(default_factory=dict)
    digests: dict[int, ir.Digest] = field(default_factory=dict)
    digest_request: ir.FieldRef | None = None
    set_sizes: dict[str, int] = field(default_factory=dict)
    value_sets: dict[str, ir.ValueSet] = field(default_factory=dict)
    selectors: dict[str, str | None] = field(default_factory=dict)


def load_externs(root: Node, expressions: ExprLoader) -> Externs:
    found = Externs()
    for node in root.section("meter_arrays"):
        _meter(node, expressions, found)
    for node in root.section("learn_lists"):
        number = node["id"].integer(1, OBJECTS)
        if number in found.digests:
            raise node["id"].wrong("is the id of two digests")
        scope = Scope(source_of(node))
        values = tuple(expressions.expr(part, scope) for part in node["elements"].items())
        found.digests[number] = ir.Digest(node["name"].name(), values)
    for node in root.section("parse_vsets"):
        name = node["name"].name()
        declared_once(node["name"], name, found.set_sizes)
        size = node.get("max_size")
        found.set_sizes[name] = OBJECTS if size is None else size.integer(0, CELLS)
    return found


def _meter(node: Node, expressions: ExprLoader, found: Externs) -> None:
    name, source = node["name"].name(), source_of(node)
    declared_once(node["name"], name, found.meters)
    if node["rate_count"].integer(0, OBJECTS) != _RATES:
        raise unsupported(f"meter {name!r} of other than {_RATES} rates", source)
    kind = node["type"].value
    if kind not in ("bytes", "packets"):
        raise unsupported(f"meter {name!r} of {shown(kind)}", source)
    size = node["size"].integer(0, (1 << 64) - 1)
    if flag_of(node, "is_direct", default=False):
        table = node["binding"].name()
        found.targets[table] = expressions.field(node["result_target"], source)
        found.meters[name] = ir.Meter(name, 0, kind == "bytes", table)
        return
    if size > CELLS >> 4:
        raise node["size"].too_large(f"{size} meters", CELLS >> 4)
    found.meters[name] = ir.Meter(name, size, kind == "bytes")


def request_digest(p: Node, scope: Scope, expressions: ExprLoader, externs: Externs) -> tuple[ir.Statement, ...]:
    """The digest leaves at the end of ingress; a later one of the same packet takes its place, as in bmv2."""
    number = expressions.expr(p[1], scope)
    if not isinstance(number, ir.Const):
        raise unsupported("a digest whose number is not constant", scope.source)
    if number.value not in externs.digests:
        raise p[1].wrong("is no digest's id")
    externs.digest_request = expressions.hidden.field("digest", _BITS)
    return (ir.Assign(externs.digest_request, number),)


def execute_meter(p: Node, scope: Scope, expressions: ExprLoader, externs: Externs) -> tuple[ir.Statement, ...]:
    name = p[0]["value"].choice(externs.meters, "meter")
    if externs.meters[name].table is not None:
        raise unsupported(f"direct meter {name!r} outside its table", scope.source)
    return (ir.ExecuteMeter(expressions.target(p[2], scope.source), name, expressions.expr(p[1], scope)),)
