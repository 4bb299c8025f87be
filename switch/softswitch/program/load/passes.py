# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads clones, resubmits and recirculations: a request is an assignment to a hidden field."""

from __future__ import annotations

from softswitch.program import ir
from softswitch.program.limits import OBJECTS, SESSIONS
from softswitch.program.load.expressions import ExprLoader
from softswitch.program.load.node import Node, shown, source_of, unsupported
from softswitch.program.load.references import Scope

_BITS = 16
Statements = tuple[ir.Statement, ...]


class PassLoader:
    """Translates the primitives. ``passes`` is None until one of them was translated, or a truncate in ingress."""

    def __init__(self, root: Node, expressions: ExprLoader) -> None:
        self._expressions = expressions
        self._lists: dict[int, tuple[ir.FieldRef, ...]] = {}
        for node in root.section("field_lists"):
            number = node["id"].integer(0, OBJECTS)
            if number in self._lists:
                raise node["id"].wrong("is the id of two field lists")
            self._lists[number] = self._fields(node)
        self.passes: ir.Passes | None = None

    def _fields(self, node: Node) -> tuple[ir.FieldRef, ...]:
        source = source_of(node)
        fields: list[ir.FieldRef] = []
        for part in node["elements"].items():
            match part["type"].value:
                case "field":
                    fields.append(self._expressions.field(part["value"], source))
                case "header":
                    fields += self._expressions.fields_of(part["value"], source)
                case "hexstr":
                    pass  # a constant is kept by nobody
                case other:
                    raise unsupported(f"a field list with a {shown(other)}", source)
        return tuple(dict.fromkeys(fields))

    def need(self) -> ir.Passes:
        """The request fields, which from now on the program has."""
        if self.passes is None:
            names = ("clone", "clone list", "resubmit", "recirculate")
            clone, number, resubmit, recirculate = (self._expressions.hidden.field(name, _BITS) for name in names)
            self.passes = ir.Passes(clone, number, resubmit, recirculate, self._lists)
        return self.passes

    def clone(self, p: Node, scope: Scope) -> Statements:
        passes = self.need()
        session = self._expressions.expr(p[0], scope)
        kept = ir.Binary("&", session, ir.Const(SESSIONS - 1))
        request = ir.Assign(passes.clone, ir.Binary("|", kept, ir.Const(ir.CLONE_REQUESTED)))
        return request, ir.Assign(passes.clone_list, ir.Const(self._list(p[1], scope)))

    def resubmit(self, p: Node, scope: Scope) -> Statements:
        return (ir.Assign(self.need().resubmit, ir.Const(self._list(p[0], scope))),)

    def recirculate(self, p: Node, scope: Scope) -> Statements:
        return (ir.Assign(self.need().recirculate, ir.Const(self._list(p[0], scope))),)

    def _list(self, node: Node, scope: Scope) -> int:
        number = self._expressions.expr(node, scope)
        if not isinstance(number, ir.Const):
            raise unsupported("a field list whose number is not constant", scope.source)
        if number.value not in self._lists:
            raise node.wrong("is no field list's id")
        return number.value
