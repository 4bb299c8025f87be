# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random statements and actions."""

from __future__ import annotations

from dataclasses import dataclass

from differential.draws import Draws
from differential.expressions import Expressions, Scope
from softswitch.program import ir

# Fields of standard_metadata that programs set.
WRITABLE = ("egress_spec", "mcast_grp", "priority", "egress_rid", "enq_qdepth")
PORTS = (1, 2, 2, 3, 7, 510, 0, 511)
GROUPS = (0, 1, 2, 3, 4)

ROUNDS = ir.FieldRef("#hidden", "rounds", 8)  # that a loop has made


@dataclass(frozen=True)
class Declared:
    """What the program declares. ``pairs``: headers that can be copied onto each other."""

    headers: dict[str, ir.Header]
    fields: list[ir.FieldRef]
    names: list[str]
    pairs: list[tuple[str, str]]
    registers: dict[str, ir.Register]
    counters: dict[str, ir.CounterArray]
    calculations: dict[str, ir.Calculation]

    def targets(self) -> list[ir.FieldRef]:
        return [member for member in self.fields if member.header != "standard_metadata" or member.field in WRITABLE]

    def standard(self, name: str) -> ir.FieldRef:
        return next(member for member in self.fields if (member.header, member.field) == ("standard_metadata", name))


class Statements:
    def __init__(self, draws: Draws, declared: Declared, expressions: Expressions) -> None:
        self._draws = draws
        self._declared = declared
        self._expressions = expressions

    def body(self, most: int, depth: int = 2) -> tuple[ir.Statement, ...]:
        """Random statements. ``exit`` is always the last one."""
        draws = self._draws
        count = draws.count(0, most)
        return tuple(self._statement(depth, tail=number == count - 1) for number in range(count))

    def _statement(self, depth: int, *, tail: bool) -> ir.Statement:
        draws = self._draws
        if depth and draws.chance(0.2):
            then = self._branch(depth - 1, tail=tail)
            otherwise = self._branch(depth - 1, tail=tail) if draws.chance(0.5) else ()
            return ir.If(self._expressions.boolean(2), then, otherwise)
        if tail and draws.chance(0.05):
            return ir.Exit()
        return self.simple(3)

    def _branch(self, depth: int, *, tail: bool) -> tuple[ir.Statement, ...]:
        count = self._draws.count(1, 3)
        return tuple(self._statement(depth, tail=tail and number == count - 1) for number in range(count))

    def simple(self, depth: int) -> ir.Statement:  # noqa: PLR0912 - one case per statement
        draws, declared, expressions = self._draws, self._declared, self._expressions
        target = draws.one(declared.targets())
        if draws.focus == "random" and draws.chance(0.15):
            wide = [member for member in declared.targets() if member.width > 64 and member.width % 64]
            return self._random(draws.one([target, *wide]), depth)
        if draws.focus in ("passes", "stacks") and depth > 2 and draws.chance(0.1):
            return self._loop()
        if draws.focus == "passes" and draws.chance(0.12):
            return self._request()
        match draws.one(["assign"] * 12 + ["read", "write", "write", "count", "send", "send", "send", "replicate",
                                           "valid", "invalid", "copy", "random", "hash", "log", "cut",
                                           "drop"]):  # fmt: skip
            case "read":
                return ir.RegisterRead(target, draws.one(list(declared.registers)), self._index(depth))
            case "write":
                register = declared.registers[draws.one(list(declared.registers))]
                value = expressions.loose(register.width, signed=register.signed, depth=depth)
                return ir.RegisterWrite(register.name, self._index(depth), value)
            case "count":
                return ir.Count(draws.one(list(declared.counters)), self._index(depth))
            case "send":
                return ir.Assign(declared.standard("egress_spec"), ir.Const(draws.one(PORTS)))
            case "replicate":
                return ir.Assign(declared.standard("mcast_grp"), ir.Const(draws.one(GROUPS)))
            case "valid":
                return ir.SetValid(draws.one(declared.names))
            case "invalid":
                return ir.SetInvalid(draws.one(declared.names))
            case "copy" if declared.pairs:
                return ir.AssignHeader(*draws.one(declared.pairs))
            case "random":
                return self._random(target, depth)
            case "hash":
                modulus = draws.one([ir.Const(draws.number(32)), expressions.typed(16, depth=1), ir.Const(1 << 32)])
                base = draws.one([ir.Const(0), ir.Const(draws.number(16)), expressions.typed(target.width, depth=1)])
                return ir.Hash(target, base, draws.one(list(declared.calculations)), modulus)
            case "drop":
                # Under a condition: otherwise most packets would be dropped.
                return (
                    ir.If(expressions.boolean(2), (ir.MarkToDrop(),)) if depth > 2 else ir.SetValid(declared.names[0])
                )
            case "cut":
                length = ir.Const(draws.one([0, 1, 14, 40, 70, 2000]))
                return ir.Truncate(draws.one([length, length, self._expressions.typed(16, depth=1)]))
            case "log":
                values = tuple(expressions.typed(draws.width(), signed=draws.chance(0.3), depth=1) for _ in range(2))
                return ir.LogMessage("first {} second {}", values)
        return ir.Assign(target, expressions.loose(target.width, signed=target.signed, depth=depth))

    def _loop(self) -> ir.Statement:
        """Counts to a small number, with a jump out of the middle."""
        first = ir.Block((ir.Assign(ROUNDS, ir.Const(0)),), None, 1, 1)
        head = ir.Block((), ir.Binary("<", ROUNDS, ir.Const(self._draws.count(0, 5))), 2, None)
        count = ir.Assign(ROUNDS, ir.Binary("+", ROUNDS, ir.Const(1)))
        body = ir.Block((self.simple(2), self.simple(2), count), self._expressions.boolean(1), 3, 1)
        last = ir.Block((self.simple(2),), self._expressions.boolean(1), 1, None)
        return ir.Loop((first, head, body, last))

    def _request(self) -> ir.Statement:
        """A clone, resubmit or recirculation, mostly of packets that are none yet: seldom without end."""
        draws = self._draws
        clone, number, resubmit, recirculate = (
            ir.FieldRef("#hidden", name, 16) for name in ("clone", "list", "resubmit", "recirculate")
        )
        fields = ir.Const(draws.count(1, 3))
        session = ir.Const(ir.CLONE_REQUESTED | draws.count(0, 3))
        wanted: tuple[ir.Statement, ...] = (ir.Assign(draws.one([resubmit, recirculate]), fields),)
        if draws.chance(0.5):
            wanted = (ir.Assign(clone, session), ir.Assign(number, fields))
        first = ir.Binary("<=", self._declared.standard("instance_type"), ir.Const(0 if draws.chance(0.97) else 6))
        return ir.If(first, wanted)

    def _index(self, depth: int) -> ir.Expr:
        draws = self._draws
        if draws.chance(0.3):
            return ir.Const(draws.one([0, 1, 3, 4, 99, 100, 1 << 31]))
        small = ir.Binary("&", draws.one(self._declared.fields), ir.Const(3))
        return small if draws.chance(0.6) else self._expressions.loose(draws.one([8, 32, 64]), depth=depth - 1)

    def _random(self, target: ir.FieldRef, depth: int) -> ir.Random:
        draws = self._draws
        low, high = sorted((draws.number(target.width), draws.number(target.width)))
        if draws.chance(0.6):
            return ir.Random(target, ir.Const(low), ir.Const(high))
        width = target.width
        return ir.Random(target, self._expressions.typed(width, depth=1), self._expressions.typed(width, depth=1))


def make_probe(index: int, register: str, shown: list[ir.FieldRef]) -> ir.Action:
    writes = tuple(ir.RegisterWrite(register, ir.Const(number), member) for number, member in enumerate(shown))
    return ir.Action(index, f"probe{index}", (), writes)


def make_action(index: int, draws: Draws, declared: Declared) -> ir.Action:
    parameters = tuple(ir.Parameter(f"p{i}", draws.width()) for i in range(draws.one([0, 0, 1, 1, 2, 3])))
    params = [ir.Param(i, parameter.width) for i, parameter in enumerate(parameters)]
    scope = Scope(declared.fields, declared.names, params)
    statements = Statements(draws, declared, Expressions(draws, scope))
    if draws.chance(0.25):
        # An action that the Python engine compiles for each entry: wide action data, only computing.
        body = tuple(
            ir.Assign(target, Expressions(draws, scope).loose(target.width, signed=target.signed))
            for target in draws.some(declared.targets(), 1, 3)
        )
        return ir.Action(index, f"action{index}", parameters, body)
    return ir.Action(index, f"action{index}", parameters, statements.body(4))
