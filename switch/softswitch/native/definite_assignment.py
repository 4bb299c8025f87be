# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Definite assignment: finds the fields that are written before they are read.

They need not be set to 0 for each packet. All fields of a valid header have been written: by extract, by setValid, or
by a copy from a valid header.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from softswitch.program import ir
from softswitch.program.analysis import Bounds, Usage
from softswitch.program.traverse import (
    FieldKey,
    expr_fields,
    extracted_headers,
    has_loop,
    operands,
    state_successors,
    successors,
    topological,
)

Fields = frozenset[FieldKey]


def unset_fields(program: ir.Program, usage: Usage, candidates: Iterable[FieldKey]) -> Fields:
    """Return the fields of ``candidates`` that are never read before they are written."""
    return _Flow(program, usage, frozenset(candidates)).run()


class _Flow:
    """Tracks through all stages which fields have been written on every path; records reads of other fields."""

    def __init__(self, program: ir.Program, usage: Usage, candidates: Fields) -> None:
        self._program = program
        self._usage = usage
        self._candidates = candidates
        self._actions = {action.index: action for action in program.actions}
        self._bounds = Bounds()
        self._early: set[FieldKey] = set()

    def run(self) -> Fields:
        written = self._parser()
        self._checksums(written, update=False)
        written = self._pipeline(self._program.ingress, written)
        for digest in self._program.digests.values():
            for value in digest.values:
                self._read_expr(value, written)
        # Replication saves these fields, which reads them.
        late = self._usage.late | {key for key in self._candidates if key[0] in self._usage.late_headers}
        self._read(late, written)
        written = self._pipeline(self._program.egress, written)
        self._checksums(written, update=True)
        for varbit in self._program.varbits.values():
            self._read_expr(varbit.value, written)
        return self._candidates - self._early

    def _read(self, keys: Iterable[FieldKey], written: Fields) -> None:
        self._early.update((self._candidates & frozenset(keys)) - written)

    def _read_expr(self, expr: ir.Expr, written: Fields) -> None:
        self._read(expr_fields(expr), written)

    def _header(self, name: str) -> Fields:
        return frozenset(key for key in self._candidates if key[0] == name)

    def _sure(self, condition: ir.Expr) -> Fields:
        """What has been written wherever the condition is true: the fields of headers that are then valid."""
        return frozenset().union(*(self._header(header) for header in _valid_headers(condition)))

    # -- statements ------------------------------------------------------

    def _body(self, statements: Sequence[ir.Statement], written: Fields) -> Fields:
        for statement in statements:
            for operand in operands(statement):
                self._read_expr(operand, written)
            written = self._statement(statement, written)
        return written

    def _statement(self, statement: ir.Statement, written: Fields) -> Fields:
        match statement:
            case ir.If(condition, then, otherwise):
                return self._body(then, written | self._sure(condition)) & self._body(otherwise, written)
            case ir.Assign(target):
                return written | {(target.header, target.field)}
            case ir.RegisterRead(target, register, index):
                low, high = self._bounds(index)
                if low >= 0 and high < self._program.registers[register].size:
                    return written | {(target.header, target.field)}
            case ir.Hash(target, _, calculation, _):
                self._calculation(calculation, written)
                return written | {(target.header, target.field)}
            case ir.SetValid(header):
                return written | self._header(header)
            case ir.Loop(blocks):
                for block in blocks:
                    self._body(block.statements, written)
        return written

    def _calculation(self, name: str, written: Fields) -> None:
        for chunk in self._program.calculations[name].chunks:
            self._read_expr(chunk.value, written)
            if chunk.length is not None:
                self._read_expr(chunk.length, written)

    def _checksums(self, written: Fields, *, update: bool) -> None:
        for checksum in self._program.checksums:
            if checksum.update if update else checksum.verify:
                self._read_expr(checksum.condition, written)
                self._read_expr(checksum.target, written)
                self._calculation(checksum.calculation, written)

    # -- stages ----------------------------------------------------------

    def _parser(self) -> Fields:
        parser = self._program.parser
        if has_loop(parser):
            return self._parser_with_loops(parser)
        meeting = _Meeting(parser.start, frozenset())
        for name in topological(parser.start, lambda name: state_successors(parser.states[name])):
            state, written = parser.states[name], meeting.at(name)
            for op in state.ops:
                meeting.arrive(None, written)  # an operation may end the parser
                written = self._parser_op(op, written)
            for part in state.key:
                self._read_expr(part, written)
            meeting.arrive(None, written)
            for target in state_successors(state):
                meeting.arrive(target, written)
        return meeting.at(None)

    def _parser_with_loops(self, parser: ir.Parser) -> Fields:
        """No field counts as written before a state: a state can be the first one, or come again."""
        for state in parser.states.values():
            written: Fields = frozenset()
            for op in state.ops:
                written = self._parser_op(op, written)
            for part in state.key:
                self._read_expr(part, written)
        return frozenset()

    def _parser_op(self, op: ir.ParserOp, written: Fields) -> Fields:
        match op:
            case ir.Extract(header):
                return written | self._header(header)
            case ir.Advance(bits):
                self._read_expr(bits, written)
            case ir.ExtractVarbit(_, value, length, bits):
                self._read_expr(bits, written)
                keys = {(value.header, value.field), (length.header, length.field)}
                return written.union(keys, *(self._header(header) for header in extracted_headers(op)))
            case ir.Choose(index, branches):
                self._read_expr(index, written)
                ends = []
                for branch in branches:
                    end = written
                    for inner in branch:
                        end = self._parser_op(inner, end)
                    ends.append(end)
                return frozenset.intersection(*ends)
            case ir.Verify(condition, error):
                self._read_expr(condition, written)
                self._read_expr(error, written)
            case _:
                return self._body([op], written)
        return written

    def _pipeline(self, pipeline: ir.Pipeline, written: Fields) -> Fields:
        meeting = _Meeting(pipeline.start, written)
        for name in topological(pipeline.start, lambda name: successors(pipeline.nodes[name])):
            node = pipeline.nodes[name]
            if isinstance(node, ir.Conditional):
                self._read_expr(node.condition, meeting.at(name))
                meeting.arrive(node.on_true, meeting.at(name) | self._sure(node.condition))
                meeting.arrive(node.on_false, meeting.at(name))
            else:
                self._table(node, meeting)
        return meeting.at(None)

    def _table(self, table: ir.Table, meeting: _Meeting) -> None:
        before = meeting.at(table.name)
        for key in table.keys:
            self._read_expr(key.target, before)
        if table.selector is not None:
            self._calculation(table.selector, before)
        for index in table.actions:
            after = self._body(self._actions[index].body, before)
            meeting.arrive(None, after)  # the action may exit
            for target in (table.on_hit, table.on_miss) if table.by_hit else (table.next[index],):
                meeting.arrive(target, after)


def _valid_headers(condition: ir.Expr) -> Iterator[str]:
    """Headers that are valid wherever the condition is true."""
    match condition:
        case ir.Valid(header):
            yield header
        case ir.Unary("d2b", operand):
            yield from _valid_headers(operand)
        case ir.Binary("and", left, right):
            yield from _valid_headers(left)
            yield from _valid_headers(right)


class _Meeting:
    """The fields written on every path to a node; None is the end."""

    def __init__(self, start: str | None, written: Fields) -> None:
        self._written: dict[str | None, Fields] = {start: written}

    def arrive(self, name: str | None, written: Fields) -> None:
        known = self._written.get(name)
        self._written[name] = written if known is None else known & written

    def at(self, name: str | None) -> Fields:
        return self._written[name]
