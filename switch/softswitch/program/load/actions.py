# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads actions: converts primitives to statements, jumps to nested ifs, and handles meters, digests and further
passes.

A request for a clone, a resubmit or a recirculation is an assignment to a hidden field.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

from softswitch.program import ir
from softswitch.program.limits import CELLS, IF_DEPTH, OBJECTS, PARAMETERS, SESSIONS, STATEMENTS, WIDTH
from softswitch.program.load.expressions import ExprLoader
from softswitch.program.load.lowering import Lowering
from softswitch.program.load.node import JsonNode, declared_once, flag_of, shown, source_of, unsupported
from softswitch.program.load.references import Scope
from softswitch.program.standard import DROP_PORT, STANDARD
from softswitch.program.traverse import CycleError, joins

_BITS = 16
_RATES = 2


@dataclass
class Externs:
    """Data about externs for the loader. ``set_sizes``: sizes of value sets. ``targets``: the field that gets the
    colour of a table's direct meter. ``digest_request``: None until a digest is requested. ``selectors``: by action
    profile, see :func:`softswitch.program.load.parser.load_selectors`."""

    meters: dict[str, ir.Meter] = field(default_factory=dict)
    targets: dict[str, ir.FieldRef] = field(default_factory=dict)
    digests: dict[int, ir.Digest] = field(default_factory=dict)
    digest_request: ir.FieldRef | None = None
    set_sizes: dict[str, int] = field(default_factory=dict)
    value_sets: dict[str, ir.ValueSet] = field(default_factory=dict)
    selectors: dict[str, str | None] = field(default_factory=dict)


def load_externs(root: JsonNode, expressions: ExprLoader) -> Externs:
    found = Externs()
    for node in root.section("meter_arrays"):
        _meter(node, expressions, found)
    for node in root.section("learn_lists"):
        number = node["id"].integer(1, OBJECTS)
        if number in found.digests:
            raise node["id"].wrong("is the id of two digests")
        scope = Scope(source_of(node))
        values = tuple(expressions.expr(part, scope) for part in node["elements"].items())
        found.digests[number] = ir.Digest(node["name"].name(), values)
    for node in root.section("parse_vsets"):
        name = node["name"].name()
        declared_once(node["name"], name, found.set_sizes)
        size = node.get("max_size")
        found.set_sizes[name] = OBJECTS if size is None else size.integer(0, CELLS)
    return found


def _meter(node: JsonNode, expressions: ExprLoader, found: Externs) -> None:
    name, source = node["name"].name(), source_of(node)
    declared_once(node["name"], name, found.meters)
    if node["rate_count"].integer(0, OBJECTS) != _RATES:
        raise unsupported(f"meter {name!r} of other than {_RATES} rates", source)
    kind = node["type"].value
    if kind not in ("bytes", "packets"):
        raise unsupported(f"meter {name!r} of {shown(kind)}", source)
    size = node["size"].integer(0, (1 << 64) - 1)
    if flag_of(node, "is_direct", default=False):
        table = node["binding"].name()
        found.targets[table] = expressions.field(node["result_target"], source)
        found.meters[name] = ir.Meter(name, 0, kind == "bytes", table)
        return
    if size > CELLS >> 4:
        raise node["size"].too_large(f"{size} meters", CELLS >> 4)
    found.meters[name] = ir.Meter(name, size, kind == "bytes")


def request_digest(p: JsonNode, scope: Scope, expressions: ExprLoader, externs: Externs) -> tuple[ir.Statement, ...]:
    """Return statements that request a digest. It is sent at the end of ingress; a later one of the same packet
    replaces it, as in bmv2."""
    number = expressions.expr(p[1], scope)
    if not isinstance(number, ir.Const):
        raise unsupported("a digest whose number is not constant", scope.source)
    if number.value not in externs.digests:
        raise p[1].wrong("is no digest's id")
    externs.digest_request = expressions.hidden.field("digest", _BITS)
    return (ir.Assign(externs.digest_request, number),)


def execute_meter(p: JsonNode, scope: Scope, expressions: ExprLoader, externs: Externs) -> tuple[ir.Statement, ...]:
    name = p[0]["value"].choice(externs.meters, "meter")
    if externs.meters[name].table is not None:
        raise unsupported(f"direct meter {name!r} outside its table", scope.source)
    return (ir.ExecuteMeter(expressions.target(p[2], scope.source), name, expressions.expr(p[1], scope)),)


Statements = tuple[ir.Statement, ...]


class PassLoader:
    """Translates the primitives for clones, resubmits and recirculation. ``passes`` is None until one of them, or a
    truncate in ingress, was translated."""

    def __init__(self, root: JsonNode, expressions: ExprLoader) -> None:
        self._expressions = expressions
        self._lists: dict[int, tuple[ir.FieldRef, ...]] = {}
        for node in root.section("field_lists"):
            number = node["id"].integer(0, OBJECTS)
            if number in self._lists:
                raise node["id"].wrong("is the id of two field lists")
            self._lists[number] = self._fields(node)
        self.passes: ir.Passes | None = None

    def _fields(self, node: JsonNode) -> tuple[ir.FieldRef, ...]:
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
        """Return the request fields, and add them to the program."""
        if self.passes is None:
            names = ("clone", "clone list", "resubmit", "recirculate")
            clone, number, resubmit, recirculate = (self._expressions.hidden.field(name, _BITS) for name in names)
            self.passes = ir.Passes(clone, number, resubmit, recirculate, self._lists)
        return self.passes

    def clone(self, p: JsonNode, scope: Scope) -> Statements:
        passes = self.need()
        session = self._expressions.expr(p[0], scope)
        kept = ir.Binary("&", session, ir.Const(SESSIONS - 1))
        request = ir.Assign(passes.clone, ir.Binary("|", kept, ir.Const(ir.CLONE_REQUESTED)))
        return request, ir.Assign(passes.clone_list, ir.Const(self._list(p[1], scope)))

    def resubmit(self, p: JsonNode, scope: Scope) -> Statements:
        return (ir.Assign(self.need().resubmit, ir.Const(self._list(p[0], scope))),)

    def recirculate(self, p: JsonNode, scope: Scope) -> Statements:
        return (ir.Assign(self.need().recirculate, ir.Const(self._list(p[0], scope))),)

    def _list(self, node: JsonNode, scope: Scope) -> int:
        number = self._expressions.expr(node, scope)
        if not isinstance(number, ir.Const):
            raise unsupported("a field list whose number is not constant", scope.source)
        if number.value not in self._lists:
            raise node.wrong("is no field list's id")
        return number.value


_Primitive = Callable[[JsonNode, Scope], tuple[ir.Statement, ...]]
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
            "mark_to_drop": self._mark_to_drop,
            "drop": lambda _p, s: (ir.MarkToDrop(s.source),),
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

    def actions(self, root: JsonNode) -> dict[int, ir.Action]:
        """Return all actions by their ids."""
        actions: dict[int, ir.Action] = {}
        for node in root["actions"].items():
            action = self._action(node)
            if action.index in actions:
                raise node["id"].wrong("is the id of two actions")
            actions[action.index] = action
        return actions

    def _action(self, node: JsonNode) -> ir.Action:
        parameters = tuple(
            ir.Parameter(part["name"].name(), part["bitwidth"].integer(1, WIDTH))
            for part in node["runtime_data"].items(PARAMETERS)
        )
        primitives = node["primitives"].items()
        source = source_of(primitives[0] if primitives else node)
        scope = Scope(source, tuple(parameter.width for parameter in parameters))
        body = self._body(primitives, scope)
        return ir.Action(node["id"].integer(0, CELLS), node["name"].name(), parameters, body, source)

    def in_parser(self, node: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        """Translate one primitive that the parser runs."""
        if node["op"].value in _ONLY_IN_CONTROLS:
            raise unsupported(f"{node['op'].value} in the parser", source_of(node, scope.source))
        return self._statement(node, scope)

    def _statement(self, node: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        """Translate one primitive other than a jump."""
        scope = Scope(source_of(node, scope.source), scope.params, scope.lookahead)
        op = node["op"].value
        translate = self._primitives.get(op) if isinstance(op, str) else None
        if translate is None:
            raise unsupported(f"primitive {shown(op)}", scope.source)
        self._count_statement(node)
        return translate(node["parameters"] if "parameters" in node.value else JsonNode([], node, "parameters"), scope)

    def _count_statement(self, node: JsonNode) -> None:
        self._statements += 1
        if self._statements > STATEMENTS:
            raise node.too_large("more statements in all actions, after jumps became branches", STATEMENTS)

    # -- structure -------------------------------------------------------

    def _body(self, primitives: list[JsonNode], scope: Scope) -> tuple[ir.Statement, ...]:
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
                    branches = block(then, meet, below), block(otherwise, meet, below)
                    statements.append(ir.If(condition, *branches, own.source))
                    index = meet
                    continue
                if op != "_jump":
                    statements.extend(self._statement(node, scope))
                index = following(index)[0]
            return tuple(statements)

        return block(0 if primitives else None, None, 0)

    def _loop(
        self, primitives: list[JsonNode], following: Callable[[int], list[int | None]], scope: Scope
    ) -> ir.Statement:
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

    def _jump_target(self, node: JsonNode, scope: Scope) -> int:
        target = self._expressions.expr(node, scope)
        if not isinstance(target, ir.Const):
            raise unsupported("a jump to a computed offset", scope.source)
        if not 0 <= target.value <= OBJECTS:
            raise node.wrong("is a jump out of the action")
        return target.value

    # -- primitives ------------------------------------------------------

    def _declared(self, node: JsonNode, known: Container[str], what: str, source: ir.Source) -> str:
        name = node["value"].value
        if not isinstance(name, str) or name not in known:
            raise unsupported(f"{what} {shown(name)}", source)
        return name

    def _assign(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        return self.lowering.assign(p[0], self._expressions.expr(p[1], scope), scope)

    def _assign_varbit(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        target, source = (self._expressions.varbit(p[index], scope.source) for index in (0, 1))
        if target is None or source is None or target.value.width != source.value.width:
            raise unsupported("an assignment of varbit fields of different types, or of another value", scope.source)
        return tuple(self.lowering.copy_varbit(target, source))

    def _assign_header(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
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

    def _assign_union(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        (to, target), (at, source) = (self._expressions.unions(p[index], scope)[0] for index in (0, 1))
        if to is not None or at is not None or len(target.members) != len(source.members):
            raise unsupported("a copy of header unions at a computed index, or of different types", scope.source)
        return self.lowering.copy_all(list(target.members.values()), list(source.members.values()), scope.source)

    def _assign_stack(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        target, source = (self._expressions.any_stack(p[index], scope.source) for index in (0, 1))
        return self.lowering.copy_stack(target, source, scope.source)

    def _shifts(self, p: JsonNode, scope: Scope) -> int:
        count = self._expressions.expr(p[1], scope)
        if not isinstance(count, ir.Const) or not 0 <= count.value <= CELLS:
            raise unsupported("a push or pop by a number that is not constant", scope.source)
        return count.value

    def _mark_to_drop(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        """Mark the packet. A copy of its metadata, which p4c makes for a control's parameter, is marked as a copy: the
        packet is dropped if that is copied back."""
        header = p[0]["value"].value
        if header == STANDARD:
            return (ir.MarkToDrop(scope.source),)
        marks = (("egress_spec", DROP_PORT), ("mcast_grp", 0))
        field = self._expressions.named
        return tuple(ir.Assign(field(header, name, scope.source), ir.Const(to)) for name, to in marks)

    def _register_read(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        register = self._declared(p[1], self._registers, "register", scope.source)
        target = self._expressions.target(p[0], scope.source)
        return (ir.RegisterRead(target, register, self._expressions.expr(p[2], scope)),)

    def _register_write(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        register = self._declared(p[0], self._registers, "register", scope.source)
        index, value = (self._expressions.expr(p[number], scope) for number in (1, 2))
        return (ir.RegisterWrite(register, index, value),)

    def _count(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        counter = self._declared(p[0], self._counters, "counter", scope.source)
        return (ir.Count(counter, self._expressions.expr(p[1], scope)),)

    def _random(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        target = self._expressions.target(p[0], scope.source)
        low, high = (self._expressions.expr(p[number], scope) for number in (1, 2))
        return (ir.Random(target, low, high),)

    def _hash(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        target = self._expressions.target(p[0], scope.source)
        calculation = self._declared(p[2], self._calculations, "calculation", scope.source)
        if self._calculations[calculation].payload:
            raise unsupported(f"a hash over the payload, {calculation!r}, outside a checksum", scope.source)
        base = self._expressions.expr(p[1], scope)
        modulus = self._expressions.unsigned(p[3], scope, "a hash modulo a number")
        return (ir.Hash(target, base, calculation, modulus),)

    def _truncate(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        return (ir.Truncate(self._expressions.unsigned(p[0], scope, "a truncate to a length", (1 << 32) - 1)),)

    def _check(self, what: str, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        """bmv2 ends where the condition fails."""
        failed = ir.Binary("==", self._expressions.expr(p[0], scope), ir.Const(0))
        place = str(scope.source).replace("{", "").replace("}", "")
        return (ir.If(failed, (ir.LogMessage(f"{what} failed: {place}", ()),)),)

    def _log(self, p: JsonNode, scope: Scope) -> tuple[ir.Statement, ...]:
        parts = p.items(2)
        # p4c writes {} for no values.
        given = parts[1]["value"] if parts[1:] and parts[1]["value"].value != {} else None
        values = [] if given is None else [self._expressions.expr(node, scope) for node in given.items(PARAMETERS)]
        return (ir.LogMessage(p[0]["value"].text(), tuple(values)),)
