# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Translates operations on headers into the statements that engines support.

A header with a varbit field is two headers and two hidden fields; a header of a union makes its siblings invalid; a
statement about an element of a stack at a computed index is a chain of ifs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from softswitch.program import ir
from softswitch.program.limits import IF_DEPTH
from softswitch.program.load.expressions import ExprLoader
from softswitch.program.load.node import JsonNode, unsupported
from softswitch.program.load.references import Choice, Scope
from softswitch.program.load.storage import Stack, Union, UnionStack

Statements = tuple[ir.Statement, ...]


class Lowering:
    def __init__(self, expressions: ExprLoader) -> None:
        self._expressions = expressions
        self._siblings = expressions.aggregates.siblings

    # -- one header ------------------------------------------------------

    def set_valid(self, header: str) -> Statements:
        varbit = self._expressions.varbits.get(header)
        if varbit is None:
            return (ir.SetValid(header), *self.invalid_siblings(header))
        cleared = (ir.Assign(varbit.varbit.value, ir.Const(0)), ir.Assign(varbit.varbit.length, ir.Const(0)))
        rest = (ir.SetValid(varbit.rest),) if varbit.rest else ()
        was_invalid = ir.Unary("not", ir.Unary("d2b", ir.Valid(header)))
        return (ir.If(was_invalid, cleared), ir.SetValid(header), *rest, *self.invalid_siblings(header))

    def set_invalid(self, header: str, *, counted: bool = True) -> Statements:
        varbit = self._expressions.varbits.get(header)
        rest = (ir.SetInvalid(varbit.rest, counted),) if varbit is not None and varbit.rest else ()
        return (ir.SetInvalid(header, counted), *rest)

    def invalid_siblings(self, header: str) -> Statements:
        """Return the statements that make the other headers of a union invalid when this one becomes valid."""
        return tuple(
            statement
            for other in self._siblings.get(header, ())
            for statement in self.set_invalid(other, counted=False)
        )

    def copy(self, target: str, source: str, place: ir.Source) -> Statements:
        headers, varbits = self._expressions.headers, self._expressions.varbits
        ours, theirs = varbits.get(target), varbits.get(source)
        same = headers[target].fields == headers[source].fields and (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            same = same and ours.varbit.value.width == theirs.varbit.value.width
            same = same and bool(ours.rest) == bool(theirs.rest)
        if not same:
            raise unsupported(f"a copy from {source!r} to {target!r}, a header of another type", place)
        if target == source:
            return ()
        statements: list[ir.Statement] = [ir.AssignHeader(target, source)]
        if ours is not None and theirs is not None:
            statements += self.copy_varbit(ours.varbit, theirs.varbit)
            if ours.rest and theirs.rest:
                statements.append(ir.AssignHeader(ours.rest, theirs.rest))
        siblings = self.invalid_siblings(target)
        if siblings:
            statements.append(ir.If(ir.Unary("d2b", ir.Valid(target)), siblings))
        return tuple(statements)

    def copy_metadata(self, target: str, source: str, place: ir.Source) -> Statements:
        """Copy metadata, which is always valid."""
        headers, varbits = self._expressions.headers, self._expressions.varbits
        if target in varbits or source in varbits or headers[target].fields != headers[source].fields:
            raise unsupported(f"a copy from {source!r} to {target!r}, a header of another type", place)
        fields = [
            (
                ir.FieldRef(target, each.name, each.width, each.signed),
                ir.FieldRef(source, each.name, each.width, each.signed),
            )
            for each in headers[target].fields
        ]
        valid = () if headers[target].metadata else self.set_valid(target)
        return (*valid, *(ir.Assign(to, value) for to, value in fields))

    def copy_varbit(self, target: ir.Varbit, source: ir.Varbit) -> list[ir.Statement]:
        return [ir.Assign(target.value, source.value), ir.Assign(target.length, source.length)]

    # -- choices ---------------------------------------------------------

    def each(self, choices: Sequence[Choice], statements: Callable[[str], Statements], place: ir.Source) -> Statements:
        """Return the statements for the header that the operand selects; none of them runs for an index past the end of
        a stack."""
        if len(choices) > IF_DEPTH:
            raise unsupported(f"a computed index into a stack of {len(choices)} (at most {IF_DEPTH})", place)
        result: Statements = ()
        for condition, header in reversed(choices):
            own = statements(header)
            result = own if condition is None else (ir.If(condition, own, result),)
        return result

    def assign(self, node: JsonNode, value: ir.Expr, scope: Scope) -> Statements:
        """Return statements for ``node = value``, where ``node`` can be a field at a computed index."""
        targets = self._expressions.targets(node, scope)
        names = {str(number): target for number, (_, target) in enumerate(targets)}
        choices = [(condition, str(number)) for number, (condition, _) in enumerate(targets)]
        return self.each(choices, lambda name: (ir.Assign(names[name], value),), scope.source)

    # -- whole stacks and unions -----------------------------------------

    def copy_all(self, target: Sequence[str], source: Sequence[str], place: ir.Source) -> Statements:
        """Return statements that copy headers in order. At most one source of a union is valid, so siblings need not be
        checked."""
        result: list[ir.Statement] = []
        for to, origin in zip(target, source, strict=True):
            result += [each for each in self.copy(to, origin, place) if not isinstance(each, ir.If)]
        return tuple(result)

    def copy_stack(self, target: Stack | UnionStack, source: Stack | UnionStack, place: ir.Source) -> Statements:
        ours, theirs = ([list(_headers(part)) for part in stack.elements] for stack in (target, source))
        if len(ours) != len(theirs) or len(ours[0]) != len(theirs[0]):
            raise unsupported(f"a copy from stack {source.name!r} to {target.name!r} of another type", place)
        copies = self.copy_all([h for part in ours for h in part], [h for part in theirs for h in part], place)
        return (*copies, ir.Assign(target.next, source.next))

    def push(self, stack: Stack | UnionStack, count: int, place: ir.Source) -> Statements:
        """Return statements that move every element ``count`` up; the first ones become invalid."""
        size = len(stack.elements)
        count = min(count, size)
        if count == 0:
            return ()
        moved = stack.next, ir.Binary("+", stack.next, ir.Const(count))
        following = ir.Mux(ir.Binary(">", moved[1], ir.Const(size)), ir.Const(size), moved[1])
        pairs = [(number, number - count) for number in range(size - 1, count - 1, -1)]
        return self._shift(stack, pairs, range(count), following, place)

    def pop(self, stack: Stack | UnionStack, count: int, place: ir.Source) -> Statements:
        """Return statements that move every element ``count`` down; the last ones become invalid."""
        size = len(stack.elements)
        count = min(count, size)
        if count == 0:
            return ()
        less = ir.Binary("-", stack.next, ir.Const(count))
        following = ir.Mux(ir.Binary("<", stack.next, ir.Const(count)), ir.Const(0), less)
        pairs = [(number, number + count) for number in range(size - count)]
        return self._shift(stack, pairs, range(size - count, size), following, place)

    def _shift(
        self,
        stack: Stack | UnionStack,
        pairs: Sequence[tuple[int, int]],
        lost: Sequence[int],
        following: ir.Expr,
        place: ir.Source,
    ) -> Statements:
        parts = [list(_headers(part)) for part in stack.elements]
        result: list[ir.Statement] = []
        for to, origin in pairs:
            result += self.copy_all(parts[to], parts[origin], place)
        for number in lost:
            for header in parts[number]:
                result += self.set_invalid(header, counted=False)
        return (*result, ir.Assign(stack.next, following))


def _headers(part: str | Union) -> Sequence[str]:
    return [part] if isinstance(part, str) else list(part.members.values())
