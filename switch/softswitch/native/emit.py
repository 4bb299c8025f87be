# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A whole program as one C source that exports ``ss_program`` (engine.h).

A packet is one ``struct packet`` on the stack: every field that somebody needs, validity, and where headers that
did not change lie in the frame.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from softswitch.native.definite_assignment import unset_fields
from softswitch.native.emit_bounds import binary
from softswitch.native.emit_carrier import LIMB, Kind
from softswitch.native.emit_code import INDENT, Code
from softswitch.native.emit_context import LENGTH, Context, Message
from softswitch.native.emit_deparser import emit_deparser
from softswitch.native.emit_expr import ExprEmitter
from softswitch.native.emit_hash import hash_value
from softswitch.native.emit_parser import emit_parser
from softswitch.native.emit_pipeline import emit_actions, emit_pipeline, emit_tables
from softswitch.native.emit_stmt import StatementEmitter
from softswitch.native.emit_storage import plan_storage
from softswitch.native.limbs import limbs
from softswitch.program import ir
from softswitch.program.analysis import analyse
from softswitch.program.standard import INSTANCE_REPLICA, STANDARD

_PER_REPLICA = ("egress_spec", "egress_port", "egress_rid")  # set anew for every replica
_COUNTER_LIMBS = 2

# A value may be computed that nobody needs in the end.
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


@dataclass(frozen=True)
class CProgram:
    """``source``: C23 that needs ``unsigned _BitInt`` and vector extensions. ``messages``: log_msg by number."""

    source: str
    messages: tuple[Message, ...]


def emit_c(program: ir.Program) -> CProgram:
    """Raises UnsupportedProgramError for what only the Python engine runs."""
    usage = analyse(program)
    context = Context.of(program, usage, plan_storage(program, usage))
    body = [
        *_struct(context),
        *_COUNT.splitlines(),
        "",
        *emit_parser(context),
        *emit_actions(context),
        *emit_tables(context),
        *emit_pipeline(context, program.ingress),
        *emit_pipeline(context, program.egress),
        *_verify(context),
        *_update(context),
        *emit_deparser(context),
        *_late(context),
        *_send(context),
        *_process(context),
        *_export(context),
    ]
    text = "\n".join(body)
    return CProgram("\n".join([*_HEAD.splitlines(), *_types(text), "", text, ""]), tuple(context.messages))


# ---------------------------------------------------------------- types and state


def _types(text: str) -> list[str]:
    """Declarations of the wide integers that the program uses."""
    between = {int(number) for number in re.findall(r"\bss_v(\d+)_(?:of_)?bits\b", text)}
    integers = {int(number) for number in re.findall(r"\bss_b(\d+)", text)} | between
    return [
        *(f"SS_BITINT({number})" for number in sorted(integers)),
        *(f"SS_VECTOR_BITS({number})" for number in sorted(between)),
    ]


def _members(context: Context) -> tuple[list[str], list[str]]:
    """Declarations of what starts at 0, and of what is written before it is read."""
    storage = context.storage
    wide = [key for key in storage.fields if storage.carrier(key).kind is Kind.VECTOR]
    unset = unset_fields(context.program, context.usage, wide)
    lines = ["uint64_t exited;"]
    lines += [f"uint8_t {name};" for name in storage.valid.values()]
    lines += [f"int64_t {name};" for name in storage.positions.values()]
    if context.track_length:
        lines.append(f"uint64_t {LENGTH};")
    declared = {key: f"{storage.carrier(key).name} {name};" for key, name in storage.fields.items()}
    lines += [line for key, line in declared.items() if key not in unset]
    return lines, [line for key, line in declared.items() if key in unset]


def _struct(context: Context) -> list[str]:
    zeroed, unset = _members(context)
    return [
        "struct packet {",
        *(INDENT + line for line in zeroed),
        "  struct ss_machine *machine;  // so far all starts at 0",
        "  const uint8_t *frame;",
        "  size_t size;",
        "  size_t payload;  // where in the frame what was not parsed starts",
        "  uint64_t now;",
        "  struct ss_sink *sink;",
        *(INDENT + line for line in unset),
        "};",
        "",
    ]


# ---------------------------------------------------------------- checksums


def _verify(context: Context) -> list[str]:
    code = Code()
    expressions = ExprEmitter(context.storage, code)
    error = context.storage.fields.get((STANDARD, "checksum_error"))
    for checksum in context.program.checksums:
        if not checksum.verify or error is None:
            continue
        target = checksum.target
        code.comment(f"{target.header}.{target.field}")
        condition = ir.Binary("and", ir.Valid(target.header), checksum.condition)
        with code.block(f"if ({expressions.boolean(condition)})"):
            value = hash_value(context.program.calculations[checksum.calculation], context, code, expressions)
            different = expressions.boolean(binary("!=", value, target))
            with code.block(f"if ({different})"):
                code.write(error, "1ull")
    return ["static void verify_checksums(struct packet *p) {", *code.lines, "}", ""]


def _update(context: Context) -> list[str]:
    code = Code()
    expressions = ExprEmitter(context.storage, code)
    statements = StatementEmitter(context, code, expressions)
    for checksum in context.program.checksums:
        if not checksum.update:
            continue
        code.comment(f"{checksum.target.header}.{checksum.target.field}")
        with code.block(f"if ({expressions.boolean(checksum.condition)})"):
            value = hash_value(context.program.calculations[checksum.calculation], context, code, expressions)
            statements.store(checksum.target, value)
    return ["static void update_checksums(struct packet *p) {", *code.lines, "}", ""]


# ---------------------------------------------------------------- replication


def _late_members(context: Context) -> list[tuple[str, str]]:
    """Type and name of what the stages behind replication may change: every replica starts with the same."""
    usage, storage = context.usage, context.storage
    headers = sorted(header for header in usage.late_headers if header in storage.valid)
    keys = [key for key in storage.fields if key in usage.late or key[0] in headers]
    found = [(storage.carrier(key).name, storage.fields[key]) for key in keys if key not in _reset()]
    found += [("uint8_t", storage.valid[header]) for header in headers]
    found += [("int64_t", storage.positions[header]) for header in headers if header in storage.positions]
    if context.track_length:
        found.append(("uint64_t", LENGTH))
    return found


def _reset() -> set[tuple[str, str]]:
    return {(STANDARD, name) for name in _PER_REPLICA}


def _late(context: Context) -> list[str]:
    found = _late_members(context)
    return [
        "struct late {",
        *(f"  {type_name} {name};" for type_name, name in found),
        "  uint8_t nothing;",
        "};",
        "",
        "static inline void keep(struct late *late, const struct packet *p) {",
        *(f"  late->{name} = p->{name};" for _, name in found),
        "}",
        "",
        "static inline void restore(struct packet *p, const struct late *late) {",
        *(f"  p->{name} = late->{name};" for _, name in found),
        "}",
        "",
    ]


def _send(context: Context) -> list[str]:
    """From egress on, for one replica."""
    code = Code()
    code.write("exited", "0")
    context.set_standard(code, "egress_spec", "0ull")
    context.set_standard(code, "egress_port", "port")
    context.set_standard(code, "egress_rid", "instance")
    context.set_standard(code, "egress_global_timestamp", "p->now")
    if context.track_length:
        context.set_standard(code, "packet_length", code.read(LENGTH, LIMB))
    code.line(f"pipeline_{context.program.egress.name}(p);")
    if (STANDARD, "egress_spec") in context.usage.late:
        member = context.storage.fields[STANDARD, "egress_spec"]
        code.line(f"if (p->{member} == SS_DROP_PORT) return;")
    code.line("update_checksums(p);")
    code.line("deparse(p, port);")
    return ["static void send(struct packet *p, uint32_t port, uint32_t instance) {", *code.lines, "}", ""]


def _replicate(context: Context, code: Code) -> None:
    fields = context.storage.fields
    spec = f"p->{fields[STANDARD, 'egress_spec']}"
    rid = fields.get((STANDARD, "egress_rid"))
    group = fields.get((STANDARD, "mcast_grp"))
    code.line(f"struct ss_replica one = {{(uint32_t){spec}, {f'(uint32_t)p->{rid}' if rid else '0'}}};")
    code.line("struct ss_group to = {&one, 1};")
    head = f"if ({spec} == SS_DROP_PORT)"
    if group is not None:
        with code.block(f"if (p->{group})"):
            code.line(f"to = p->machine->groups[p->{group} % SS_GROUPS];")
            context.set_standard(code, "instance_type", LIMB.constant(INSTANCE_REPLICA))
        head = f"else {head}"
    with code.block(head):
        code.line("return;")
    code.line("struct late late;")
    code.line("if (to.count > 1) keep(&late, p);")
    with code.block("for (uint32_t i = 0; i < to.count; i++)"):
        code.line("if (i) restore(p, &late);")
        code.line("send(p, to.replicas[i].port, to.replicas[i].instance);")


# ---------------------------------------------------------------- the program


def _process(context: Context) -> list[str]:
    code = Code()
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
        code.write(LENGTH, "length")
    code.line("parse(p);")
    code.line("verify_checksums(p);")
    code.line(f"pipeline_{context.program.ingress.name}(p);")
    _replicate(context, code)
    arguments = "struct ss_machine *machine, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now_us"
    return [f"static void process({arguments},", "                    struct ss_sink *sink) {", *code.lines, "}", ""]


def _export(context: Context) -> list[str]:
    program = context.program
    registers = [f"{{{register.size}u, {limbs(register.width)}u}}" for register in program.registers.values()]
    counters = [f"{{{program.counters[name].size}u, {_COUNTER_LIMBS}u}}" for name in context.counter_numbers]
    return [
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
        "};",
    ]


def _arrays(name: str, values: list[str]) -> list[str]:
    return [f"static const struct ss_array {name}[] = {{{', '.join(values)}}};"] if values else []
