# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which fields the generated code keeps in the packet's state, and under which names.

A header that no statement changes leaves as the bytes it came in with, so the state keeps only those of its fields
that the program reads. Of a header that may change it keeps all fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch.native.emit_carrier import Carrier, carrier
from softswitch.program import ir
from softswitch.program.analysis import Usage
from softswitch.program.emitted_text import identifier
from softswitch.program.standard import STANDARD
from softswitch.program.traverse import FieldKey

INTRINSIC = ("egress_spec", "mcast_grp")  # fields of standard_metadata that the engine itself reads


@dataclass
class Storage:
    """Names of members of ``struct packet``; ``fields`` has only those that are kept.

    A member of ``positions`` holds the offset of a header's unchanged bytes in the frame, -1 if it has changed.
    """

    fields: dict[FieldKey, str] = field(default_factory=dict)
    widths: dict[FieldKey, int] = field(default_factory=dict)
    valid: dict[str, str] = field(default_factory=dict)
    positions: dict[str, str] = field(default_factory=dict)

    def carrier(self, key: FieldKey) -> Carrier:
        return carrier(self.widths[key])

    def members_of(self, header: str) -> list[FieldKey]:
        return [key for key in self.fields if key[0] == header]


def plan_storage(program: ir.Program, usage: Usage) -> Storage:
    storage = Storage()
    copied = {name for pair in usage.copies for name in pair}
    taken: set[str] = set()
    for header in program.headers.values():
        rebuilt = header.name in usage.changed and header.name in program.deparser
        for member in header.fields:
            key = header.name, member.name
            intrinsic = header.name == STANDARD and member.name in INTRINSIC
            if key in usage.read or rebuilt or header.name in copied or intrinsic:
                storage.fields[key] = identifier(f"f_{header.name}_{member.name}", taken)
                storage.widths[key] = member.width
        if header.metadata:
            continue
        storage.valid[header.name] = identifier(f"v_{header.name}", taken)
        if header.name in usage.extracted and header.name in program.deparser:
            storage.positions[header.name] = identifier(f"o_{header.name}", taken)
    return storage
