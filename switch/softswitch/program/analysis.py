# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which fields and headers a program reads and writes. Engines leave out fields that the program never reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from softswitch.program import ir
from softswitch.program.standard import STANDARD
from softswitch.program.traverse import (
    FieldKey,
    expr_fields,
    extracted_headers,
    flatten,
    operands,
    parser_ops,
    written_field,
)


@dataclass
class Effects:
    """What a part of a program reads and writes.

    ``touched``: headers whose validity or whole content changes. ``copies``: (target, source) of header assignments.
    ``drops``: whether it contains mark_to_drop. ``truncates``: whether it contains truncate.
    """

    reads: set[FieldKey]
    writes: set[FieldKey]
    touched: set[str]
    copies: set[tuple[str, str]]
    drops: bool = False
    truncates: bool = False

    @classmethod
    def none(cls) -> Effects:
        return cls(set(), set(), set(), set())

    def statements(self, statements: Iterable[ir.Statement], program: ir.Program) -> None:
        for statement in flatten(statements):
            for operand in operands(statement):
                self.reads.update(expr_fields(operand))
            written = written_field(statement)
            if written is not None:
                self.writes.add(written)
            match statement:
                case ir.SetValid(header) | ir.SetInvalid(header, _):
                    self.touched.add(header)
                case ir.AssignHeader(target, source):
                    self.touched.add(target)
                    self.copies.add((target, source))
                case ir.MarkToDrop():
                    self.drops = True
                    self.writes.update([(STANDARD, "egress_spec"), (STANDARD, "mcast_grp")])
                case ir.Truncate():
                    self.truncates = True
                case ir.Hash(_, _, calculation, _):
                    self.calculation(program.calculations[calculation])

    def calculation(self, calculation: ir.Calculation) -> None:
        for chunk in calculation.chunks:
            self.reads.update(expr_fields(chunk.value))
            if chunk.length is not None:
                self.reads.update(expr_fields(chunk.length))

    def pipeline(self, pipeline: ir.Pipeline, program: ir.Program) -> None:
        by_index = {action.index: action for action in program.actions}
        for node in pipeline.nodes.values():
            if isinstance(node, ir.Conditional):
                self.reads.update(expr_fields(node.condition))
                continue
            for key in node.keys:
                self.reads.update(expr_fields(key.target))
            if node.selector is not None:
                self.calculation(program.calculations[node.selector])
            if node.meter_target is not None:
                self.writes.add((node.meter_target.header, node.meter_target.field))
            for index in node.actions:
                self.statements(by_index[index].body, program)

    def parser(self, program: ir.Program) -> None:
        for state in program.parser.states.values():
            for part in state.key:
                self.reads.update(expr_fields(part))
            for op in parser_ops(state.ops):
                self._parser_op(op, program)

    def _parser_op(self, op: ir.ParserOp, program: ir.Program) -> None:
        match op:
            case ir.Advance(bits):
                self.reads.update(expr_fields(bits))
            case ir.Verify(condition, error):
                self.reads.update(expr_fields(condition))
                self.reads.update(expr_fields(error))
            case ir.ExtractVarbit(_, value, length, bits):
                self.reads.update(expr_fields(bits))
                self.writes.update([(value.header, value.field), (length.header, length.field)])
            case ir.Choose(index):
                self.reads.update(expr_fields(index))
            case ir.Extract():
                pass
            case _:
                self.statements([op], program)

    def checksums(self, program: ir.Program, *, update: bool) -> None:
        for checksum in program.checksums:
            if not (checksum.update if update else checksum.verify):
                continue
            self.reads.update(expr_fields(checksum.condition))
            self.calculation(program.calculations[checksum.calculation])
            target = (checksum.target.header, checksum.target.field)
            if update:
                self.writes.add(target)
            else:
                self.reads.add(target)


@dataclass(frozen=True)
class Usage:
    """What a whole program reads and writes.

    ``read``: fields whose value the program uses. ``written``: fields it assigns. ``changed``: headers that a statement
    may change. ``extracted``: headers that the parser extracts. ``late`` and ``late_headers``: fields and headers that
    egress or the checksum update may change. ``copies``: (target, source) of header assignments. ``egress_reads``:
    fields that egress or the checksum update reads. ``truncates``: whether a statement is a truncate.
    """

    read: frozenset[FieldKey]
    written: frozenset[FieldKey]
    changed: frozenset[str]
    extracted: frozenset[str]
    late: frozenset[FieldKey]
    late_headers: frozenset[str]
    copies: frozenset[tuple[str, str]]
    egress_reads: frozenset[FieldKey]
    truncates: bool


def analyse(program: ir.Program) -> Usage:
    """Collect what all parts of ``program`` read and write."""
    early, late = Effects.none(), Effects.none()
    early.parser(program)
    early.checksums(program, update=False)
    early.pipeline(program.ingress, program)
    if program.digest_request is not None:
        learned = [value for digest in program.digests.values() for value in digest.values]
        for value in (program.digest_request, *learned):
            early.reads.update(expr_fields(value))
    late.pipeline(program.egress, program)
    late.checksums(program, update=True)
    if program.passes is not None:
        kept = [*program.passes.requests, *(each for fields in program.passes.lists.values() for each in fields)]
        late.reads.update((each.header, each.field) for each in kept)
    written = early.writes | late.writes
    changed = {header for header, _ in written} | early.touched | late.touched
    for varbit in program.varbits.values():
        late.reads.update([*expr_fields(varbit.value), *expr_fields(varbit.length)])
    extracted = {
        header
        for state in program.parser.states.values()
        for op in parser_ops(state.ops)
        for header in extracted_headers(op)
    }
    return Usage(
        read=frozenset(early.reads | late.reads),
        written=frozenset(written),
        changed=frozenset(h for h in changed if not program.headers[h].metadata),
        extracted=frozenset(extracted),
        late=frozenset(late.writes),
        late_headers=frozenset({h for h, _ in late.writes} | late.touched),
        copies=frozenset(early.copies | late.copies),
        egress_reads=frozenset(late.reads),
        truncates=early.truncates or late.truncates,
    )
