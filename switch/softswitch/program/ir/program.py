# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A whole program: what the loader returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch.program.ir.checksums import Calculation, Checksum
from softswitch.program.ir.expressions import FieldRef
from softswitch.program.ir.parser import Parser
from softswitch.program.ir.passes import Passes
from softswitch.program.ir.pipeline import Action, Pipeline, Table
from softswitch.program.ir.storage import CounterArray, Digest, Header, Meter, Register, ValueSet, Varbit


@dataclass(frozen=True, eq=False)
class Program:
    """Nothing changes it, so switches may share it.

    ``varbits``: by the header behind which the bits of a varbit field leave. ``passes``: None for a program that never
    clones, resubmits or recirculates, and truncates in egress only. Statements leave the number of one of the
    ``digests`` in ``digest_request``; it is sent at the end of ingress.
    """

    headers: dict[str, Header]
    errors: dict[str, int]
    parser: Parser
    ingress: Pipeline
    egress: Pipeline
    deparser: tuple[str, ...]
    actions: tuple[Action, ...]
    registers: dict[str, Register] = field(default_factory=dict)
    counters: dict[str, CounterArray] = field(default_factory=dict)
    calculations: dict[str, Calculation] = field(default_factory=dict)
    checksums: tuple[Checksum, ...] = ()
    varbits: dict[str, Varbit] = field(default_factory=dict)
    passes: Passes | None = None
    value_sets: dict[str, ValueSet] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)
    digests: dict[int, Digest] = field(default_factory=dict)
    digest_request: FieldRef | None = None

    @property
    def tables(self) -> dict[str, Table]:
        nodes = [*self.ingress.nodes.values(), *self.egress.nodes.values()]
        return {node.name: node for node in nodes if isinstance(node, Table)}

    def direct_meter(self, table: str) -> Meter:
        """Of a table with a ``meter_target``."""
        return next(meter for meter in self.meters.values() if meter.table == table)
