# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits a whole program as one C source that exports ``ss_program`` (engine.h).

A packet is one ``struct packet`` on the stack. It holds the fields that the program uses, the validity of headers, and
the places of unchanged headers in the frame.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from softswitch.errors import ProgramTooLargeError, placed
from softswitch.native.definite_assignment import unset_fields
from softswitch.native.emit_code import INDENT, CContext, Code, Message, comment, plan_storage
from softswitch.native.emit_expr import CExprEmitter, Expr, Temp
from softswitch.native.emit_parser import emit_deparser, emit_parser
from softswitch.native.emit_passes import HEAD, emit_late, emit_passes, emit_replication, emit_send
from softswitch.native.emit_stmt import CStatementEmitter, emit_learn, emit_update, emit_verify, hash_value
from softswitch.native.limbs import LIMB, LIMB_BITS, WIDE_BITS, Kind, argument_offsets, limbs
from softswitch.program import ir
from softswitch.program.analysis import analyse
from softswitch.program.limits import CELLS, full
from softswitch.program.standard import PACKET_LENGTH
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
    """Return C text of an array with action data, and of the argument to pass; "" and NULL without action data."""
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
    """Return True for a table that always runs the same action. p4c writes a direct action call in this way."""
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
    """Return lines of C: ``NAME(p)`` runs the pipeline."""
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


def emit_types(text: str) -> list[str]:
    """Declarations of the wide integer types that occur in ``text``."""
    between = {int(number) for number in re.findall(r"\bss_v(\d+)_(?:of_)?bits\b", text)}
    integers = {int(number) for number in re.findall(r"\bss_b(\d+)", text)} | between
    return [
        *(f"SS_BITINT({number})" for number in sorted(integers)),
        *(f"SS_VECTOR_BITS({number})" for number in sorted(between)),
    ]


def _members(context: CContext) -> tuple[list[str], list[str]]:
    """Declarations of members that start at 0, and of members that are written before they are read."""
    storage = context.storage
    wide = [key for key in storage.fields if storage.carrier(key).kind is Kind.VECTOR]
    general = context.program.passes is not None
    unset = frozenset() if general else unset_fields(context.program, context.usage, wide)
    lines = ["uint64_t exited;"]
    lines += [f"uint8_t {name};" for name in storage.valid.values()]
    lines += [f"int64_t {name};" for name in storage.positions.values()]
    if context.track_length:
        lines.append(f"uint64_t {PACKET_LENGTH};")
    if context.usage.truncates or general:
        lines.append("size_t limit;  // bytes that may leave; set before egress")
    declared = {key: f"{storage.carrier(key).name} {name};" for key, name in storage.fields.items()}
    lines += [line for key, line in declared.items() if key not in unset]
    return lines, [line for key, line in declared.items() if key in unset]


def emit_state(context: CContext) -> list[str]:
    """Declaration of ``struct packet``; its members before ``machine`` start at 0."""
    zeroed, unset = _members(context)
    passes = context.program.passes is not None
    return [
        "struct packet {",
        *(INDENT + line for line in zeroed),
        "  struct ss_machine *machine;  // so far all starts at 0",
        "  const uint8_t *frame;",
        "  size_t size;",
        "  size_t payload;  // where in the frame what was not parsed starts",
        "  uint64_t now;",
        "  struct ss_sink *sink;",
        *(("  struct passes *passes;", "  uint32_t port;  // where the frame came in") if passes else ()),
        *(INDENT + line for line in unset),
        "};",
        "",
    ]


_COUNTER_LIMBS = 2

# The generated code may compute values that it does not use.
_HEAD = """\
#include "engine.h"
#include "lookup.h"
#include "wide.h"

#pragma clang diagnostic ignored "-Wunused-variable"
#pragma clang diagnostic ignored "-Wunused-but-set-variable"
#pragma clang diagnostic ignored "-Wunused-parameter"
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wunused-label"
#pragma clang diagnostic ignored "-Wtautological-compare"
#pragma clang diagnostic ignored "-Wshift-count-overflow"
"""

_COUNT = """\
static void count_packet(const struct packet *p, uint64_t *cell) {
  cell[0] += 1;
  cell[1] += p->size;
}
"""


_REACHED = """\
extern uint64_t ss_reached[POINTS];
extern const uint32_t ss_points;
extern uint32_t ss_new_points;
uint64_t ss_reached[POINTS];
const uint32_t ss_points = POINTS;
uint32_t ss_new_points;
static inline void ss_reach(uint32_t point) {
  if (ss_reached[point]++ == 0) ss_new_points++;
}
"""


@dataclass(frozen=True)
class CProgram:
    """A program in C. ``source``: C23 with ``unsigned _BitInt`` and vector extensions. ``messages``: log_msg calls by
    number. ``points``: in words, the states, branches, hits and actions that the code counts."""

    source: str
    messages: tuple[Message, ...]
    points: tuple[str, ...] = ()


@functools.lru_cache(maxsize=2)
def emit_c(program: ir.Program, *, coverage: bool = False) -> CProgram:
    """Emit a program as C. Several switches of a process share the code.

    With ``coverage`` the code counts in ``ss_reached`` how often it reached each of ``points``.

    Raises UnsupportedProgramError for a construct that only the Python engine runs.
    """
    with placed("the native engine"):
        return _emit(program, coverage)


def _emit(program: ir.Program, coverage: bool) -> CProgram:
    usage = analyse(program)
    context = CContext.of(program, usage, plan_storage(program, usage), coverage=coverage)
    body = [
        *emit_state(context),
        *_COUNT.splitlines(),
        "",
        *emit_parser(context),
        *emit_actions(context),
        *emit_tables(context),
        *emit_pipeline(context, program.ingress),
        *emit_pipeline(context, program.egress),
        *emit_verify(context),
        *emit_update(context),
        *emit_deparser(context),
        *emit_learn(context),
        *_processing(context),
        *_export(context),
    ]
    text = "\n".join(body)
    points = tuple(context.points or ())
    counters = _REACHED.replace("POINTS", str(max(1, len(points)))).splitlines() if coverage else []
    passes = HEAD.splitlines() if program.passes is not None else []
    source = "\n".join([*_HEAD.splitlines(), *passes, *counters, *emit_types(text), "", text, ""])
    return CProgram(source, tuple(context.messages), points)


# ---------------------------------------------------------------- the program


def _processing(context: CContext) -> list[str]:
    if context.program.passes is not None:
        return emit_passes(context, context.program.passes)
    return [*emit_late(context), *emit_send(context), *_process(context)]


def _process(context: CContext) -> list[str]:
    code = context.code()
    code.line("struct packet packet;")
    code.line("struct packet *const p = &packet;")
    code.line("memset(p, 0, offsetof(struct packet, machine));")
    code.line("p->machine = machine;")
    code.line("p->frame = frame;")
    code.line("p->size = length;")
    code.line("p->now = now_us & 0xffffffffffff;")
    code.line("p->sink = sink;")
    context.set_standard(code, "ingress_port", "port")
    context.set_standard(code, "packet_length", "length")
    context.set_standard(code, "ingress_global_timestamp", "p->now")
    context.set_standard(code, "parser_error", LIMB.constant(context.program.errors["NoError"]))
    if context.track_length:
        code.write(PACKET_LENGTH, "length")
    code.line("parse(p);")
    code.line("verify_checksums(p);")
    code.line(f"pipeline_{context.program.ingress.name}(p);")
    if context.program.digest_request is not None:
        code.line("learn(p);")
    emit_replication(context, code)
    arguments = "struct ss_machine *machine, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now_us"
    return [f"static void process({arguments},", "                    struct ss_sink *sink) {", *code.lines, "}", ""]


def _export(context: CContext) -> list[str]:
    program = context.program
    registers = [_array(register.size, limbs(register.width)) for register in program.registers.values()]
    counters = [_array(program.counters[name].size, _COUNTER_LIMBS) for name in context.counter_numbers]
    sizes = [f"{program.meters[name].size}u" for name in context.meter_numbers]
    more = [f"    .value_sets = {len(program.value_sets)}u,"] if program.value_sets else []
    if sizes:
        more += [f"    .meters = {len(sizes)}u,", "    .meter_sizes = meter_sizes,"]
    return [
        *([f"static const uint32_t meter_sizes[] = {{{', '.join(sizes)}}};"] if sizes else []),
        *_arrays("register_arrays", registers),
        *_arrays("counter_arrays", counters),
        "",
        "extern const struct ss_program ss_program;",
        "const struct ss_program ss_program = {",
        f"    .tables = {len(program.tables)}u,",
        f"    .registers = {len(registers)}u,",
        f"    .counters = {len(counters)}u,",
        f"    .register_arrays = {'register_arrays' if registers else 'NULL'},",
        f"    .counter_arrays = {'counter_arrays' if counters else 'NULL'},",
        "    .process = process,",
        *more,
        "};",
    ]


def _array(size: int, stride: int) -> str:
    if not 0 <= size <= CELLS:
        raise ProgramTooLargeError(f"{size} cells of a register or counter, at most {CELLS}; make it smaller")
    return f"{{{size}u, {stride}u}}"


def _arrays(name: str, values: list[str]) -> list[str]:
    return [f"static const struct ss_array {name}[] = {{{', '.join(values)}}};"] if values else []
