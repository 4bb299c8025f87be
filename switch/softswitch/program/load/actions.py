# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads actions: primitives become statements, jumps become nested ifs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softswitch.program import ir
from softswitch.program.graph import CycleError, joins
from softswitch.program.load.expressions import ExprLoader, bind_params, source_of, unsupported

Json = Any


class ActionLoader:
    """Translates actions one at a time. The mappings hold what the program declares, by name."""

    def __init__(
        self,
        expressions: ExprLoader,
        registers: dict[str, ir.Register],
        counters: dict[str, ir.CounterArray],
        calculations: dict[str, ir.Calculation],
    ) -> None:
        self._expressions = expressions
        self._registers = registers
        self._counters = counters
        self._calculations = calculations
        self._widths: tuple[int, ...] = ()
        self._primitives: dict[str, Callable[[list[Json], ir.Source], tuple[ir.Statement, ...]]] = {
            "assign": self._assign,
            "assign_header": self._assign_header,
            "add_header": lambda p, s: (ir.SetValid(expressions.header_name(p[0], s)),),
            "remove_header": lambda p, s: (ir.SetInvalid(expressions.header_name(p[0], s)),),
            "mark_to_drop": lambda _p, _s: (ir.MarkToDrop(),),
            "drop": lambda _p, _s: (ir.MarkToDrop(),),
            "truncate": self._truncate,
            "exit": lambda _p, _s: (ir.Exit(),),
            "no_op": lambda _p, _s: (),
            "register_read": self._register_read,
            "register_write": self._register_write,
            "count": self._count,
            "modify_field_rng_uniform": self._random,
            "modify_field_with_hash_based_offset": self._hash,
            "log_msg": self._log,
        }

    def action(self, node: Json) -> ir.Action:
        parameters = tuple(ir.Parameter(p["name"], int(p["bitwidth"])) for p in node["runtime_data"])
        primitives = node["primitives"]
        source = source_of(primitives[0] if primitives else node)
        self._widths = tuple(parameter.width for parameter in parameters)
        body = self._body(primitives, source)
        return ir.Action(int(node["id"]), node["name"], parameters, body, source)

    def statement(self, node: Json, outer: ir.Source) -> tuple[ir.Statement, ...]:
        """Translate one primitive other than a jump, of an action or of the parser."""
        source = source_of(node, outer)
        translate = self._primitives.get(node["op"])
        if translate is None:
            raise unsupported(f"primitive {node['op']!r}", source)
        return translate(node.get("parameters", []), source)

    # -- structure -------------------------------------------------------

    def _body(self, primitives: list[Json], source: ir.Source) -> tuple[ir.Statement, ...]:
        """Jumps only go forward in the subset, so the primitives form a loop-free graph."""
        end = len(primitives)

        def following(index: int) -> list[int | None]:
            node = primitives[index]
            if node["op"] == "_jump":
                targets = [self._jump_target(node["parameters"][0], source)]
            elif node["op"] == "_jump_if_zero":
                targets = [index + 1, self._jump_target(node["parameters"][1], source)]
            else:
                targets = [index + 1]
            return [target if target < end else None for target in targets]

        try:
            join = joins(0 if primitives else None, following)
        except CycleError as error:
            raise unsupported("a loop in an action", source_of(primitives[error.args[0]], source)) from error

        def block(index: int | None, stop: int | None) -> tuple[ir.Statement, ...]:
            statements: list[ir.Statement] = []
            while index is not None and index != stop:
                node = primitives[index]
                if node["op"] == "_jump_if_zero":
                    condition = self._value(node["parameters"][0], source_of(node, source))
                    then, otherwise = following(index)
                    meet = join[index]
                    statements.append(ir.If(ir.Unary("d2b", condition), block(then, meet), block(otherwise, meet)))
                    index = meet
                    continue
                if node["op"] != "_jump":
                    statements.extend(self.statement(node, source))
                index = following(index)[0]
            return tuple(statements)

        return block(0 if primitives else None, None)

    def _jump_target(self, node: Json, source: ir.Source) -> int:
        target = self._expressions.expr(node, source)
        if not isinstance(target, ir.Const):
            raise unsupported("a jump to a computed offset", source)
        return target.value

    # -- primitives ------------------------------------------------------

    def _value(self, node: Json, source: ir.Source) -> ir.Expr:
        return bind_params(self._expressions.expr(node, source), self._widths)

    def _named(self, node: Json, table: dict[str, Any], what: str, source: ir.Source) -> str:
        if node.get("value") not in table:
            raise unsupported(f"{what} {node.get('value')!r}", source)
        return str(node["value"])

    def _assign(self, p: list[Json], source: ir.Source) -> tuple[ir.Statement, ...]:
        return (ir.Assign(self._expressions.target(p[0], source), self._value(p[1], source)),)

    def _assign_header(self, p: list[Json], source: ir.Source) -> tuple[ir.Statement, ...]:
        names = self._expressions.header_name(p[0], source), self._expressions.header_name(p[1], source)
        return (ir.AssignHeader(*names),)

    def _register_read(self, p: list[Json], source: ir.Source) -> tuple[ir.Statement, ...]:
        register = self._named(p[1], self._registers, "register", source)
        target = self._expressions.target(p[0], source)
        return (ir.RegisterRead(target, register, self._value(p[2], source)),)

    def _register_write(self, p: list[Json], source: ir.Source) -> tuple[ir.Statement, ...]:
        register = self._named(p[0], self._registers, "register", source)
        return (ir.RegisterWrite(register, self._value(p[1], source), self._value(p[2], source)),)

    def _count(self, p: list[Json], source: ir.Source) -> tuple[ir.Statement, ...]:
        counter = self._named(p[0], self._counters, "counter", source)
        return (ir.Count(counter, self._value(p[1], source)),)

    def _random(self, p: list[Json], source: ir.Source) -> tuple[ir.Statement, ...]:
        target = self._expressions.target(p[0], source)
        return (ir.Random(target, self._value(p[1], source), self._value(p[2], source)),)

    def _hash(self, p: list[Json], source: ir.Source) -> tuple[ir.Statement, ...]:
        target = self._expressions.target(p[0], source)
        calculation = self._named(p[2], self._calculations, "calculation", source)
        return (ir.Hash(target, self._value(p[1], source), calculation, self._value(p[3], source)),)

    def _truncate(self, p: list[Json], source: ir.Source) -> tuple[ir.Statement, ...]:
        length = self._value(p[0], source)
        if not isinstance(length, ir.Const):
            raise unsupported("a truncate to a computed length", source)
        return (ir.Truncate(length.value),)

    def _log(self, p: list[Json], source: ir.Source) -> tuple[ir.Statement, ...]:
        values = tuple(self._value(node, source) for node in p[1]["value"]) if len(p) > 1 else ()
        return (ir.LogMessage(str(p[0]["value"]), values),)
