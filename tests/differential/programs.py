# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random programs in the intermediate form, with every construct that the loader accepts.

``make_program(seed)`` always gives the same program.
"""

from __future__ import annotations

from dataclasses import replace

from differential.draws import Draws, full
from differential.expressions import Expressions, Scope
from differential.pipelines import PipelineMaker
from differential.statements import ROUNDS, Declared, Statements
from softswitch.program import ir

STANDARD = "standard_metadata"
# As v1model declares it.
STANDARD_FIELDS = (
    ir.Field("ingress_port", 9), ir.Field("egress_spec", 9), ir.Field("egress_port", 9), ir.Field("instance_type", 32),
    ir.Field("packet_length", 32), ir.Field("enq_timestamp", 32), ir.Field("enq_qdepth", 19),
    ir.Field("deq_timedelta", 32), ir.Field("deq_qdepth", 19), ir.Field("ingress_global_timestamp", 48),
    ir.Field("egress_global_timestamp", 48), ir.Field("mcast_grp", 16), ir.Field("egress_rid", 16),
    ir.Field("checksum_error", 1), ir.Field("parser_error", 32), ir.Field("priority", 3), ir.Field("_padding", 3),
)  # fmt: skip
ERRORS = ("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout",
          "ParserInvalidArgument", "Own")  # fmt: skip
ALGORITHMS = ("csum16", "xor16", "crc16", "crc32", "identity")
# The widest field of a program (wide ones take seconds to compile), and the construct that it has more of.
KINDS = ((64, "parser"), (130, "random"), (520, "keys"), (2048, ""), (64, ""), (130, "keys"), (64, "checksums"),
         (520, "random"), (100, "parser"), (64, "stacks"), (130, "stacks"), (64, "passes"),
         (130, "passes"))  # fmt: skip
REQUESTS = tuple(ir.FieldRef("#hidden", name, 16) for name in ("clone", "list", "resubmit", "recirculate"))
STACK = ("stack0", "stack1", "stack2")
NEXT = ir.FieldRef("#hidden", "stack#next", 32)
MOST_VARBIT = 96  # bits; half of the programs have varbit fields that take two limbs
VARBIT = ir.Varbit(ir.FieldRef("#hidden", "options", MOST_VARBIT), ir.FieldRef("#hidden", "options#bits", 16))
SHOWN = ("checksum_error", "parser_error", "packet_length", "instance_type", "egress_rid", "egress_port")


def make_program(seed: int) -> ir.Program:
    return _ProgramMaker(seed).make()


class _ProgramMaker:
    def __init__(self, seed: int) -> None:
        self._draws = Draws(seed, *KINDS[seed % len(KINDS)])

    def make(self) -> ir.Program:
        draws = self._draws
        self._value_sets: dict[str, ir.ValueSet] = {}
        headers = self._headers()
        self._sizes = {name: header.size_bytes for name, header in headers.items()}
        self._names = [name for name, header in headers.items() if not header.metadata]
        self._fields = [
            ir.FieldRef(header.name, member.name, member.width, member.signed)
            for header in headers.values()
            if header.name != NEXT.header
            # The program's own fields are drawn more often than v1model's.
            for member in header.fields * (1 if header.name == STANDARD else 3)
        ]
        registers = {
            f"r{i}": ir.Register(f"r{i}", draws.one([1, 3, 4, 16, 100]), draws.width(), draws.chance(0.15))
            for i in range(draws.count(1, 4))
        }
        counters = {f"c{i}": ir.CounterArray(f"c{i}", draws.one([1, 5, 64])) for i in range(draws.count(1, 3))}
        calculations = {f"calc{i}": self._calculation(f"calc{i}") for i in range(draws.count(2, 5))}
        payload = replace(self._calculation("payload"), payload=True)
        order = draws.some(self._names, max(1, len(self._names) - 2), len(self._names))
        if draws.chance(0.1):
            order.append(draws.one(order))
        pairs = _same_shape(headers)
        declared = Declared(headers, self._fields, self._names, pairs, registers, counters, calculations)
        pipelines = PipelineMaker(draws, declared)
        probes = ["probe0", "probe1"] if draws.chance(0.6) else [None, None]
        shown = [
            *(member for member in dict.fromkeys(self._fields) if member.header == "meta"),
            *(declared.standard(name) for name in SHOWN),
        ]
        registers |= {name: ir.Register(name, len(shown), max(32, draws.widest)) for name in probes if name}
        ingress = pipelines.make("ingress", draws.count(4, 10), probes[0], shown)
        egress = pipelines.make("egress", draws.count(0, 4), probes[1], shown)
        nodes = [*ingress.nodes.values(), *egress.nodes.values()]
        direct = [node.name for node in nodes if isinstance(node, ir.Table) and node.has_counter]
        return ir.Program(
            headers=headers,
            errors={name: number for number, name in enumerate(ERRORS)},
            parser=self._parser(declared),
            ingress=ingress,
            egress=egress,
            deparser=tuple(order),
            actions=tuple(pipelines.actions),
            registers=registers,
            counters=counters | {f"direct_{name}": ir.CounterArray(f"direct_{name}", 0, name) for name in direct},
            calculations=calculations | {"payload": payload},
            checksums=tuple(
                self._checksum(i, calculations) for i in range(6 if draws.focus == "checksums" else draws.count(0, 3))
            ),
            value_sets=self._value_sets,
            passes=self._passes() if draws.focus == "passes" else None,
            varbits={"h0": VARBIT} if draws.focus == "stacks" else {},
        )

    # -- headers ---------------------------------------------------------

    def _headers(self) -> dict[str, ir.Header]:
        draws = self._draws
        headers = [ir.Header(f"h{i}", self._header_fields(), False) for i in range(draws.count(2, 5))]
        # A second instance of a type, for header copies.
        headers += [ir.Header("twin", headers[0].fields, False)]
        members = tuple(ir.Field(f"m{i}", draws.width(), draws.chance(0.3)) for i in range(draws.count(3, 8)))
        if draws.focus == "stacks":
            element = ir.Header("", self._header_fields(), False)
            headers += [replace(element, name=name) for name in STACK]
            hidden = [ir.Field(each.field, each.width) for each in (NEXT, VARBIT.value, VARBIT.length, ROUNDS)]
            headers.append(ir.Header(NEXT.header, tuple(hidden), True))
        if draws.focus == "passes":
            hidden = [ir.Field(each.field, each.width) for each in (*REQUESTS, ROUNDS)]
            headers.append(ir.Header(NEXT.header, tuple(hidden), True))
        headers += [ir.Header("meta", members, True), ir.Header(STANDARD, STANDARD_FIELDS, True)]
        return {header.name: header for header in headers}

    def _header_fields(self) -> tuple[ir.Field, ...]:
        draws = self._draws
        signed = 0.5 if draws.focus == "parser" else 0.25
        fields = [ir.Field(f"f{i}", draws.width(), draws.chance(signed)) for i in range(draws.count(1, 7))]
        missing = -sum(member.width for member in fields) % 8
        if missing:
            fields.insert(draws.count(0, len(fields)), ir.Field("pad", missing))
        return tuple(fields)

    def _passes(self) -> ir.Passes:
        lists = {number: tuple(self._draws.some(self._fields, 1, 4)) for number in (1, 2)}
        clone, number, resubmit, recirculate = REQUESTS
        return ir.Passes(clone, number, resubmit, recirculate, lists | {3: ()})

    # -- checksums -------------------------------------------------------

    def _calculation(self, name: str) -> ir.Calculation:
        draws = self._draws
        chunks: list[ir.Chunk] = []
        for _ in range(draws.count(1, 4)):
            header = draws.one([member.header for member in self._fields])
            mine = list(dict.fromkeys(member for member in self._fields if member.header == header))
            for member in mine if draws.chance(0.4) else draws.some(mine, 1, 3):
                chunks.append(ir.Chunk(member, member.width))
            if draws.chance(0.2):
                width = draws.one([8, 16, 3, 24])
                chunks.append(ir.Chunk(ir.Const(draws.number(width)), width))
        if draws.focus == "stacks":
            chunks.insert(draws.count(0, len(chunks)), ir.Chunk(VARBIT.value, MOST_VARBIT, VARBIT.length, "h0"))
        return ir.Calculation(name, draws.one(ALGORITHMS), tuple(chunks))

    def _checksum(self, number: int, calculations: dict[str, ir.Calculation]) -> ir.Checksum:
        draws = self._draws
        target = draws.one([member for member in self._fields if member.header in self._names])
        valid = ir.Unary("d2b", ir.Valid(draws.one([target.header, draws.one(self._names)])))
        expressions = Expressions(draws, Scope(self._fields, self._names))
        condition = draws.one([
            ir.Const(1), ir.Const(1), valid, ir.Binary("and", valid, expressions.boolean(1)), expressions.boolean(2)
        ])  # fmt: skip
        verify, update = draws.one([(True, False), (False, True), (True, True)])
        calculation = draws.one([*calculations, "payload"])
        return ir.Checksum(f"checksum{number}", target, calculation, condition, verify, update)

    # -- parser ----------------------------------------------------------

    def _parser(self, declared: Declared) -> ir.Parser:
        count = self._draws.count(2, 6) + (4 if self._draws.focus == "parser" else 0)
        states = [self._state(i, count, declared) for i in range(count)]
        return ir.Parser("parser", "start", {state.name: state for state in states})

    def _state(self, number: int, count: int, declared: Declared) -> ir.ParserState:
        draws = self._draws
        later: list[str | None] = [None, *(f"s{i}" for i in range(number + 1, count))]
        if number + 1 < count and draws.chance(0.8):
            later.remove(None)
        scope = Scope(self._fields, self._names, lookahead=True)
        expressions = Expressions(draws, scope)
        ops: list[ir.ParserOp] = []
        if draws.focus == "stacks" and draws.chance(0.6):
            # A loop ends with the stack.
            branches = tuple((ir.Extract(name), ir.SetInvalid("twin", counted=False)) for name in STACK)
            ops += [ir.Choose(NEXT, branches), ir.Assign(NEXT, ir.Binary("+", NEXT, ir.Const(1)))]
            later += [f"s{i}" if i else "start" for i in range(number + 1)]
        if draws.focus == "stacks" and draws.chance(0.4):
            plain = Expressions(draws, Scope(self._fields, self._names))
            bits = ir.Binary("&", plain.typed(16, depth=1), ir.Const(draws.one([0, 8, 0x18, 0x78, 0x7F, 0xFFFF])))
            rest = draws.one([None, "twin"])
            fixed = [self._sizes["h0"], self._sizes["twin"] if rest else 0]
            most = sum(fixed) + MOST_VARBIT // 8
            ops.append(ir.ExtractVarbit("h0", VARBIT.value, VARBIT.length, bits, most, rest))
        for _ in range(draws.count(0 if number else 1, 4)):
            ops.append(self._parser_op(expressions, declared, first=not ops))
        extracted = [op.header for op in ops if isinstance(op, ir.Extract | ir.ExtractVarbit)]
        key = self._select_key(extracted, expressions)
        cases = tuple(self._case(key, draws.one(later)) for _ in range(draws.count(1, 4))) if key else ()
        if key and draws.focus in ("parser", "stacks") and draws.chance(0.5):
            widths = tuple(part.width if isinstance(part, ir.FieldRef | ir.Lookahead) else 1 for part in key)
            name = f"set{number}"
            self._value_sets[name] = ir.ValueSet(name, widths, 8)
            cases = (cases[0], ir.Case((), (), draws.one(later), name), *cases[1:])
        return ir.ParserState(f"s{number}" if number else "start", tuple(ops), key, cases, draws.one(later))

    def _parser_op(self, expressions: Expressions, declared: Declared, *, first: bool) -> ir.ParserOp:
        draws = self._draws
        match draws.one(["extract"] * 9 + ["assign", "statement", "verify", "advance", "advance"]):
            case "assign":
                target = draws.one(self._fields)
                return ir.Assign(target, expressions.loose(target.width, signed=target.signed, depth=2))
            case "statement":
                # Only assignments and verify may use lookahead.
                plain = Expressions(draws, Scope(self._fields, self._names))
                return Statements(draws, declared, plain).simple(2)
            case "verify" if not first:
                errors = [ir.Const(draws.count(0, len(ERRORS) - 1)), ir.Const(ERRORS.index("Own"))]
                return ir.Verify(expressions.boolean(2), draws.one(errors))
            case "advance" if not first:
                plain = Expressions(draws, Scope(self._fields, self._names))
                distance: ir.Expr = ir.Const(draws.one([0, 8, 8, 16, 32, 3]))
                if draws.chance(0.7):
                    # Most often a multiple of eight.
                    distance = ir.Binary(
                        "&", plain.typed(16, depth=1), ir.Const(draws.one([8, 0x18, 0x18, 0x38, 0x1F, 0xFFFF]))
                    )
                return ir.Advance(distance)
        return ir.Extract(draws.one(self._names))

    def _select_key(self, extracted: list[str], expressions: Expressions) -> tuple[ir.Expr, ...]:
        draws = self._draws
        key: list[ir.Expr] = []
        for _ in range(draws.one([0, 1, 1, 1, 1, 2, 3])):
            match draws.one(["extracted"] * 5 + ["any", "lookahead", "valid"]):
                case "extracted" if extracted:
                    key.append(draws.one([member for member in self._fields if member.header in extracted]))
                case "lookahead":
                    key.append(expressions.lookahead())
                case "valid":
                    key.append(ir.Valid(draws.one(self._names)))
                case _:
                    key.append(draws.one(self._fields))
        return tuple(key)

    def _case(self, key: tuple[ir.Expr, ...], following: str | None) -> ir.Case:
        draws = self._draws
        values, masks = [], []
        for part in key:
            width = part.width if isinstance(part, ir.FieldRef | ir.Lookahead) else 1
            mask = draws.one([full(width)] * 3 + [draws.number(width), draws.number(width) & 3, 0])
            values.append(draws.number(width) & mask)
            masks.append(mask)
        return ir.Case(tuple(values), tuple(masks), following)


def _same_shape(headers: dict[str, ir.Header]) -> list[tuple[str, str]]:
    """Pairs of headers that can be copied."""
    real = [header for header in headers.values() if not header.metadata]
    return [(a.name, b.name) for a in real for b in real if a is not b and a.fields == b.fields]
