# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads a whole program.

A construct that the engines cannot run is refused here, with its name and P4 source line; a value that breaks a rule of
the format, or a limit, with its place in the JSON. The format is described in p4lang/behavioral-model,
docs/JSON_format.md.
"""

from __future__ import annotations

import functools

from softswitch.errors import MalformedProgramError
from softswitch.program import ir
from softswitch.program.limits import ENTRY_BYTES, PACKET_BYTES, TABLE_BYTES, TABLE_STATEMENTS
from softswitch.program.load.actions import ActionLoader, PassLoader, load_externs
from softswitch.program.load.expressions import ExprLoader
from softswitch.program.load.node import JsonNode, parse_program, source_of, unsupported
from softswitch.program.load.parser import load_calculations, load_checksum, load_parser, load_selectors
from softswitch.program.load.pipeline import load_pipeline
from softswitch.program.load.storage import (
    check_memory,
    load_aggregates,
    load_counters,
    load_errors,
    load_headers,
    load_registers,
)
from softswitch.program.traverse import flatten

_REFUSED_SECTIONS = {
    "extern_instances": "extern instance",
}


@functools.lru_cache(maxsize=2)
def load_program(text: str) -> ir.Program:
    """Parse and check the JSON that p4c emits for bmv2. Several switches of a process share a program.

    Raises UnsupportedProgramError for constructs outside the subset, MalformedProgramError for what is no such JSON,
    and ProgramTooLargeError.
    """
    root = parse_program(text)
    for section, what in _REFUSED_SECTIONS.items():
        for node in root.section(section):
            raise unsupported(f"{what} {node['name'].name()!r}", source_of(node))
    declared = load_headers(root)
    aggregates = load_aggregates(root, declared.headers, declared.hidden)
    expressions = ExprLoader(declared.headers, aggregates, declared.varbits, declared.hidden)
    registers, counters = load_registers(root), load_counters(root)
    check_memory(root, registers, counters)
    calculations = load_calculations(root, expressions)
    passes = PassLoader(root, expressions)
    externs = load_externs(root, expressions)
    loader = ActionLoader(
        expressions,
        registers=registers,
        counters=counters,
        calculations=calculations,
        passes=passes,
        externs=externs,
    )
    actions = loader.actions(root)
    for node in _pipelines(root).values():
        load_selectors(node, expressions, calculations, externs.selectors)
    pipelines = {name: load_pipeline(node, expressions, actions, externs) for name, node in _pipelines(root).items()}
    _check_tables(root, pipelines, actions)
    if _truncates(pipelines["ingress"], actions):
        passes.need()
    parser = load_parser(root["parsers"][0], expressions, loader, externs)
    deparser = _deparser(root["deparsers"][0], expressions)
    checksums = tuple(load_checksum(node, expressions, calculations) for node in root.section("checksums"))
    return ir.Program(
        headers=declared.headers | declared.hidden.headers(),
        errors=load_errors(root),
        parser=parser,
        ingress=pipelines["ingress"],
        egress=pipelines["egress"],
        deparser=deparser,
        actions=tuple(actions[i] for i in sorted(actions)),
        registers=registers,
        counters=counters,
        calculations=calculations,
        checksums=checksums,
        passes=passes.passes,
        value_sets=externs.value_sets,
        meters=externs.meters,
        digests=externs.digests,
        digest_request=externs.digest_request,
        varbits={name: varbit.varbit for name, varbit in declared.varbits.items()},
    )


def _pipelines(root: JsonNode) -> dict[str, JsonNode]:
    found = {node["name"].name(): node for node in root["pipelines"].items()}
    if len(found) != len(root["pipelines"].value) or set(found) != {"ingress", "egress"}:
        raise MalformedProgramError(
            "v1model has one pipeline 'ingress' and one 'egress'; compile the P4 program for v1model", "pipelines"
        )
    return found


def _check_tables(root: JsonNode, pipelines: dict[str, ir.Pipeline], actions: dict[int, ir.Action]) -> None:
    """What tables of both pipelines have to share: names, memory, statements."""
    lengths = {index: 1 + sum(1 for _ in flatten(action.body)) for index, action in actions.items()}
    names: set[str] = set()
    taken = statements = 0
    for part in root["pipelines"].items():
        nodes = pipelines[part["name"].name()].nodes
        for node in part["tables"].items():
            table = nodes[node["name"].name()]
            assert isinstance(table, ir.Table)
            if table.name in names:
                raise node["name"].wrong("is a table of both pipelines")
            names.add(table.name)
            statements += sum(lengths[index] for index in table.actions)
            if statements > TABLE_STATEMENTS:
                raise node["actions"].too_large("more statements that tables can run", TABLE_STATEMENTS)
            taken += table.size * _entry_bytes(table, actions) if table.keys else 0
            if taken > TABLE_BYTES:
                raise node["max_size"].too_large(f"tables of {taken} bytes up to here", TABLE_BYTES)


def _entry_bytes(table: ir.Table, actions: dict[int, ir.Action]) -> int:
    """What an entry can take: key and mask, and action data."""
    data = max((sum(each.width for each in actions[index].parameters) for index in table.actions), default=0)
    return ENTRY_BYTES + (2 * sum(key.width for key in table.keys) + data) // 8


def _truncates(ingress: ir.Pipeline, actions: dict[int, ir.Action]) -> bool:
    indices = {index for node in ingress.nodes.values() if isinstance(node, ir.Table) for index in node.actions}
    return any(isinstance(each, ir.Truncate) for index in indices for each in flatten(actions[index].body))


def _deparser(node: JsonNode, expressions: ExprLoader) -> tuple[str, ...]:
    source = source_of(node)
    for statement in node.section("primitives"):
        raise unsupported("a statement in the deparser", source_of(statement, source))
    names: list[str] = []
    for part in node["order"].items():
        whole = expressions.aggregates.all_of(part.value) if isinstance(part.value, str) else []
        names += whole if len(whole) > 1 else [expressions.header(part, source).name]
    size_bytes = sum(expressions.size_bytes(name) for name in names)
    if size_bytes > PACKET_BYTES:
        raise node["order"].too_large("more bytes of headers", PACKET_BYTES)
    varbits = expressions.varbits
    return tuple(each for name in names for each in (name, name in varbits and varbits[name].rest) if each)
