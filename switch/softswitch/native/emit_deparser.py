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
    if context.program.passes is not None:
        return _emit_apart(context)
    headers = _headers(context)
    code = context.code()
    code.line("const size_t rest = p->size - p->payload;")
    code.line("size_t length = rest;")
    _add_lengths(headers, context, code)
    code.line("uint8_t *out = ss_reserve(p->sink, length);")
    code.line("if (out == NULL) return;")
    _write_all(headers, context, code)
    if context.usage.truncates:
        code.line("if (length > p->limit) length = p->limit;")
    code.line("ss_commit(p->sink, port, length);")
    return ["static void deparse(struct packet *p, uint32_t port) {", *code.lines, "}", ""]


def _emit_apart(context: Context) -> list[str]:
    """``frame_length(p)`` and ``write_frame(p, out)`` as well: a frame may go to ingress again."""
    headers = _headers(context)
    size, write, send = context.code(), context.code(), context.code()
    size.line("size_t length = p->size - p->payload;")
    _add_lengths(headers, context, size)
    size.line("return length;")
    write.line("const size_t rest = p->size - p->payload;")
    _write_all(headers, context, write)
    send.line("size_t length = frame_length(p);")
    send.line("uint8_t *out = ss_reserve(p->sink, length);")
    send.line("if (out == NULL) return;")
    send.line("write_frame(p, out);")
    send.line("if (length > p->limit) length = p->limit;")
    send.line("ss_commit(p->sink, port, length);")
    return [
        *("static size_t frame_length(const struct packet *p) {", *size.lines, "}", ""),
        *("static void write_frame(struct packet *p, uint8_t *out) {", *write.lines, "}", ""),
        *("static void deparse(struct packet *p, uint32_t port) {", *send.lines, "}", ""),
    ]


def _headers(context: Context) -> list[ir.Header]:
    usage = context.usage
    order = [name for name in context.program.deparser if name in usage.extracted or name in usage.changed]
    return [context.program.headers[name] for name in order]


def _add_lengths(headers: list[ir.Header], context: Context, code: Code) -> None:
    for header in headers:
        varbit = context.program.varbits.get(header.name)
        more = "" if varbit is None else f" + (p->{_member(varbit.length, context)} >> 3)"
        code.line(f"if (p->{context.storage.valid[header.name]}) length += {header.size_bytes}{more};")


def _write_all(headers: list[ir.Header], context: Context, code: Code) -> None:
    for header in headers:
        with code.block(f"if (p->{context.storage.valid[header.name]})"):
            _write(header, context, code)
            code.line(f"out += {header.size_bytes};")
            varbit = context.program.varbits.get(header.name)
            if varbit is not None:
                _write_varbit(varbit, context, code)
    code.line("memcpy(out, p->frame + p->payload, rest);")


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
