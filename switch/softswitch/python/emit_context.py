# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What all emitters of Python know about the program."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch.program import ir
from softswitch.program.analysis import Usage
from softswitch.program.emitted_text import identifier
from softswitch.program.limits import Budget
from softswitch.python.layout import Storage


@dataclass
class Names:
    """Names of run-time objects in the generated code, by their names in the program."""

    registers: dict[str, str] = field(default_factory=dict)
    counters: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    meters: dict[str, str] = field(default_factory=dict)
    value_sets: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, program: ir.Program) -> Names:
        taken: set[str] = set()
        return cls(
            {name: identifier(f"R_{name}", taken) for name in program.registers},
            {name: identifier(f"C_{name}", taken) for name in program.counters},
            {name: identifier(name, taken) for name in program.tables},
            {name: identifier(f"M_{name}", taken) for name in program.meters},
            {name: identifier(f"S_{name}", taken) for name in program.value_sets},
        )


@dataclass(frozen=True)
class Context:
    """The program, where its fields are kept, and names.

    ``track_length``: egress reads packet_length, so the code keeps it up to date. ``budget``: what the
    code may take.
    """

    program: ir.Program
    usage: Usage
    storage: Storage
    names: Names
    track_length: bool
    budget: Budget = field(default_factory=Budget)

    def keeps_position(self, header: str) -> bool:
        """Return True if the header may leave as the bytes it came in with."""
        return header in self.usage.extracted and header in self.program.deparser
