# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The deparser: headers to bytes, written directly into the frame that leaves."""

from __future__ import annotations

from softswitch.native.emit_bytes import write_header
from softswitch.native.emit_carrier import carrier
from softswitch.native.emit_code import Code
from softswitch.native.emit_context import Context
from softswitch.native.emit_expr import ExprEmitter
from softswitch.native.limbs import limbs
from softswitch.program import ir


def emit_deparser(context: Context) -> list[str]:
    """Lines of C: ``deparse(p, port)`` sends the packet to ``port``."""
    usage, storage = context.usage, context.storage
    order = [name for name in context.program.deparser if name in usage.extracted or name in usage.changed]
    headers = [context.program.headers[name] for name in order]
    code = context.code()
    code.line("const size_t rest = p->size - p->payload;")
    code.line("size_t length = rest;")
    for header in headers:
        varbit = context.program.varbits.get(header.name)
        more = "" if varbit is None else f" + (p->{_member(varbit.length, context)} >> 3)"
        code.line(f"if (p->{storage.valid[header.name]}) length += {header.size_bytes}{more};")
    code.line("uint8_t *out = ss_reserve(p->sink, length);")
    code.line("if (out == NULL) return;")
    for header in headers:
        with code.block(f"if (p->{storage.valid[header.name]})"):
            _write(header, context, code)
            code.line(f"out += {header.size_bytes};")
            varbit = context.program.varbits.get(header.name)
            if varbit is not None:
                _write_varbit(varbit, context, code)
    code.line("memcpy(out, p->frame + p->payload, rest);")
    if context.usage.truncates:
        code.line("if (length > p->limit) length = p->limit;")
    code.line("ss_commit(p->sink, port, length);")
    return ["static void deparse(struct packet *p, uint32_t port) {", *code.lines, "}", ""]


def _member(field: ir.FieldRef, context: Context) -> str:
    return context.storage.fields[field.header, field.field]


def _write_varbit(varbit: ir.Varbit, context: Context, code: Code) -> None:
    expressions, width = ExprEmitter(context.storage, code), varbit.value.width
    text = code.read(_member(varbit.value, context), carrier(width))
    array = code.name()
    code.line(f"uint64_t {array}[{limbs(width)}];")
    expressions.save(array, text, width)
    bits = f"(uint32_t)p->{_member(varbit.length, context)}"
    code.line(f"memset(out, 0, {bits} >> 3);")
    code.line(f"ss_put_bits(out, 0, {bits}, {array});")
    code.line(f"out += {bits} >> 3;")


def _write(header: ir.Header, context: Context, code: Code) -> None:
    """Copy an unchanged header from the frame that came in; pack a changed one from its fields."""
    position = context.storage.positions.get(header.name)
    kept = f"memcpy(out, p->frame + p->{position}, {header.size_bytes});"
    if header.name not in context.usage.changed:
        code.line(kept)
    elif position is None:
        _pack(header, context, code)
    else:
        code.line(f"if (p->{position} >= 0) {kept}")
        with code.block("else"):
            _pack(header, context, code)


def _pack(header: ir.Header, context: Context, code: Code) -> None:
    members = {member.name: context.storage.fields[header.name, member.name] for member in header.fields}
    write_header(header, members, "out", code, ExprEmitter(context.storage, code))
