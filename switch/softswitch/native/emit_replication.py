# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""From ingress to the frames that leave: replication, and egress for each replica."""

from __future__ import annotations

from softswitch.native.emit_carrier import LIMB
from softswitch.native.emit_code import Code
from softswitch.native.emit_context import Context
from softswitch.program.standard import INSTANCE_REPLICA, PACKET_LENGTH, STANDARD

_PER_REPLICA = ("egress_spec", "egress_port", "egress_rid")  # set for every replica


def _late_members(context: Context) -> list[tuple[str, str]]:
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


def emit_late(context: Context) -> list[str]:
    """Lines of C: ``keep`` saves these members, and ``restore`` restores them."""
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


def emit_send(context: Context) -> list[str]:
    """Lines of C: ``send(p, port, instance)`` runs egress and the later stages for one replica."""
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
        code.line(f"if (p->{member} == SS_DROP_PORT) return;")
    code.line("update_checksums(p);")
    code.line("deparse(p, port);")
    return ["static void send(struct packet *p, uint32_t port, uint32_t instance) {", *code.lines, "}", ""]


def emit_replication(context: Context, code: Code) -> None:
    """Write what follows ingress: drop the packet, or send its replicas."""
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
