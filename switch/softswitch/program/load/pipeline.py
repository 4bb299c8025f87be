# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads pipelines: tables, constant entries, conditionals."""

from __future__ import annotations

from typing import Any

from softswitch.program import ir
from softswitch.program.flow import successors
from softswitch.program.graph import CycleError, topological
from softswitch.program.load.expressions import ExprLoader, number, source_of, unsupported

Json = Any

_STRENGTH = [ir.MatchKind.EXACT, ir.MatchKind.LPM, ir.MatchKind.TERNARY, ir.MatchKind.RANGE]


def load_pipeline(node: Json, expressions: ExprLoader, actions: dict[int, ir.Action]) -> ir.Pipeline:
    if node.get("action_profiles"):
        profile = node["action_profiles"][0]
        raise unsupported(f"action profile {profile['name']!r}", source_of(profile, source_of(node)))
    if node.get("action_calls"):
        raise unsupported("an action call outside a table", source_of(node["action_calls"][0], source_of(node)))
    nodes: dict[str, ir.Node] = {}
    for table in node["tables"]:
        nodes[table["name"]] = _table(table, expressions, actions)
    for conditional in node["conditionals"]:
        source = source_of(conditional, source_of(node))
        condition = expressions.expr(conditional["expression"], source)
        nodes[conditional["name"]] = ir.Conditional(
            conditional["name"], condition, conditional["true_next"], conditional["false_next"], source
        )
    pipeline = ir.Pipeline(node["name"], node["init_table"], nodes)
    try:
        topological(pipeline.start, lambda name: successors(nodes[name]))
    except CycleError as error:
        raise unsupported("a loop in a control", nodes[error.args[0]].source) from error
    return pipeline


def _table(node: Json, expressions: ExprLoader, actions: dict[int, ir.Action]) -> ir.Table:
    source = source_of(node)
    name = node["name"]
    if node.get("type", "simple") != "simple":
        raise unsupported(f"table {name!r} of type {node['type']!r} (action profile or selector)", source)
    if node.get("direct_meters"):
        raise unsupported(f"direct meter {node['direct_meters']!r}", source)
    if node.get("support_timeout"):
        raise unsupported(f"idle timeout on table {name!r}", source)
    keys = tuple(_key(key, expressions, source) for key in node["key"])
    kind = max((key.kind for key in keys), key=_STRENGTH.index, default=ir.MatchKind.EXACT)
    ids = tuple(int(action) for action in node["action_ids"])
    default = node.get("default_entry")
    if default is None:
        raise unsupported(f"table {name!r} without default action", source)
    following = node["next_tables"]
    by_hit = "__HIT__" in following or "__MISS__" in following
    base = node.get("base_default_next")
    entries = node.get("entries")
    return ir.Table(
        name=name,
        kind=kind,
        keys=keys,
        size=int(node["max_size"]),
        actions=ids,
        default_action=int(default["action_id"]),
        default_args=tuple(number(text) for text in default.get("action_data", [])),
        default_const=bool(default.get("action_const", False)),
        entries=None if entries is None else tuple(_entry(entry, keys, source) for entry in entries),
        next={} if by_hit else {i: following.get(actions[i].name, base) for i in ids},
        by_hit=by_hit,
        on_hit=following.get("__HIT__", base),
        on_miss=following.get("__MISS__", base),
        has_counter=bool(node.get("with_counters", False)),
        source=source,
    )


def _key(node: Json, expressions: ExprLoader, source: ir.Source) -> ir.Key:
    kind = node["match_type"]
    if kind == "valid":
        return ir.Key(node.get("name", node["target"]), ir.MatchKind.EXACT, ir.Valid(node["target"]), 1)
    kinds = {"exact": "exact", "lpm": "lpm", "ternary": "ternary", "optional": "ternary", "range": "range"}
    if kind not in kinds:
        raise unsupported(f"match kind {kind!r}", source)
    target = expressions.readable(node["target"], source)
    width = target.width if isinstance(target, ir.FieldRef) else 1
    if isinstance(target, ir.FieldRef) and target.signed:
        raise unsupported(f"signed table key {target.header}.{target.field}", source)
    mask = node.get("mask")
    return ir.Key(
        node.get("name", ".".join(node["target"])),
        ir.MatchKind(kinds[kind]),
        target,
        width,
        None if mask is None else number(mask),
    )


def _entry(node: Json, keys: tuple[ir.Key, ...], source: ir.Source) -> ir.ConstEntry:
    patterns = tuple(_pattern(match, key) for match, key in zip(node["match_key"], keys, strict=True))
    call = node["action_entry"]
    args = tuple(number(text) for text in call["action_data"])
    return ir.ConstEntry(patterns, int(call["action_id"]), args, int(node.get("priority", 0)))


def _pattern(node: Json, key: ir.Key) -> ir.Pattern:
    full = (1 << key.width) - 1
    match key.kind:
        case ir.MatchKind.EXACT:
            value = node["key"]
            return ir.Pattern(int(value) if isinstance(value, bool) else number(value), full)
        case ir.MatchKind.LPM:
            length = int(node["prefix_length"])
            mask = full ^ ((1 << (key.width - length)) - 1)
            return ir.Pattern(number(node["key"]) & mask, mask, length)
        case ir.MatchKind.RANGE:
            return ir.Pattern(number(node["start"]), number(node["end"]))
        case ir.MatchKind.TERNARY:
            mask = number(node["mask"]) if "mask" in node else full
            return ir.Pattern(number(node["key"]) & mask, mask)
