# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads a whole program.

A construct that the engines cannot run is refused here, with its name and P4 source line. The format is described in
p4lang/behavioral-model, docs/JSON_format.md.
"""

from __future__ import annotations

import json
from typing import Any

from softswitch.errors import UnsupportedProgramError
from softswitch.program import ir
from softswitch.program.load.actions import ActionLoader
from softswitch.program.load.checksums import load_calculation, load_checksum
from softswitch.program.load.expressions import ExprLoader, source_of, unsupported
from softswitch.program.load.parser import load_parser
from softswitch.program.load.pipeline import load_pipeline
from softswitch.program.load.storage import load_counter, load_errors, load_headers, load_register
from softswitch.program.standard import STANDARD
from softswitch.program.traverse import flatten

Json = Any

_REFUSED_SECTIONS = {
    "header_stacks": "header stack",
    "header_unions": "header union",
    "header_union_stacks": "header union stack",
    "parse_vsets": "parser value set",
    "meter_arrays": "meter",
    "learn_lists": "digest",
    "extern_instances": "extern instance",
}


def load_program(text: str) -> ir.Program:
    """Parse and check the JSON that p4c emits for bmv2.

    Raises UnsupportedProgramError for constructs outside the subset and for text that is not such a JSON.
    """
    try:
        root = json.loads(text)
    except json.JSONDecodeError as error:
        raise UnsupportedProgramError(f"the program is not JSON: {error}") from error
    if not isinstance(root, dict) or "pipelines" not in root:
        raise UnsupportedProgramError("the program is not a bmv2 JSON: it has no pipelines")
    try:
        return _program(root)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UnsupportedProgramError(f"the bmv2 JSON is malformed: {type(error).__name__} {error}") from error


def _program(root: Json) -> ir.Program:
    for section, what in _REFUSED_SECTIONS.items():
        for node in root.get(section, []):
            raise unsupported(f"{what} {node['name']!r}", source_of(node))
    headers = load_headers(root)
    if STANDARD not in headers:
        raise UnsupportedProgramError("the program has no standard_metadata: only v1model programs run here")
    expressions = ExprLoader(headers)
    registers = {node["name"]: load_register(node) for node in root.get("register_arrays", [])}
    counters = {node["name"]: load_counter(node) for node in root.get("counter_arrays", [])}
    calculations = {node["name"]: load_calculation(node, expressions) for node in root.get("calculations", [])}
    loader = ActionLoader(expressions, registers, counters, calculations)
    actions = {int(node["id"]): loader.action(node) for node in root["actions"]}
    pipelines = {node["name"]: load_pipeline(node, expressions, actions) for node in root["pipelines"]}
    _refuse_early_truncates(pipelines["ingress"], actions)
    return ir.Program(
        headers=headers,
        errors=load_errors(root),
        parser=load_parser(root["parsers"][0], expressions, loader),
        ingress=pipelines["ingress"],
        egress=pipelines["egress"],
        deparser=_deparser(root["deparsers"][0], headers),
        actions=tuple(actions[i] for i in sorted(actions)),
        registers=registers,
        counters=counters,
        calculations=calculations,
        checksums=tuple(load_checksum(node, expressions, calculations) for node in root.get("checksums", [])),
    )


def _refuse_early_truncates(ingress: ir.Pipeline, actions: dict[int, ir.Action]) -> None:
    """In bmv2 a truncate in ingress reaches a packet for one port, and not its replicas."""
    for node in ingress.nodes.values():
        for index in node.actions if isinstance(node, ir.Table) else ():
            if any(isinstance(statement, ir.Truncate) for statement in flatten(actions[index].body)):
                raise unsupported("a truncate in ingress", actions[index].source)


def _deparser(node: Json, headers: dict[str, ir.Header]) -> tuple[str, ...]:
    source = source_of(node)
    if node.get("primitives"):
        raise unsupported("a statement in the deparser", source_of(node["primitives"][0], source))
    for name in node["order"]:
        if name not in headers:
            raise unsupported(f"emit of {name!r}", source)
    return tuple(node["order"])
