# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits a program that clones, resubmits or recirculates.

``process`` takes passes from a queue, first come, first served. A pass goes through ingress (a function of the frame
and of the fields that the packet takes along), or through egress (a function of the packet's whole state).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from softswitch.program import ir
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
from softswitch.python.emit_code import PyContext, Writer
from softswitch.python.emit_parser import DeparserEmitter, ParserEmitter
from softswitch.python.emit_pipeline import PipelineEmitter
from softswitch.python.emit_process import NO_LIMIT, ProcessEmitter

_PROCESS = """\
def process(port, frame):
    out, queue, left = [], [], [PASSES]
    ingress(port, frame, None, queue, left)
    at = 0
    while at < len(queue):
        function, arguments = queue[at]
        queue[at] = None
        trace.turn(at)
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
    trace.lost()
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
        text = _PROCESS.replace("PASSES", str(PASSES))
        self._out.extend(line for line in text.splitlines() if self._out.traces or "trace." not in line)
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
            self._out.trace(f"clone('ingress', {self._clone} & {SESSIONS - 1}, session)")
            with self._if_allowed("session is not None"):
                self._kept(self._clone_list)
                self._out.line(f"clone(came_in, frame, {self._clone_list}, kept, copies(session), queue)")
            self._out.line(f"{self._clone} = {self._clone_list} = 0")

    def _request_again(self, number: str, instance: int, frame: str) -> None:
        with self._if_allowed(number):
            self._kept(number)
            self._out.line(f"queue.append((again, (came_in, {frame}, ({instance}, {number}, kept))))")
            self._out.trace(f"again({instance == INSTANCE_RESUBMITTED}, {frame})")

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
                self._out.trace(f"multicast({group}, replicas)")
                self._out.line(f"limit = {NO_LIMIT}")
                self._out.line(f"{self._recirculate} = 0")
                self._copies("replica")
                self._out.line("return")
        with self._out.block(f"if {spec} != {self._context.program.drop_port}:"):
            self._standard("instance_type", "0")
            self._out.line(f"queue.append((egress, ({spec}, {rid}, {state})))")
            self._out.trace(f"queued('egress', {spec}, {rid})")
        if self._out.traces:
            with self._out.block("else:"):
                self._out.trace("dropped('ingress')")

    def _ingress_clone(self) -> None:
        """The clone is the packet as it came in, parsed anew; metadata that the parser wrote is lost, as in bmv2."""
        self._out.trace("enter('clone')")
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
        self._copies("clone")
        self._out.trace("leave()")

    def _copies(self, kind: str) -> None:
        state = f"({', '.join(self._state())})"
        with self._out.block("for replica in replicas:"):
            self._out.line(f"queue.append((egress, (*replica, {state})))")
            self._out.trace(f"queued('{kind}', *replica)")

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
            self._out.trace(f"clone('egress', {self._clone} & {SESSIONS - 1}, session)")
            with self._if_allowed("session is not None"):
                self._out.line(f"state = {state}")
                self._out.line("replicas = copies(session)")
                self._out.line(f"number = {self._clone_list}")
                self._kept("number")
                self._reset_metadata()
                self._take("number")
                self._standard("instance_type", str(INSTANCE_EGRESS_CLONE))
                self._out.line(f"limit = {NO_LIMIT}")
                self._copies("clone")
                self._out.line(f"{state} = state")
        with self._out.block(f"if {self._fields[STANDARD, 'egress_spec']} == {self._context.program.drop_port}:"):
            self._out.trace("dropped('egress')")
            self._out.line("return")
        self._update()
        self._out.comment("deparser")
        deparser = DeparserEmitter(self._context, self._out)
        deparser.before_replicas()
        self._out.line(f"data = {deparser.per_replica()}")
        self._out.trace(deparser.traced("data"))
        self.pack = deparser.formats()
        self._request_again(self._recirculate, INSTANCE_RECIRCULATED, "data")
        with self._out.block(f"if not {self._recirculate}:"):
            self._out.line("out.append((port, data[:limit]))")
            self._out.trace("transmit(*out[-1])")
