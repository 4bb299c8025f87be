# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Pipelines: one function per action and per table, and one per pipeline, whose nodes are joined by forward jumps."""

from __future__ import annotations

from softswitch.errors import placed
from softswitch.native.emit_code import CContext, Code, comment
from softswitch.native.emit_expr import CExprEmitter, Expr, Temp
from softswitch.native.emit_stmt import CStatementEmitter, hash_value
from softswitch.native.limbs import LIMB, LIMB_BITS, WIDE_BITS, argument_offsets, limbs
from softswitch.program import ir
from softswitch.program.limits import full
from softswitch.program.traverse import successors, topological

_LOOKUPS = {
    ir.MatchKind.EXACT: "ss_lookup_exact",
    ir.MatchKind.LPM: "ss_lookup_lpm",
    ir.MatchKind.TERNARY: "ss_lookup_ranked",
    ir.MatchKind.RANGE: "ss_lookup_ranked",
}


# ---------------------------------------------------------------- actions


def emit_actions(context: CContext) -> list[str]:
    used = {index for table in context.program.tables.values() for index in table.actions}
    lines: list[str] = []
    for action in context.program.actions:
        if action.index in used and action.body:
            lines += _action(context, action)
    return lines


def _action(context: CContext, action: ir.Action) -> list[str]:
    code = context.code()
    expressions = CExprEmitter(context.storage, code, tuple(parameter.width for parameter in action.parameters))
    with placed(action.source):
        CStatementEmitter(context, code, expressions, f"{action.source}, action {action.name}").body(action.body)
    head = f"static void {context.action_names[action.index]}(struct packet *p, const uint64_t *args) {{"
    return [comment(str(action.source)), head, *code.lines, "}", ""]


def constant_arguments(action: ir.Action, args: tuple[int, ...]) -> tuple[str, str]:
    """C text of an array with action data, and of the argument to pass; without action data empty and NULL."""
    if not args:
        return "", "NULL"
    offsets, total = argument_offsets(parameter.width for parameter in action.parameters)
    words = [0] * total
    for value, parameter, offset in zip(args, action.parameters, offsets, strict=True):
        for i in range(limbs(parameter.width)):
            words[offset + i] = (value & full(parameter.width)) >> LIMB_BITS * i & full(LIMB_BITS)
    alignment = f"_Alignas({WIDE_BITS // 8}) "
    return f"static const {alignment}uint64_t args[] = {{{', '.join(map(LIMB.constant, words))}}};", "args"


# ---------------------------------------------------------------- tables


def is_call(table: ir.Table) -> bool:
    """Return True for a table that always runs the same action: how p4c writes a call."""
    return not table.keys and table.default_const


def emit_tables(context: CContext) -> list[str]:
    return [line for table in context.program.tables.values() if not is_call(table) for line in _table(context, table)]


def _table_name(context: CContext, table: ir.Table) -> str:
    return f"table_{context.table_numbers[table.name]}"


def _table(context: CContext, table: ir.Table) -> list[str]:
    code = context.code()
    number = context.table_numbers[table.name]
    code.line(f"const struct ss_table *table = p->machine->tables[{number}];")
    if table.keys:
        words = _key(context, table, code)
        code.line(f"const struct ss_entry *entry = {_LOOKUPS[table.kind]}(table, key, {words});")
    else:
        code.line("const struct ss_entry *entry = ss_default(table);")
    place = f"{table.source}, table {table.name}"
    if table.keys:
        code.lines_of(_either(context, "entry->hit", f"{place}: hit", f"{place}: miss"))
    if table.meter_target is not None:
        with code.block("if (entry->hit)"):
            expressions = CExprEmitter(context.storage, code)
            wanted = "p->size" if context.program.direct_meter(table.name).counts_bytes else "1"
            colour = f"entry->meter ? ss_execute_meter(entry->meter, {wanted}, p->now) : 0"
            code.line(f"const uint64_t colour = {colour};")
            CStatementEmitter(context, code, expressions, place).store(table.meter_target, Temp("colour", LIMB, 0, 2))
    if table.has_counter:
        code.line("if (entry->cell) count_packet(p, entry->cell);")
    if table.selector is not None:
        _choose(context, table.selector, code)
    with code.block("switch (entry->action)"):
        for position, index in enumerate(table.actions):
            done = [context.reached(f"{place}: action {context.actions[index].name}")]
            if context.actions[index].body:
                done.append(f"{context.action_names[index]}(p, entry->args);")
            if any(done):
                code.line(f"case {position}: {' '.join(filter(None, done))} break;")
        code.line("default: break;")
    code.line("return entry;")
    head = f"static const struct ss_entry *{_table_name(context, table)}(struct packet *p) {{"
    return [comment(f"{table.name}, {table.source}"), head, *code.lines, "}", ""]


def _choose(context: CContext, selector: str, code: Code) -> None:
    """Of an entry with several actions take the one that the hash names."""
    with code.block("if (entry->action == SS_SET)"):
        expressions = CExprEmitter(context.storage, code)
        chosen = hash_value(context.program.calculations[selector], context, code, expressions)
        number = f"(uint32_t){chosen.text} % entry->args[0]"
        code.line(f"entry = (const struct ss_entry *)(uintptr_t)entry->args[1 + {number}];")


def _either(context: CContext, condition: str, then: str, otherwise: str) -> str:
    """Counts one of two points."""
    first, second = context.reached(then), context.reached(otherwise)
    return f"if ({condition}) {first} else {second}" if first else ""


def _key(context: CContext, table: ir.Table, code: Code) -> int:
    """Write the array ``key``; return its size in limbs."""
    words = sum(limbs(key.width) for key in table.keys)
    expressions = CExprEmitter(context.storage, code)
    code.line(f"uint64_t key[{words}];")
    offset = 0
    for key in table.keys:
        value: Expr = key.target
        if key.mask is not None and key.mask != full(key.width):
            value = ir.Binary("&", key.target, ir.Const(key.mask))
        expressions.save(f"key + {offset}", expressions.wrapped(value, key.width), key.width)
        offset += limbs(key.width)
    return words


# ---------------------------------------------------------------- pipelines


def emit_pipeline(context: CContext, pipeline: ir.Pipeline) -> list[str]:
    """Lines of C: ``NAME(p)`` runs the pipeline."""
    return _PipelineEmitter(context, pipeline).emit()


class _PipelineEmitter:
    def __init__(self, context: CContext, pipeline: ir.Pipeline) -> None:
        self._context = context
        self._pipeline = pipeline
        order = topological(pipeline.start, lambda name: successors(pipeline.nodes[name]))
        self._numbers = {name: number for number, name in enumerate(order)}
        self._lines: list[str] = []

    def emit(self) -> list[str]:
        for name, number in self._numbers.items():
            node = self._pipeline.nodes[name]
            self._lines.append(f"node_{number}:;")
            body = self._conditional(node) if isinstance(node, ir.Conditional) else self._table(node)
            self._lines += ["  {", *("  " + line for line in body), "  }"]
        return [f"static void pipeline_{self._pipeline.name}(struct packet *p) {{", *self._lines, "}", ""]

    def _go(self, name: str | None) -> str:
        return "return;" if name is None else f"goto node_{self._numbers[name]};"

    def _conditional(self, node: ir.Conditional) -> list[str]:
        code = self._context.code()
        with placed(node.source):
            test = CExprEmitter(self._context.storage, code).boolean(node.condition)
        place = f"{node.source}, {self._pipeline.name} {node.name}"
        code.lines_of(_either(self._context, test, f"{place}: true", f"{place}: false"))
        code.line(f"if ({test}) {self._go(node.on_true)}")
        code.line(self._go(node.on_false))
        return code.lines

    def _table(self, table: ir.Table) -> list[str]:
        code = self._context.code()
        if is_call(table):
            self._call(table, code)
            return code.lines
        code.line(f"const struct ss_entry *entry = {_table_name(self._context, table)}(p);")
        self._leave_on_exit(table, code)
        if table.by_hit:
            code.line(f"if (entry->hit) {self._go(table.on_hit)}")
            code.line(self._go(table.on_miss))
            return code.lines
        following = [table.next[index] for index in table.actions]
        if len(set(following)) > 1:
            with code.block("switch (entry->action)"):
                for position, name in enumerate(following[:-1]):
                    code.line(f"case {position}: {self._go(name)}")
                code.line(f"default: {self._go(following[-1])}")
        else:
            code.line("(void)entry;")
            code.line(self._go(following[0]))
        return code.lines

    def _call(self, table: ir.Table, code: Code) -> None:
        action = self._context.actions[table.default_action]
        code.lines_of(self._context.reached(f"{table.source}, {table.name}: call"))
        if action.body:
            array, args = constant_arguments(action, table.default_args)
            if array:
                code.line(array)
            code.line(f"{self._context.action_names[action.index]}(p, {args});")
        self._leave_on_exit(table, code)
        code.line(self._go(table.on_miss if table.by_hit else table.next[table.default_action]))

    def _leave_on_exit(self, table: ir.Table, code: Code) -> None:
        if self._context.exits(table):
            code.line("if (p->exited) return;")
