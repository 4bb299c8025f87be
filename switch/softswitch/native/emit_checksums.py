# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The checksums that the architecture verifies before ingress and updates after egress."""

from __future__ import annotations

from softswitch.native.emit_bounds import binary
from softswitch.native.emit_context import Context
from softswitch.native.emit_expr import ExprEmitter
from softswitch.native.emit_hash import hash_value
from softswitch.native.emit_stmt import StatementEmitter
from softswitch.program import ir
from softswitch.program.standard import STANDARD


def emit_verify(context: Context) -> list[str]:
    """Lines of C: ``verify_checksums(p)`` sets checksum_error if a checksum is wrong."""
    code = context.code()
    expressions = ExprEmitter(context.storage, code)
    error = context.storage.fields.get((STANDARD, "checksum_error"))
    for checksum in context.program.checksums:
        if not checksum.verify or error is None:
            continue
        target = checksum.target
        code.comment(f"{target.header}.{target.field}")
        condition = ir.Binary("and", ir.Valid(target.header), checksum.condition)
        with code.block(f"if ({expressions.boolean(condition)})"):
            value = hash_value(context.program.calculations[checksum.calculation], context, code, expressions)
            different = expressions.boolean(binary("!=", value, target))
            with code.block(f"if ({different})"):
                code.write(error, "1ull")
    return ["static void verify_checksums(struct packet *p) {", *code.lines, "}", ""]


def emit_update(context: Context) -> list[str]:
    """Lines of C: ``update_checksums(p)`` writes the checksums."""
    code = context.code()
    expressions = ExprEmitter(context.storage, code)
    statements = StatementEmitter(context, code, expressions, "update of checksums")
    for checksum in context.program.checksums:
        if not checksum.update:
            continue
        code.comment(f"{checksum.target.header}.{checksum.target.field}")
        with code.block(f"if ({expressions.boolean(checksum.condition)})"):
            value = hash_value(context.program.calculations[checksum.calculation], context, code, expressions)
            statements.store(checksum.target, value)
    return ["static void update_checksums(struct packet *p) {", *code.lines, "}", ""]
