# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads actions: primitives become statements, jumps become nested ifs."""

from __future__ import annotations

from collections.abc import Callable, Container

from softswitch.program import ir
from softswitch.program.graph import CycleError, joins
from softswitch.program.limits import CELLS, IF_DEPTH, OBJECTS, PARAMETERS, STATEMENTS, WIDTH
from softswitch.program.load.expressions import ExprLoader
from softswitch.program.load.externs import Externs, execute_meter, request_digest
from softswitch.program.load.lowering import Lowering
from softswitch.program.load.node import Node, shown, source_of, unsupported
from softswitch.program.load.passes import PassLoader
from softswitch.program.load.references import Scope

_Primitive = Callable[[Node, Scope], tuple[ir.Statement, ...]]
_ONLY_IN_CONTROLS = frozenset(
    ["exit", "truncate", "clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress", "resubmit", "recirculate"]
)


class ActionLoader:
    """Translates actions one at a time. The mappings hold what the program declares, by name."""

    def __init__(
        self,
        expressions: ExprLoader,
        *,
        registers: dict[str, ir.Register],
        counters: dict[str, ir.CounterArray],
        calculations: dict[str, ir.Calculation],
        passes: PassLoader,
        externs: Externs,
    ) -> None:
        self._expressions = expressions
        self._registers = registers
        self._counters = {name for name, counter in counters.items() if counter.table is None}
        self._calculations = calculations
        self._statements = 0
        self.lowering = lowering = Lowering(expressions)
        self._primitives: dict[str, _Primitive] = {
            "assign": self._assign,
            "assign_VL": self._assign_varbit,
            "assign_header": self._assign_header,
            "assign_union": self._assign_union,
            "assign_header_stack": self._assign_stack,
            "assign_union_stack": self._assign_stack,
            "push": lambda p, s: lowering.push(expressions.any_stack(p[0], s.source), self._shifts(p, s), s.source),
            "pop": lambda p, s: lowering.pop(expressions.any_stack(p[0], s.source), self._shifts(p, s), s.source),
            "add_header": lambda p, s: lowering.each(expressions.choices(p[0], s), lowering.set_valid, s.source),
            "remove_header": lambda p, s: lowering.each(expressions.choices(p[0], s), lowering.set_invalid, s.source),
            "mark_to_drop": lambda _p, _s: (ir.MarkToDrop(),),
            "drop": lambda _p, _s: (ir.MarkToDrop(),),
            "truncate": self._truncate,
            "exit": lambda _p, _s: (ir.Exit(),),
            "clone_ingress_pkt_to_egress": passes.clone,
            "clone_egress_pkt_to_egress": passes.clone,
            "resubmit": passes.resubmit,
            "recirculate": passes.recirculate,
            "execute_meter": lambda p, s: execute_meter(p, s, expressions, externs),
            "generate_digest": lambda p, s: request_digest(p, s, expressions, externs),
            "assert": lambda p, s: self._check("assert", p, s),
            "assume": lambda p, s: self._check("assume", p, s),
            "no_op": lambda _p, _s: (),
            "register_read": self._register_read,
            "register_write": self._register_write,
            "count": self._count,
            "modify_field_rng_uniform": self._random,
            "modify_field_with_hash_based_offset": self._hash,
            "log_msg": self._log,
        }

    def actions(self, root: Node) -> dict[int, ir.Action]:
        """All actions by their ids."""
        actions: dict[int, ir.Action] = {}
        for node in root["actions"].items():
            action = self._action(node)
            if action.index in actions:
                raise node["id"].wrong("is the id of two actions")
            actions[action.index] = action
        return actions

    def _action(self, node: Node) -> ir.Action:
        parameters = tuple(
            ir.Parameter(part["name"].name(), part["bitwidth"].integer(1, WIDTH))
            for part in node["runtime_data"].items(PARAMETERS)
        )
        primitives = node["primitives"].items()
        source = source_of(primitives[0] if primitives else node)
        scope = Scope(source, tuple(parameter.width for parameter in parameters))
        body = self._body(primitives, scope)
        return ir.Action(node["id"].integer(0, CELLS), node["name"].name(), parameters, body, source)

    def in_parser(self, node: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        """Translate one primitive that the parser runs."""
        if node["op"].value in _ONLY_IN_CONTROLS:
            raise unsupported(f"{node['op'].value} in the parser", source_of(node, scope.source))
        return self._statement(node, scope)

    def _statement(self, node: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        """Translate one primitive other than a jump."""
        scope = Scope(source_of(node, scope.source), scope.params, scope.lookahead)
        op = node["op"].value
        translate = self._primitives.get(op) if isinstance(op, str) else None
        if translate is None:
            raise unsupported(f"primitive {shown(op)}", scope.source)
        self._count_statement(node)
        return translate(node["parameters"] if "parameters" in node.value else Node([], node, "parameters"), scope)

    def _count_statement(self, node: Node) -> None:
        self._statements += 1
        if self._statements > STATEMENTS:
            raise node.too_large("more statements in all actions, after jumps became branches", STATEMENTS)

    # -- structure -------------------------------------------------------

    def _body(self, primitives: list[Node], scope: Scope) -> tuple[ir.Statement, ...]:
        """Jumps only go forward in the subset, so the primitives form a loop-free graph."""
        end = len(primitives)

        def following(index: int) -> list[int | None]:
            node = primitives[index]
            op = node["op"].value
            if op == "_jump":
                targets = [self._jump_target(node["parameters"][0], scope)]
            elif op == "_jump_if_zero":
                targets = [index + 1, self._jump_target(node["parameters"][1], scope)]
            else:
                targets = [index + 1]
            return [target if target < end else None for target in targets]

        try:
            join = joins(0 if primitives else None, following)
        except CycleError:
            return (self._loop(primitives, following, scope),)

        def block(index: int | None, stop: int | None, depth: int) -> tuple[ir.Statement, ...]:
            statements: list[ir.Statement] = []
            while index is not None and index != stop:
                node = primitives[index]
                if depth > IF_DEPTH:
                    raise node.too_large("ifs nested deeper", IF_DEPTH)
                op = node["op"].value
                if op == "_jump_if_zero":
                    self._count_statement(node)
                    own = Scope(source_of(node, scope.source), scope.params)
                    condition = ir.Unary("d2b", self._expressions.expr(node["parameters"][0], own))
                    then, otherwise = following(index)
                    meet = join[index]
                    below = depth + 1
                    statements.append(ir.If(condition, block(then, meet, below), block(otherwise, meet, below)))
                    index = meet
                    continue
                if op != "_jump":
                    statements.extend(self._statement(node, scope))
                index = following(index)[0]
            return tuple(statements)

        return block(0 if primitives else None, None, 0)

    def _loop(self, primitives: list[Node], following: Callable[[int], list[int | None]], scope: Scope) -> ir.Statement:
        """One block for each primitive that is jumped to, and for each behind a jump."""
        jumps = [i for i, node in enumerate(primitives) if node["op"].value in ("_jump", "_jump_if_zero")]
        ends = {target for index in jumps for target in following(index)} | {index + 1 for index in jumps}
        starts = sorted({0, *(each for each in ends if each is not None and each < len(primitives))})
        numbers: dict[int | None, int | None] = {start: number for number, start in enumerate(starts)}
        blocks: list[ir.Block] = []
        for start, end in zip(starts, [*starts[1:], len(primitives)], strict=True):
            statements: list[ir.Statement] = []
            condition = None
            for node in primitives[start:end]:
                op = node["op"].value
                if op == "exit":
                    raise unsupported("exit in an action with a loop", source_of(node, scope.source))
                if op == "_jump_if_zero":
                    self._count_statement(node)
                    own = Scope(source_of(node, scope.source), scope.params)
                    condition = ir.Unary("d2b", self._expressions.expr(node["parameters"][0], own))
                elif op != "_jump":
                    statements.extend(self._statement(node, scope))
            after = [numbers.get(each) for each in following(end - 1)]
            blocks.append(ir.Block(tuple(statements), condition, after[0], after[-1]))
        return ir.Loop(tuple(blocks))

    def _jump_target(self, node: Node, scope: Scope) -> int:
        target = self._expressions.expr(node, scope)
        if not isinstance(target, ir.Const):
            raise unsupported("a jump to a computed offset", scope.source)
        if not 0 <= target.value <= OBJECTS:
            raise node.wrong("is a jump out of the action")
        return target.value

    # -- primitives ------------------------------------------------------

    def _declared(self, node: Node, known: Container[str], what: str, source: ir.Source) -> str:
        name = node["value"].value
        if not isinstance(name, str) or name not in known:
            raise unsupported(f"{what} {shown(name)}", source)
        return name

    def _assign(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        return self.lowering.assign(p[0], self._expressions.expr(p[1], scope), scope)

    def _assign_varbit(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        target, source = (self._expressions.varbit(p[index], scope.source) for index in (0, 1))
        if target is None or source is None or target.value.width != source.value.width:
            raise unsupported("an assignment of varbit fields of different types, or of another value", scope.source)
        return tuple(self.lowering.copy_varbit(target, source))

    def _assign_header(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        metadata = self._expressions.metadata(p[1], scope.source)
        into = self._expressions.metadata(p[0], scope.source)
        if metadata is not None and into is not None:
            return self.lowering.copy_metadata(into, metadata, scope.source)
        if metadata is not None:
            target = self._expressions.choices(p[0], scope)
            return self.lowering.each(
                target, lambda name: self.lowering.copy_metadata(name, metadata, scope.source), scope.source
            )
        targets, sources = (self._expressions.choices(p[index], scope) for index in (0, 1))

        def copies(target: str) -> tuple[ir.Statement, ...]:
            return self.lowering.each(
                sources, lambda source: self.lowering.copy(target, source, scope.source), scope.source
            )

        return self.lowering.each(targets, copies, scope.source)

    def _assign_union(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        (to, target), (at, source) = (self._expressions.unions(p[index], scope)[0] for index in (0, 1))
        if to is not None or at is not None or len(target.members) != len(source.members):
            raise unsupported("a copy of header unions at a computed index, or of different types", scope.source)
        return self.lowering.copy_all(list(target.members.values()), list(source.members.values()), scope.source)

    def _assign_stack(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        target, source = (self._expressions.any_stack(p[index], scope.source) for index in (0, 1))
        return self.lowering.copy_stack(target, source, scope.source)

    def _shifts(self, p: Node, scope: Scope) -> int:
        count = self._expressions.expr(p[1], scope)
        if not isinstance(count, ir.Const) or not 0 <= count.value <= CELLS:
            raise unsupported("a push or pop by a number that is not constant", scope.source)
        return count.value

    def _register_read(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        register = self._declared(p[1], self._registers, "register", scope.source)
        target = self._expressions.target(p[0], scope.source)
        return (ir.RegisterRead(target, register, self._expressions.expr(p[2], scope)),)

    def _register_write(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        register = self._declared(p[0], self._registers, "register", scope.source)
        index, value = (self._expressions.expr(p[number], scope) for number in (1, 2))
        return (ir.RegisterWrite(register, index, value),)

    def _count(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        counter = self._declared(p[0], self._counters, "counter", scope.source)
        return (ir.Count(counter, self._expressions.expr(p[1], scope)),)

    def _random(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        target = self._expressions.target(p[0], scope.source)
        low, high = (self._expressions.expr(p[number], scope) for number in (1, 2))
        return (ir.Random(target, low, high),)

    def _hash(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        target = self._expressions.target(p[0], scope.source)
        calculation = self._declared(p[2], self._calculations, "calculation", scope.source)
        if self._calculations[calculation].payload:
            raise unsupported(f"a hash over the payload, {calculation!r}, outside a checksum", scope.source)
        base = self._expressions.expr(p[1], scope)
        modulus = self._expressions.unsigned(p[3], scope, "a hash modulo a number")
        return (ir.Hash(target, base, calculation, modulus),)

    def _truncate(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        return (ir.Truncate(self._expressions.unsigned(p[0], scope, "a truncate to a length", (1 << 32) - 1)),)

    def _check(self, what: str, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        """bmv2 ends where the condition fails."""
        failed = ir.Binary("==", self._expressions.expr(p[0], scope), ir.Const(0))
        place = str(scope.source).replace("{", "").replace("}", "")
        return (ir.If(failed, (ir.LogMessage(f"{what} failed: {place}", ()),)),)

    def _log(self, p: Node, scope: Scope) -> tuple[ir.Statement, ...]:
        parts = p.items(2)
        # p4c writes {} for no values.
        given = parts[1]["value"] if parts[1:] and parts[1]["value"].value != {} else None
        values = [] if given is None else [self._expressions.expr(node, scope) for node in given.items(PARAMETERS)]
        return (ir.LogMessage(p[0]["value"].text(), tuple(values)),)
