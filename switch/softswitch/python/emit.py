# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits the whole program as one Python function ``process(port, frame)``.

All fields of a packet are local variables of that function. The other names that it uses (tables, registers, counters,
groups) are put into its namespace by :mod:`softswitch.python.engine`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from softswitch.errors import placed
from softswitch.program import ir
from softswitch.program.analysis import analyse
from softswitch.program.standard import STANDARD
from softswitch.program.traverse import FieldKey
from softswitch.python.emit_code import Names, PyContext, Writer, plan_storage
from softswitch.python.emit_passes import PassesEmitter
from softswitch.python.emit_process import ProcessEmitter


@dataclass(frozen=True)
class Emitted:
    """Generated source, and the ``struct`` formats that it uses.

    A format's ``unpack`` or ``pack`` is bound to the global ``unpack_KEY`` or ``pack_KEY``.
    """

    source: str
    context: PyContext
    unpack: dict[str, str]
    pack: dict[str, str]


@functools.lru_cache(maxsize=2)
def emit_program(program: ir.Program, *, traces: bool = False) -> Emitted:
    """Emit the program. Several switches of a process share its code.

    With ``traces`` the code also calls a :class:`softswitch.python.recorder.Recorder`, as ``trace``, for all that
    happens to a packet. Without, it has nothing of that.

    Raises UnsupportedProgramError for a construct that the Python engine cannot run.
    """
    with placed("the Python engine"):
        return _emit(program, traces=traces)


def _emit(program: ir.Program, *, traces: bool) -> Emitted:
    usage = analyse(program)
    standard = {member.name for member in program.headers[STANDARD].fields}
    intrinsic: set[FieldKey] = {(STANDARD, name) for name in ("egress_spec", "mcast_grp") if name in standard}
    storage = plan_storage(program, usage, intrinsic)
    track_length = (STANDARD, "packet_length") in usage.egress_reads
    context = PyContext(program, usage, storage, Names.of(program), track_length)
    out = Writer(context.budget, traces=traces)
    emitter = ProcessEmitter(context, out) if program.passes is None else PassesEmitter(context, out, program.passes)
    emitter.emit()
    valid = {name: layout.valid for name, layout in storage.layouts.items()}
    return Emitted(
        out.text(),
        context,
        {valid[name]: text for name, text in emitter.unpack.items()},
        {valid[name]: text for name, text in emitter.pack.items()},
    )
