# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits a program without clones, resubmits and recirculation as one function ``process(port, frame)``."""

from __future__ import annotations

from softswitch.program import ir
from softswitch.program.emitted_text import literal
from softswitch.program.standard import INSTANCE_REPLICA, PACKET_LENGTH, STANDARD
from softswitch.python.emit_code import PyContext, UnitKind, Writer, bare
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
            self._out.trace(f"leaving('replica' if {self._group()} else 'egress', port, rid)")
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
                self._out.trace(f"digest({literal(digest.name)}, ({values}))")

    # -- checksums -------------------------------------------------------

    def _verify(self) -> None:
        error = self._fields.get((STANDARD, "checksum_error"))
        if error is None and not self._out.traces:
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
                given = self._fields[target.header, target.field]
                self._out.trace(f"checksum({literal(checksum.name)}, {value.text} == {given})")
                if error is None:
                    continue
                with self._out.block(f"if {value.text} != {given}:"):
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
                self._out.trace(f"checksum_update({literal(checksum.name)})")
                known = _implied_header(checksum.condition)
                calculation = self._program.calculations[checksum.calculation]
                value = hash_value(calculation, self._context.storage, self._program, self._out, known)
                statements.store(target, value, set())

    # -- between ingress and egress --------------------------------------

    def _group(self) -> str:
        """The multicast group, 0 for none."""
        return self._fields.get((STANDARD, "mcast_grp"), "0")

    def _replicate(self) -> None:
        spec = self._fields[STANDARD, "egress_spec"]
        group = self._fields.get((STANDARD, "mcast_grp"))
        rid = self._fields.get((STANDARD, "egress_rid"), "0")
        self._out.comment("replication")
        head = "if"
        if group is not None:
            with self._out.block(f"if {group}:"):
                self._out.line(f"replicas = groups.get({group}, ())")
                self._out.trace(f"multicast({group}, replicas)")
                self._standard("instance_type", str(INSTANCE_REPLICA))
            head = "elif"
        with self._out.block(f"{head} {spec} == {self._context.program.drop_port}:"):
            self._out.trace("dropped('ingress')")
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
                self._out.trace("dropped('egress')")
                self._out.line("continue")
        self._update()
        self._out.comment("deparser")
        limit = "[:limit]" if self._context.usage.truncates else ""
        data = deparser.per_replica()
        self._out.trace(deparser.traced(data))
        self._out.line(f"out.append((port, {data}{limit}))")
        self._out.trace("transmit(*out[-1])")


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
