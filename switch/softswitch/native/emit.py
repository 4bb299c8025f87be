# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A whole program as one C source that exports ``ss_program`` (engine.h).

A packet is one ``struct packet`` on the stack. It holds the fields that the program uses, the validity of headers, and
where in the frame unchanged headers lie.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from softswitch.errors import ProgramTooLargeError, placed
from softswitch.native.definite_assignment import unset_fields
from softswitch.native.emit_code import INDENT, CContext, Message, plan_storage
from softswitch.native.emit_parser import emit_deparser, emit_parser
from softswitch.native.emit_passes import HEAD, emit_late, emit_passes, emit_replication, emit_send
from softswitch.native.emit_pipeline import emit_actions, emit_pipeline, emit_tables
from softswitch.native.emit_stmt import emit_learn, emit_update, emit_verify
from softswitch.native.limbs import LIMB, Kind, limbs
from softswitch.program import ir
from softswitch.program.analysis import analyse
from softswitch.program.limits import CELLS
from softswitch.program.standard import PACKET_LENGTH


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
    """``source``: C23 with ``unsigned _BitInt`` and vector extensions. ``messages``: log_msg calls by number.
    ``points``: states, branches, hits and actions that the code counts, in words."""

    source: str
    messages: tuple[Message, ...]
    points: tuple[str, ...] = ()


@functools.lru_cache(maxsize=2)
def emit_c(program: ir.Program, *, coverage: bool = False) -> CProgram:
    """Several switches of a process share a program's code.

    With ``coverage`` the code counts in ``ss_reached`` how often it came to each of ``points``.

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
