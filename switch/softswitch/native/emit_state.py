# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The packet's state, ``struct packet``, and the wide integer types that a program uses."""

from __future__ import annotations

import re

from softswitch.native.definite_assignment import unset_fields
from softswitch.native.emit_carrier import Kind
from softswitch.native.emit_code import INDENT
from softswitch.native.emit_context import Context
from softswitch.program.standard import PACKET_LENGTH


def emit_types(text: str) -> list[str]:
    """Declarations of the wide integer types that occur in ``text``."""
    between = {int(number) for number in re.findall(r"\bss_v(\d+)_(?:of_)?bits\b", text)}
    integers = {int(number) for number in re.findall(r"\bss_b(\d+)", text)} | between
    return [
        *(f"SS_BITINT({number})" for number in sorted(integers)),
        *(f"SS_VECTOR_BITS({number})" for number in sorted(between)),
    ]


def _members(context: Context) -> tuple[list[str], list[str]]:
    """Declarations of members that start at 0, and of members that are written before they are read."""
    storage = context.storage
    wide = [key for key in storage.fields if storage.carrier(key).kind is Kind.VECTOR]
    general = context.program.passes is not None
    unset = frozenset() if general else unset_fields(context.program, context.usage, wide)
    lines = ["uint64_t exited;"]
    lines += [f"uint8_t {name};" for name in storage.valid.values()]
    lines += [f"int64_t {name};" for name in storage.positions.values()]
    if context.track_length:
        lines.append(f"uint64_t {PACKET_LENGTH};")
    if context.usage.truncates or general:
        lines.append("size_t limit;  // bytes that may leave; set before egress")
    declared = {key: f"{storage.carrier(key).name} {name};" for key, name in storage.fields.items()}
    lines += [line for key, line in declared.items() if key not in unset]
    return lines, [line for key, line in declared.items() if key in unset]


def emit_state(context: Context) -> list[str]:
    """Declaration of ``struct packet``; its members before ``machine`` start at 0."""
    zeroed, unset = _members(context)
    passes = context.program.passes is not None
    return [
        "struct packet {",
        *(INDENT + line for line in zeroed),
        "  struct ss_machine *machine;  // so far all starts at 0",
        "  const uint8_t *frame;",
        "  size_t size;",
        "  size_t payload;  // where in the frame what was not parsed starts",
        "  uint64_t now;",
        "  struct ss_sink *sink;",
        *(("  struct passes *passes;", "  uint32_t port;  // where the frame came in") if passes else ()),
        *(INDENT + line for line in unset),
        "};",
        "",
    ]
