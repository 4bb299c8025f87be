# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads headers, error codes, registers and counters."""

from __future__ import annotations

from typing import Any

from softswitch.program import ir
from softswitch.program.load.expressions import source_of, unsupported

Json = Any

MAX_WIDTH = 2048
CORE_ERRORS = ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout"]


def load_headers(root: Json) -> dict[str, ir.Header]:
    types = {node["name"]: node for node in root["header_types"]}
    headers: dict[str, ir.Header] = {}
    for node in root["headers"]:
        fields = []
        for name, width, *signed in types[node["header_type"]]["fields"]:
            where = f"{node['name']}.{name}"
            if width == "*":
                raise unsupported(f"variable-length field {where}", source_of(types[node["header_type"]]))
            if not 1 <= int(width) <= MAX_WIDTH:
                raise unsupported(f"field {where} of {width} bits (1..{MAX_WIDTH})", source_of(node))
            fields.append(ir.Field(name, int(width), bool(signed and signed[0])))
        header = ir.Header(node["name"], tuple(fields), bool(node["metadata"]))
        if not header.metadata and header.width % 8:
            raise unsupported(f"header {header.name!r} of {header.width} bits (no whole bytes)", source_of(node))
        headers[header.name] = header
    return headers


def load_errors(root: Json) -> dict[str, int]:
    errors = {name: int(value) for name, value in root.get("errors", [])}
    for name in CORE_ERRORS:
        if name not in errors:
            errors[name] = max(errors.values(), default=-1) + 1
    return errors


def load_register(node: Json) -> ir.Register:
    width = int(node["bitwidth"])
    if width > MAX_WIDTH:
        raise unsupported(f"register {node['name']!r} of {width} bits (1..{MAX_WIDTH})", source_of(node))
    return ir.Register(node["name"], int(node["size"]), width, bool(node.get("signed", False)))


def load_counter(node: Json) -> ir.CounterArray:
    table = node.get("binding") if node.get("is_direct") else None
    return ir.CounterArray(node["name"], int(node.get("size", 0) or 0), table)
