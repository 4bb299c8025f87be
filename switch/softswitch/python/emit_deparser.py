# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The deparser: headers to bytes. Headers that egress cannot change are packed once for all replicas."""

from __future__ import annotations

from softswitch.program import ir
from softswitch.program.traverse import FieldKey
from softswitch.python.emit_context import Context
from softswitch.python.layout import UnitKind, group_width, pack_arguments, struct_codes
from softswitch.python.source_writer import Writer


class DeparserEmitter:
    def __init__(self, context: Context, out: Writer) -> None:
        self._context = context
        self._out = out
        usage = context.usage
        self._order = [name for name in context.program.deparser if name in usage.extracted or name in usage.changed]
        self._formats: dict[str, str] = {}
        self._pieces: list[str] = []

    def formats(self) -> dict[str, str]:
        """``struct`` formats by name, for headers that may be packed from fields."""
        return self._formats

    def before_replicas(self) -> None:
        """Write the parts that are the same for all replicas, and record the pieces of a frame."""
        run: list[str] = []
        count = 0

        def flush() -> None:
            nonlocal count
            if not run:
                return
            text = run[0] if len(run) == 1 else f"join_bytes(({', '.join(run)}))"
            self._out.line(f"part{count} = {text}")
            self._pieces.append(f"part{count}")
            count += 1
            run.clear()

        for header in self._order:
            if header in self._context.usage.late_headers:
                flush()
                self._pieces.append(self._bytes(header))
            else:
                run.append(self._bytes(header))
            varbit = self._context.program.varbits.get(header)
            if varbit is None:
                continue
            if header in self._context.usage.late_headers or _key(varbit.length) in self._context.usage.late:
                flush()
                self._pieces.append(self._varbit(header, varbit))
            else:
                run.append(self._varbit(header, varbit))
        run.append("frame[payload:]")
        flush()

    def per_replica(self) -> str:
        """Python text of the frame that leaves."""
        return self._pieces[0] if len(self._pieces) == 1 else f"join_bytes(({', '.join(self._pieces)}))"

    def _bytes(self, header: str) -> str:
        layout = self._context.storage.layouts[header]
        end = f"{layout.position} + {layout.header.size_bytes}"
        kept = f"frame[{layout.position}:{end}]"
        if header not in self._context.usage.changed:
            text = kept
        elif header in self._context.usage.extracted:
            text = f"{kept} if {layout.position} >= 0 else {self._packed(header)}"
        else:
            text = self._packed(header)
        return f"(({text}) if {layout.valid} else b'')"

    def _varbit(self, header: str, varbit: ir.Varbit) -> str:
        storage = self._context.storage
        value, length = storage.fields[_key(varbit.value)], storage.fields[_key(varbit.length)]
        return f"({value}.to_bytes({length} >> 3) if {storage.valid(header)} else b'')"

    def _packed(self, header: str) -> str:
        layout = self._context.storage.layouts[header]
        if len(layout.groups) == 1 and group_width(layout.groups[0]) > 64 and len(layout.groups[0]) == 1:
            unit = layout.groups[0][0]
            if unit.kind is UnitKind.INTEGER and not unit.signed:
                return f"{unit.local}.to_bytes({unit.width // 8})"
        self._formats[header] = ">" + "".join(struct_codes(group) for group in layout.groups)
        arguments = [text for group in layout.groups for text in pack_arguments(group)]
        return f"pack_{layout.valid}({', '.join(arguments)})"


def _key(field: ir.FieldRef) -> FieldKey:
    return field.header, field.field
