# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Digests: what ingress asked the control plane to learn."""

from __future__ import annotations

from softswitch.native.emit_carrier import carrier
from softswitch.native.emit_context import Context
from softswitch.native.emit_expr import ExprEmitter
from softswitch.native.emit_stmt import StatementEmitter


def emit_learn(context: Context) -> list[str]:
    """Lines of C: ``learn(p)`` sends the digest that was asked for. None for a program without digests."""
    request = context.program.digest_request
    if request is None:
        return []
    code = context.code()
    statements = StatementEmitter(context, code, ExprEmitter(context.storage, code), "digests")
    asked = code.read(context.storage.fields[request.header, request.field], carrier(request.width))
    for number, digest in context.program.digests.items():
        with code.block(f"if ({asked} == {number})"):
            statements.log(digest.name, digest.values, is_digest=True)
    return ["static void learn(struct packet *p) {", *code.lines, "}", ""]
