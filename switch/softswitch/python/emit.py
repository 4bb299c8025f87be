# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The whole program as one Python function ``process(port, frame)``.

All fields of a packet are local variables of that function. The other names that it uses (tables, registers, counters,
groups) are put into its namespace by :mod:`softswitch.python.machine`.
"""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.errors import placed
from softswitch.program import ir
from softswitch.program.analysis import analyse
from softswitch.program.standard import STANDARD
from softswitch.program.traverse import FieldKey
from softswitch.python.emit_context import Context, Names
from softswitch.python.emit_passes import PassesEmitter
from softswitch.python.emit_process import ProcessEmitter
from softswitch.python.layout import plan_storage
from softswitch.python.source_writer import Writer


@dataclass(frozen=True)
class Emitted:
    """Generated source, and the ``struct`` formats that it uses.

    A format of ``unpack`` or ``pack`` is bound to the global ``unpack_KEY`` or ``pack_KEY``.
    """

    source: str
    context: Context
    unpack: dict[str, str]
    pack: dict[str, str]


def emit_program(program: ir.Program) -> Emitted:
    """Raises UnsupportedProgramError for what the Python engine cannot run."""
    with placed("the Python engine"):
        return _emit(program)


def _emit(program: ir.Program) -> Emitted:
    usage = analyse(program)
    standard = {member.name for member in program.headers[STANDARD].fields}
    intrinsic: set[FieldKey] = {(STANDARD, name) for name in ("egress_spec", "mcast_grp") if name in standard}
    storage = plan_storage(program, usage, intrinsic)
    track_length = (STANDARD, "packet_length") in usage.egress_reads
    context = Context(program, usage, storage, Names.of(program), track_length)
    out = Writer(context.budget)
    emitter = ProcessEmitter(context, out) if program.passes is None else PassesEmitter(context, out, program.passes)
    emitter.emit()
    valid = {name: layout.valid for name, layout in storage.layouts.items()}
    return Emitted(
        out.text(),
        context,
        {valid[name]: text for name, text in emitter.unpack.items()},
        {valid[name]: text for name, text in emitter.pack.items()},
    )
