# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits the whole program as one Python function ``process(port, frame)``.

All fields of a packet are local variables of that function. The other names that it uses (tables, registers, counters,
groups) are put into its namespace by :mod:`softswitch.python.engine`. For a program that clones, resubmits or
recirculates, ``process`` takes passes from a queue, first come, first served. A pass goes through ingress (a function
of the frame and of the fields that the packet takes along), or through egress (a function of the packet's whole state).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from softswitch.errors import placed
from softswitch.program import ir
from softswitch.program.analysis import analyse
from softswitch.program.emitted_text import literal
from softswitch.program.limits import PASSES, SESSIONS
from softswitch.program.standard import (
    HIDDEN,
    INSTANCE_EGRESS_CLONE,
    INSTANCE_INGRESS_CLONE,
    INSTANCE_RECIRCULATED,
    INSTANCE_REPLICA,
    INSTANCE_RESUBMITTED,
    PACKET_LENGTH,
    STANDARD,
)
from softswitch.program.traverse import FieldKey
from softswitch.python.emit_code import Names, PyContext, UnitKind, Writer, bare, plan_storage
from softswitch.python.emit_expr import PyExprEmitter
from softswitch.python.emit_parser import DeparserEmitter, ParserEmitter
from softswitch.python.emit_pipeline import PipelineEmitter
from softswitch.python.emit_stmt import PyStatementEmitter, hash_value, kept_by_entries

# Longer than any frame.
NO_LIMIT = 1 << 32


class ProcessEmitter:
    def __init__(self, context: PyContext, out: Writer) -> None:
        self._context = context
        self._out = out
        self._program = context.program
        self._fields = context.storage.fields
        self.unpack: dict[str, str] = {}
        self.pack: dict[str, str] = {}

    def emit(self) -> None:
        with self._out.block("def process(port, frame):"):
            self._body()

    def _body(self) -> None:
        self._start()
        self.unpack = ParserEmitter(self._context, self._out).emit()
        self._verify()
        self._out.comment("ingress")
        PipelineEmitter(self._context, self._out, self._program.ingress).emit()
        self._learn()
        self._replicate()
        deparser = DeparserEmitter(self._context, self._out)
        deparser.before_replicas()
        saved = self._late_locals()
        self._out.extend(f"s_{name} = {name}" for name in saved)
        self._out.line("out = []")
        with self._out.block("for port, rid in replicas:"):
            self._out.extend(f"{name} = s_{name}" for name in saved)
            self._start_egress()
            self._out.comment("egress")
            PipelineEmitter(self._context, self._out, self._program.egress).emit()
            self._leave(deparser)
        self._out.line("return out")
        self.pack = deparser.formats()

    # -- start -----------------------------------------------------------

    def _standard(self, name: str, value: str) -> None:
        """Set a field of standard_metadata if the program keeps it."""
        local = self._fields.get((STANDARD, name))
        if local is not None:
            self._out.line(f"{local} = {value}")

    def _start(self) -> None:
        self._out.line("size = len(frame)")
        read = self._context.usage.read | kept_by_entries(self._program)
        zero: list[str] = []
        for (header, name), local in self._fields.items():
            if self._program.headers[header].metadata or (header, name) in read:
                zero.append(local)
        zero += [layout.valid for layout in self._context.storage.layouts.values()]
        zero += self._late_locals()
        zero = [name for name in dict.fromkeys(zero) if name not in self._late_bytes()]
        for start in range(0, len(zero), 16):
            self._out.zero(zero[start : start + 16])
        self._out.zero(self._late_bytes(), "b''")
        self._standard("ingress_port", "port")
        self._standard("packet_length", "size")
        self._standard("ingress_global_timestamp", "now()")
        no_error = self._program.errors["NoError"]
        if no_error:
            self._standard("parser_error", str(no_error))
        if self._context.track_length:
            self._out.line(f"{PACKET_LENGTH} = size")
        self._forget_limit()

    def _learn(self) -> None:
        """Send the digest that ingress asked for."""
        request = self._program.digest_request
        if request is None:
            return
        expressions = PyExprEmitter(self._context)
        local = self._fields[request.header, request.field]
        for number, digest in self._program.digests.items():
            with self._out.block(f"if {local} == {number}:"):
                values = "".join(f"{expressions.data(value).text}, " for value in digest.values)
                self._out.line(f"learn({literal(digest.name)}, ({values}))")

    # -- checksums -------------------------------------------------------

    def _verify(self) -> None:
        error = self._fields.get((STANDARD, "checksum_error"))
        if error is None:
            return
        expressions = PyExprEmitter(self._context)
        for checksum in self._program.checksums:
            if not checksum.verify:
                continue
            target = checksum.target
            condition = expressions.boolean(checksum.condition)
            self._out.comment(f"verify {target.header}.{target.field}")
            with self._out.block(f"if {self._context.storage.valid(target.header)} and {condition}:"):
                calculation = self._program.calculations[checksum.calculation]
                value = hash_value(calculation, self._context.storage, self._program, self._out, target.header)
                with self._out.block(f"if {value.text} != {self._fields[target.header, target.field]}:"):
                    self._out.line(f"{error} = 1")

    def _update(self) -> None:
        expressions = PyExprEmitter(self._context)
        statements = PyStatementEmitter(self._context, self._out, expressions)
        for checksum in self._program.checksums:
            if not checksum.update:
                continue
            target = checksum.target
            self._out.comment(f"update {target.header}.{target.field}")
            with self._out.block(f"if {bare(expressions.boolean(checksum.condition))}:"):
                known = _implied_header(checksum.condition)
                calculation = self._program.calculations[checksum.calculation]
                value = hash_value(calculation, self._context.storage, self._program, self._out, known)
                statements.store(target, value, set())

    # -- between ingress and egress --------------------------------------

    def _replicate(self) -> None:
        spec = self._fields[STANDARD, "egress_spec"]
        group = self._fields.get((STANDARD, "mcast_grp"))
        rid = self._fields.get((STANDARD, "egress_rid"), "0")
        self._out.comment("replication")
        head = "if"
        if group is not None:
            with self._out.block(f"if {group}:"):
                self._out.line(f"replicas = groups.get({group}, ())")
                self._standard("instance_type", str(INSTANCE_REPLICA))
            head = "elif"
        with self._out.block(f"{head} {spec} == {self._context.program.drop_port}:"):
            self._out.line("return []")
        with self._out.block("else:"):
            self._out.line(f"replicas = (({spec}, {rid}),)")

    def _late_locals(self) -> list[str]:
        """Locals that egress and later stages may change: saved, so that all replicas start with the same values."""
        usage, storage = self._context.usage, self._context.storage
        names = [self._fields[key] for key in sorted(usage.late) if key in self._fields]
        for header in sorted(usage.late_headers):
            layout = storage.layouts.get(header)
            if layout is None:
                continue
            names.append(layout.valid)
            if self._context.keeps_position(header):
                names.append(layout.position)
            names += [unit.local for unit in layout.units if unit.kind is UnitKind.INTEGER]
        names += self._late_bytes()
        if self._context.track_length:
            names.append(PACKET_LENGTH)
        intrinsic = {"egress_spec", "egress_port", "egress_rid"}
        skipped = {self._fields.get((STANDARD, name)) for name in intrinsic}
        return [name for name in dict.fromkeys(names) if name not in skipped]

    def _late_bytes(self) -> list[str]:
        """Locals with bytes that the program does not read, of headers that later stages may clear."""
        layouts = [self._context.storage.layouts.get(name) for name in sorted(self._context.usage.late_headers)]
        return [unit.local for layout in layouts if layout for unit in layout.units if unit.kind is UnitKind.BYTES]

    def _forget_limit(self) -> None:
        if self._context.usage.truncates:
            self._out.line(f"limit = {NO_LIMIT}")

    def _start_egress(self) -> None:
        self._forget_limit()
        if (STANDARD, "egress_spec") in self._context.usage.egress_reads | self._context.usage.late:
            self._standard("egress_spec", "0")
        self._egress_metadata()

    def _egress_metadata(self) -> None:
        self._standard("egress_port", "port")
        self._standard("egress_rid", "rid")
        self._standard("egress_global_timestamp", "now()")
        if self._context.track_length:
            self._standard("packet_length", PACKET_LENGTH)

    def _leave(self, deparser: DeparserEmitter) -> None:
        if (STANDARD, "egress_spec") in self._context.usage.late:
            with self._out.block(f"if {self._fields[STANDARD, 'egress_spec']} == {self._context.program.drop_port}:"):
                self._out.line("continue")
        self._update()
        self._out.comment("deparser")
        limit = "[:limit]" if self._context.usage.truncates else ""
        self._out.line(f"out.append((port, {deparser.per_replica()}{limit}))")


def _implied_header(condition: ir.Expr) -> str | None:
    """A header that is valid wherever ``condition`` holds."""
    match condition:
        case ir.Valid(header):
            return header
        case ir.Unary("d2b" | "b2d", operand):
            return _implied_header(operand)
        case ir.Binary("and", left, right):
            return _implied_header(left) or _implied_header(right)
    return None


_PROCESS = """\
def process(port, frame):
    out, queue, left = [], [], [PASSES]
    ingress(port, frame, None, queue, left)
    at = 0
    while at < len(queue):
        function, arguments = queue[at]
        queue[at] = None
        at += 1
        function(*arguments, queue, left, out)
    return out

def again(port, frame, kept, queue, left, out):
    ingress(port, frame, kept, queue, left)

def may_pass(left):
    if left[0]:
        left[0] -= 1
        return True
    lost_passes[0] += 1
    return False

def copies(session):
    replicas, group = session
    return groups.get(group, ()) + replicas"""


class PassesEmitter(ProcessEmitter):
    def __init__(self, context: PyContext, out: Writer, passes: ir.Passes) -> None:
        super().__init__(context, out)
        self._passes = passes
        self._clone, self._clone_list, self._resubmit, self._recirculate = (
            self._fields[each.header, each.field] for each in passes.requests
        )

    def emit(self) -> None:
        self._out.extend(_PROCESS.replace("PASSES", str(PASSES)).splitlines())
        with self._out.block("def ingress(port, frame, kept, queue, left):"):
            self._ingress()
        with self._out.block("def clone(port, frame, number, kept, replicas, queue):"):
            self._ingress_clone()
        with self._out.block("def egress(port, rid, state, queue, left, out):"):
            self._egress()

    # -- what a packet is, and takes along -------------------------------

    def _state(self) -> list[str]:
        names = list(self._fields.values())
        for layout in self._context.storage.layouts.values():
            names += [layout.valid, *layout.locals]
            if self._context.keeps_position(layout.header.name):
                names.append(layout.position)
        names += ["frame", "size", "payload", "came_in", "limit"]
        if self._context.track_length:
            names.append(PACKET_LENGTH)
        return list(dict.fromkeys(names))

    def _clear(self) -> None:
        """All of a packet's state starts at nothing."""
        numbers = [name for name in self._state() if name not in ("frame", "size", "payload", "came_in", "limit")]
        for start in range(0, len(numbers), 16):
            self._out.zero(numbers[start : start + 16])
        self._out.zero(self._late_bytes(), "b''")
        self._out.line(f"limit = {NO_LIMIT}")

    def _kept(self, number: str) -> None:
        """Write ``kept``: the values that list ``number`` names."""
        self._out.line("kept = ()")
        for index, (own, fields) in enumerate(self._passes.lists.items()):
            with self._out.block(f"{'elif' if index else 'if'} {number} == {own}:"):
                texts = "".join(f"{self._fields[each.header, each.field]}, " for each in fields)
                self._out.line(f"kept = ({texts})")

    def _take(self, number: str) -> None:
        """The opposite of :meth:`_kept`."""
        for index, (own, fields) in enumerate(self._passes.lists.items()):
            with self._out.block(f"{'elif' if index else 'if'} {number} == {own}:"):
                texts = "".join(f"{self._fields[each.header, each.field]}, " for each in fields)
                if texts:
                    self._out.line(f"({texts}) = kept")

    def _reset_metadata(self) -> None:
        """All metadata but the loader's own, which belongs to headers; and no requests."""
        headers = self._program.headers
        names = [local for (name, _), local in self._fields.items() if headers[name].metadata and name != HIDDEN]
        self._out.zero([*names, self._clone, self._clone_list, self._resubmit, self._recirculate])

    @contextmanager
    def _if_allowed(self, condition: str) -> Iterator[None]:
        with self._out.block(f"if {condition} and may_pass(left):"):
            yield

    # -- ingress ---------------------------------------------------------

    def _ingress(self) -> None:
        self._out.line("size = len(frame)")
        self._out.line("came_in = port")
        self._clear()
        with self._out.block("if kept is None:"):
            self._standard("ingress_port", "port")
            self._standard("ingress_global_timestamp", "now()")
        with self._out.block("else:"):
            self._out.line("instance, number, kept = kept")
            self._take("number")
            self._standard("instance_type", "instance")
            self._standard("checksum_error", "0")
        self._standard("packet_length", "size")
        self._standard("parser_error", str(self._program.errors["NoError"]))
        if self._context.track_length:
            self._out.line(f"{PACKET_LENGTH} = size")
        self.unpack = ParserEmitter(self._context, self._out).emit()
        self._verify()
        self._out.comment("ingress")
        PipelineEmitter(self._context, self._out, self._program.ingress).emit()
        self._request_clone()
        self._learn()
        self._request_again(self._resubmit, INSTANCE_RESUBMITTED, "frame")
        with self._out.block(f"if {self._resubmit}:"):
            self._out.line("return")
        self._send()

    def _request_clone(self) -> None:
        self._out.comment("clone")
        with self._out.block(f"if {self._clone}:"):
            self._out.line(f"session = sessions.get({self._clone} & {SESSIONS - 1})")
            with self._if_allowed("session is not None"):
                self._kept(self._clone_list)
                self._out.line(f"clone(came_in, frame, {self._clone_list}, kept, copies(session), queue)")
            self._out.line(f"{self._clone} = {self._clone_list} = 0")

    def _request_again(self, number: str, instance: int, frame: str) -> None:
        with self._if_allowed(number):
            self._kept(number)
            self._out.line(f"queue.append((again, (came_in, {frame}, ({instance}, {number}, kept))))")

    def _send(self) -> None:
        spec = self._fields[STANDARD, "egress_spec"]
        group = self._fields.get((STANDARD, "mcast_grp"))
        rid = self._fields.get((STANDARD, "egress_rid"), "0")
        state = f"({', '.join(self._state())})"
        self._out.comment("replication")
        if group is not None:
            with self._out.block(f"if {group}:"):
                self._standard("instance_type", str(INSTANCE_REPLICA))
                self._out.line(f"replicas = groups.get({group}, ())")
                self._out.line(f"limit = {NO_LIMIT}")
                self._out.line(f"{self._recirculate} = 0")
                self._copies()
                self._out.line("return")
        with self._out.block(f"if {spec} != {self._context.program.drop_port}:"):
            self._standard("instance_type", "0")
            self._out.line(f"queue.append((egress, ({spec}, {rid}, {state})))")

    def _ingress_clone(self) -> None:
        """The clone is the packet as it came in, parsed anew; metadata that the parser wrote is lost, as in bmv2."""
        self._out.line("size = len(frame)")
        self._out.line("came_in = port")
        self._clear()
        self._standard("ingress_port", "port")
        if self._context.track_length:
            self._out.line(f"{PACKET_LENGTH} = size")
        ParserEmitter(self._context, self._out).emit()
        self._reset_metadata()
        self._take("number")
        self._standard("instance_type", str(INSTANCE_INGRESS_CLONE))
        self._copies()

    def _copies(self) -> None:
        state = f"({', '.join(self._state())})"
        with self._out.block("for replica in replicas:"):
            self._out.line(f"queue.append((egress, (*replica, {state})))")

    # -- egress ----------------------------------------------------------

    def _egress(self) -> None:
        state = ", ".join(self._state())
        self._out.line(f"{state} = state")
        self._standard("egress_spec", "0")
        self._egress_metadata()
        self._out.comment("egress")
        PipelineEmitter(self._context, self._out, self._program.egress).emit()
        self._out.comment("clone")
        with self._out.block(f"if {self._clone}:"):
            self._out.line(f"session = sessions.get({self._clone} & {SESSIONS - 1})")
            with self._if_allowed("session is not None"):
                self._out.line(f"state = {state}")
                self._out.line("replicas = copies(session)")
                self._out.line(f"number = {self._clone_list}")
                self._kept("number")
                self._reset_metadata()
                self._take("number")
                self._standard("instance_type", str(INSTANCE_EGRESS_CLONE))
                self._out.line(f"limit = {NO_LIMIT}")
                self._copies()
                self._out.line(f"{state} = state")
        with self._out.block(f"if {self._fields[STANDARD, 'egress_spec']} == {self._context.program.drop_port}:"):
            self._out.line("return")
        self._update()
        self._out.comment("deparser")
        deparser = DeparserEmitter(self._context, self._out)
        deparser.before_replicas()
        self._out.line(f"data = {deparser.per_replica()}")
        self.pack = deparser.formats()
        self._request_again(self._recirculate, INSTANCE_RECIRCULATED, "data")
        with self._out.block(f"if not {self._recirculate}:"):
            self._out.line("out.append((port, data[:limit]))")


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
def emit_program(program: ir.Program) -> Emitted:
    """Emit the program. Several switches of a process share its code.

    Raises UnsupportedProgramError for a construct that the Python engine cannot run.
    """
    with placed("the Python engine"):
        return _emit(program)


def _emit(program: ir.Program) -> Emitted:
    usage = analyse(program)
    standard = {member.name for member in program.headers[STANDARD].fields}
    intrinsic: set[FieldKey] = {(STANDARD, name) for name in ("egress_spec", "mcast_grp") if name in standard}
    storage = plan_storage(program, usage, intrinsic)
    track_length = (STANDARD, "packet_length") in usage.egress_reads
    context = PyContext(program, usage, storage, Names.of(program), track_length)
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
