# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits what follows ingress: replication, egress for each replica, and further passes of one packet.

Only programs that ask for clones, resubmitted or recirculated packets have code for passes. ``process`` takes passes
from a queue, first come, first served; a pass is a copy of the packet's state. One frame causes at most PASSES passes;
further ones are dropped and counted.
"""

from __future__ import annotations

from softswitch.native.emit_code import CContext, Code
from softswitch.native.limbs import LIMB
from softswitch.program import ir
from softswitch.program.limits import PASSES
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

_PER_REPLICA = ("egress_spec", "egress_port", "egress_rid")  # set for every replica


def _late_members(context: CContext) -> list[tuple[str, str]]:
    """Types and names of members that egress and later stages may change: saved, so that all replicas start alike."""
    usage, storage = context.usage, context.storage
    headers = sorted(header for header in usage.late_headers if header in storage.valid)
    keys = [key for key in storage.fields if key in usage.late or key[0] in headers]
    found = [(storage.carrier(key).name, storage.fields[key]) for key in keys if key not in _reset()]
    found += [("uint8_t", storage.valid[header]) for header in headers]
    found += [("int64_t", storage.positions[header]) for header in headers if header in storage.positions]
    if context.track_length:
        found.append(("uint64_t", PACKET_LENGTH))
    return found


def _reset() -> set[tuple[str, str]]:
    return {(STANDARD, name) for name in _PER_REPLICA}


def emit_late(context: CContext) -> list[str]:
    """Return lines of C: ``keep`` saves the members that late stages change, and ``restore`` restores them."""
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


def emit_send(context: CContext) -> list[str]:
    """Return lines of C: ``send(p, port, instance)`` runs egress and the later stages for one replica."""
    code = context.code()
    code.write("exited", "0")
    if context.usage.truncates:
        code.line("p->limit = SIZE_MAX;")
    context.set_standard(code, "egress_spec", "0ull")
    context.set_standard(code, "egress_port", "port")
    context.set_standard(code, "egress_rid", "instance")
    context.set_standard(code, "egress_global_timestamp", "p->now")
    if context.track_length:
        context.set_standard(code, "packet_length", code.read(PACKET_LENGTH, LIMB))
    code.line(f"pipeline_{context.program.egress.name}(p);")
    if (STANDARD, "egress_spec") in context.usage.late:
        member = context.storage.fields[STANDARD, "egress_spec"]
        code.line(f"if (p->{member} == {context.program.drop_port}u) return;")
    code.line("update_checksums(p);")
    code.line("deparse(p, port);")
    return ["static void send(struct packet *p, uint32_t port, uint32_t instance) {", *code.lines, "}", ""]


def emit_replication(context: CContext, code: Code) -> None:
    """Write the code after ingress: drop the packet, or send its replicas."""
    fields = context.storage.fields
    spec = f"p->{fields[STANDARD, 'egress_spec']}"
    rid = fields.get((STANDARD, "egress_rid"))
    group = fields.get((STANDARD, "mcast_grp"))
    code.line(f"struct ss_replica one = {{(uint32_t){spec}, {f'(uint32_t)p->{rid}' if rid else '0'}}};")
    code.line("struct ss_group to = {&one, 1};")
    head = f"if ({spec} == {context.program.drop_port}u)"
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


HEAD = """\
#include <stdlib.h>

struct passes;
"""

_QUEUE = """\
struct pass {
  struct pass *next;
  uint32_t late;  // to egress, not to ingress
  uint32_t port;
  uint32_t instance;
  struct packet packet;
};

// A frame that goes to ingress again. It lives until all passes have ended.
struct buffer {
  struct buffer *next;
  uint8_t data[];
};

struct passes {
  struct pass *first, **last;
  struct buffer *buffers;
  uint32_t left;
};

static int may_pass(struct packet *p) {
  if (p->passes->left == 0) {
    p->machine->lost_passes++;
    return 0;
  }
  p->passes->left--;
  return 1;
}

static struct pass *add_pass(const struct packet *p) {
  struct pass *pass = malloc(sizeof *pass);
  if (pass == NULL) {
    p->machine->lost_passes++;
    return NULL;
  }
  pass->next = NULL;
  pass->late = 0;
  pass->packet = *p;
  *p->passes->last = pass;
  p->passes->last = &pass->next;
  return pass;
}

static void add_egress(const struct packet *p, uint32_t port, uint32_t instance) {
  struct pass *pass = add_pass(p);
  if (pass == NULL) return;
  pass->late = 1;
  pass->port = port;
  pass->instance = instance;
}

static void add_copies(const struct packet *p, const struct ss_session *session) {
  const struct ss_group *group = &p->machine->groups[session->group];
  for (uint32_t i = 0; session->group && i < group->count; i++) {
    add_egress(p, group->replicas[i].port, group->replicas[i].instance);
  }
  for (uint32_t i = 0; i < session->count; i++) add_egress(p, session->replicas[i].port, session->replicas[i].instance);
}

static void start(struct packet *p, const struct packet *from, const uint8_t *frame, size_t length) {
  memset(p, 0, offsetof(struct packet, machine));
  p->machine = from->machine;
  p->frame = frame;
  p->size = length;
  p->payload = 0;
  p->now = from->now;
  p->sink = from->sink;
  p->passes = from->passes;
  p->port = from->port;
  p->limit = SIZE_MAX;
START
}

// To ingress again, with the fields of a list.
static void add_again(const struct packet *p, const uint8_t *frame, size_t length, uint64_t list, uint32_t instance) {
  struct pass *pass = add_pass(p);
  if (pass == NULL) return;
  start(&pass->packet, p, frame, length);
  struct packet *again = &pass->packet;
  keep_fields(again, p, list);
AGAIN
}
"""

_PROCESS = """\
static void process(struct ss_machine *machine, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now_us,
                    struct ss_sink *sink) {
  struct passes passes = {.left = PASSES};
  passes.last = &passes.first;
  struct packet packet = {.machine = machine, .now = now_us & 0xffffffffffff, .sink = sink, .passes = &passes,
                          .port = port};
  struct packet *const p = &packet;
  start(p, p, frame, length);
FIRST
  ingress(p);
  while (passes.first != NULL) {
    struct pass *pass = passes.first;
    passes.first = pass->next;
    if (passes.first == NULL) passes.last = &passes.first;
    if (pass->late) egress(&pass->packet, pass->port, pass->instance);
    else ingress(&pass->packet);
    free(pass);
  }
  while (passes.buffers != NULL) {
    struct buffer *buffer = passes.buffers;
    passes.buffers = buffer->next;
    free(buffer);
  }
}
"""


class _Emitter:
    def __init__(self, context: CContext, passes: ir.Passes) -> None:
        self._context = context
        self._passes = passes
        fields = context.storage.fields
        self._clone, self._clone_list, self._resubmit, self._recirculate = (
            fields[each.header, each.field] for each in passes.requests
        )

    def emit(self) -> list[str]:
        start, again, first = (self._context.code() for _ in range(3))
        self._standard(start, "packet_length", "length")
        self._standard(start, "parser_error", LIMB.constant(self._context.program.errors["NoError"]))
        if self._context.track_length:
            start.write(PACKET_LENGTH, "length")
        for name, text in (("instance_type", "instance"), ("checksum_error", "0"), ("packet_length", "length")):
            self._standard(again, name, text, "again")
        self._standard(again, "parser_error", LIMB.constant(self._context.program.errors["NoError"]), "again")
        self._standard(first, "ingress_port", "port")
        self._standard(first, "ingress_global_timestamp", "p->now")
        queue = _QUEUE.replace("START", "\n".join(start.lines)).replace("AGAIN", "\n".join(again.lines))
        types, functions = queue.split("static int may_pass", 1)
        process = _PROCESS.replace("PASSES", f"{PASSES}u").replace("FIRST", "\n".join(first.lines))
        return [
            *types.splitlines(),
            *self._keep_fields(),
            *self._reset_metadata(),
            *f"static int may_pass{functions}".splitlines(),
            "",
            *self._ingress(),
            *self._egress(),
            *process.splitlines(),
            "",
        ]

    def _standard(self, code: Code, name: str, text: str, packet: str = "p") -> None:
        member = self._context.storage.fields.get((STANDARD, name))
        if member is not None:
            code.line(f"{packet}->{member} = {text};")

    def _keep_fields(self) -> list[str]:
        code = self._context.code()
        with code.block("switch (list)"):
            for number, fields in self._passes.lists.items():
                code.line(f"case {number}:")
                for each in fields:
                    member = self._context.storage.fields[each.header, each.field]
                    code.line(f"  to->{member} = from->{member};")
                code.line("  break;")
            code.line("default: break;")
        head = "static void keep_fields(struct packet *to, const struct packet *from, uint64_t list) {"
        return [head, *code.lines, "}", ""]

    def _reset_metadata(self) -> list[str]:
        """All metadata but the loader's own, which belongs to headers; and no requests."""
        code, headers = self._context.code(), self._context.program.headers
        members = [
            member
            for (name, _), member in self._context.storage.fields.items()
            if headers[name].metadata and name != HIDDEN
        ]
        for member in [*members, self._clone, self._clone_list, self._resubmit, self._recirculate]:
            code.line(f"memset(&p->{member}, 0, sizeof p->{member});")
        code.line("p->limit = SIZE_MAX;")
        return ["static void reset_metadata(struct packet *p) {", *code.lines, "}", ""]

    # -- ingress ---------------------------------------------------------

    def _ingress(self) -> list[str]:
        code, fields = self._context.code(), self._context.storage.fields
        code.line("parse(p);")
        code.line("verify_checksums(p);")
        code.line(f"pipeline_{self._context.program.ingress.name}(p);")
        code.line("p->exited = 0;")
        self._clone_request(code, "clone_ingress(p, session);")
        if self._context.program.digest_request is not None:
            code.line("learn(p);")
        with code.block(f"if (p->{self._resubmit})"):
            again = f"add_again(p, p->frame, p->size, p->{self._resubmit}, {INSTANCE_RESUBMITTED});"
            code.line(f"if (may_pass(p)) {again}")
            code.line("return;")
        spec = f"p->{fields[STANDARD, 'egress_spec']}"
        group = fields.get((STANDARD, "mcast_grp"))
        rid = fields.get((STANDARD, "egress_rid"))
        if group is not None:
            with code.block(f"if (p->{group})"):
                self._standard(code, "instance_type", str(INSTANCE_REPLICA))
                code.line(f"p->{self._recirculate} = 0;")
                code.line("p->limit = SIZE_MAX;")
                code.line(f"const struct ss_group *to = &p->machine->groups[p->{group} % SS_GROUPS];")
                with code.block("for (uint32_t i = 0; i < to->count; i++)"):
                    code.line("add_egress(p, to->replicas[i].port, to->replicas[i].instance);")
                code.line("return;")
        code.line(f"if ({spec} == {self._context.program.drop_port}u) return;")
        self._standard(code, "instance_type", "0")
        code.line(f"add_egress(p, (uint32_t){spec}, {f'(uint32_t)p->{rid}' if rid else '0'});")
        return [*self._ingress_clone(), "static void ingress(struct packet *p) {", *code.lines, "}", ""]

    def _clone_request(self, code: Code, clone: str) -> None:
        with code.block(f"if (p->{self._clone})"):
            code.line(f"const struct ss_session *session = &p->machine->sessions[p->{self._clone} % SS_SESSIONS];")
            code.line(f"if (session->set && may_pass(p)) {clone}")
            code.line(f"p->{self._clone} = p->{self._clone_list} = 0;")

    def _ingress_clone(self) -> list[str]:
        """The clone is the packet as it came in, parsed anew; metadata that the parser wrote is lost, as in bmv2."""
        code = self._context.code()
        code.line("struct packet clone;")
        code.line("struct packet *const p = &clone;")
        code.line("start(p, from, from->frame, from->size);")
        for name in ("packet_length", "parser_error"):
            self._standard(code, name, "0")
        self._standard(code, "ingress_port", "from->port")
        code.line("parse(p);")
        code.line("reset_metadata(p);")
        code.line(f"keep_fields(p, from, from->{self._clone_list});")
        self._standard(code, "instance_type", str(INSTANCE_INGRESS_CLONE))
        code.line("add_copies(p, session);")
        head = "static void clone_ingress(const struct packet *from, const struct ss_session *session) {"
        return [head, *code.lines, "}", ""]

    # -- egress ----------------------------------------------------------

    def _egress(self) -> list[str]:
        context = self._context
        code = context.code()
        self._standard(code, "egress_spec", "0")
        self._standard(code, "egress_port", "port")
        self._standard(code, "egress_rid", "instance")
        self._standard(code, "egress_global_timestamp", "p->now")
        if context.track_length:
            self._standard(code, "packet_length", f"p->{PACKET_LENGTH}")
        code.line(f"pipeline_{context.program.egress.name}(p);")
        code.line("p->exited = 0;")
        self._clone_request(code, "clone_egress(p, session);")
        spec = context.storage.fields[STANDARD, "egress_spec"]
        code.line(f"if (p->{spec} == {context.program.drop_port}u) return;")
        code.line("update_checksums(p);")
        with code.block(f"if (p->{self._recirculate})"):
            code.line("if (may_pass(p)) recirculate(p);")
            code.line("return;")
        code.line("deparse(p, port);")
        return [
            *self._egress_clone(),
            *self._recirculation(),
            "static void egress(struct packet *p, uint32_t port, uint32_t instance) {",
            *code.lines,
            "}",
            "",
        ]

    def _egress_clone(self) -> list[str]:
        code = self._context.code()
        code.line("struct packet clone = *from;")
        code.line("struct packet *const p = &clone;")
        code.line("reset_metadata(p);")
        code.line(f"keep_fields(p, from, from->{self._clone_list});")
        self._standard(code, "instance_type", str(INSTANCE_EGRESS_CLONE))
        code.line("add_copies(p, session);")
        head = "static void clone_egress(const struct packet *from, const struct ss_session *session) {"
        return [head, *code.lines, "}", ""]

    def _recirculation(self) -> list[str]:
        code = self._context.code()
        code.line("const size_t length = frame_length(p);")
        code.line("struct buffer *buffer = malloc(sizeof *buffer + length);")
        with code.block("if (buffer == NULL)"):
            code.line("p->machine->lost_passes++;")
            code.line("return;")
        code.line("buffer->next = p->passes->buffers;")
        code.line("p->passes->buffers = buffer;")
        code.line("write_frame(p, buffer->data);")
        code.line(f"add_again(p, buffer->data, length, p->{self._recirculate}, {INSTANCE_RECIRCULATED});")
        return ["static void recirculate(struct packet *p) {", *code.lines, "}", ""]


def emit_passes(context: CContext, passes: ir.Passes) -> list[str]:
    """Return lines of C: ``process`` of a program with ``passes``."""
    return _Emitter(context, passes).emit()
