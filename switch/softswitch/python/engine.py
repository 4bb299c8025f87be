# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The Python engine's interface to the switch: the generated function and the objects that it works on."""

from __future__ import annotations

import functools
import linecache
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from types import CodeType
from typing import Any, Literal

from softswitch.errors import ProgramTooLargeError
from softswitch.program import ir
from softswitch.python.emit import Emitted, emit_program
from softswitch.python.emit_stmt import is_specialised, specialised_source
from softswitch.python.lookup import RUNTIME, Cell, Compiled, Meters, PythonRow, PythonTable, ValueSetLookup
from softswitch.python.ports import PythonPortRunner
from softswitch.python.recorder import Recorder
from softswitch.runtime.engine import TIMESTAMP_MASK, Machine, PacketSwitch, PortsSpec, Tracer, log_message
from softswitch.runtime.entries import MeterRates
from softswitch.runtime.impair import SplitMix
from softswitch.runtime.tables import Pattern, RuntimeTable

_numbers = count(1)


class PythonMachine(Machine):
    """A machine whose code is one Python function.

    ``registers`` are lists of numbers, ``counters`` lists of cells ``[packets, bytes]``. ``trace`` is called with what
    happened to each packet. Raises UnsupportedProgramError.
    """

    def __init__(
        self,
        program: str | ir.Program,
        generator: SplitMix,
        clock: Callable[[], int],
        trace: Tracer | None = None,
    ) -> None:
        super().__init__(program, clock)
        self._lost_passes = [0]
        self._value_sets = {name: ValueSetLookup(declared.widths) for name, declared in self.program.value_sets.items()}
        self._meters = {name: Meters(meter.counts_bytes) for name, meter in self.program.meters.items()}
        self.registers = {name: [0] * register.size for name, register in self.program.registers.items()}
        self.counters: dict[str, list[Cell]] = {
            name: [[0, 0] for _ in range(array.size)]
            for name, array in self.program.counters.items()
            if array.table is None
        }
        self._traces = trace is not None
        emitted = emit_program(self.program, traces=self._traces)
        self.source = emitted.source
        self._context = emitted.context
        self._actions = {action.index: action for action in self.program.actions}
        self._namespace = self._build_namespace(emitted, generator, clock)
        self.tables = {name: self._build_table(table) for name, table in self.program.tables.items()}
        exec(_program_code(emitted.source), self._namespace)
        self.process = self._namespace["process"]
        if trace is not None:
            recorder = Recorder(self.program, self.tables, trace)
            self._namespace["trace"] = recorder
            self.process = partial(recorder.run, self.process)

    # -- assembly --------------------------------------------------------

    def _build_namespace(self, emitted: Emitted, generator: SplitMix, clock: Callable[[], int]) -> dict[str, Any]:
        names = emitted.context.names
        space: dict[str, Any] = {
            **RUNTIME,
            "from_bytes": int.from_bytes,
            "join_bytes": b"".join,
            "random_integer": generator.integer,
            "now": lambda: clock() & TIMESTAMP_MASK,
            "log_message": log_message,
            "groups": self.groups,
            "sessions": self.sessions,
            "lost_passes": self._lost_passes,
            "learn": self._learn,
        }
        space |= {f"unpack_{name}": struct.Struct(text).unpack_from for name, text in emitted.unpack.items()}
        space |= {f"pack_{name}": struct.Struct(text).pack for name, text in emitted.pack.items()}
        space |= {names.registers[name]: cells for name, cells in self.registers.items()}
        space |= {names.value_sets[name]: members for name, members in self._value_sets.items()}
        space |= {names.meters[name]: meters.execute for name, meters in self._meters.items()}
        space |= {names.counters[name]: cells for name, cells in self.counters.items()}
        return space

    def _build_table(self, table: ir.Table) -> RuntimeTable[PythonRow]:
        name = self._context.names.tables[table.name]

        def compiler(position: int, args: tuple[int, ...], cell: Cell | None) -> Compiled:
            return self._compile_entry(self._actions[table.actions[position]], position, args, cell)

        def publish(default: Compiled) -> None:
            self._namespace[f"default_{name}"] = default

        def meter_of(rates: MeterRates | None) -> Any:
            """A function of size and time, which returns the colour."""
            if rates is None:
                return None
            meters = Meters(self.program.direct_meter(table.name).counts_bytes)
            meters.set(0, rates, self.now_us())
            return partial(meters.execute, 0)

        rows = PythonTable(table, compiler, publish, meter_of)
        looked_up = rows.exact if table.kind is ir.MatchKind.EXACT else rows.memo
        self._namespace[f"get_{name}"] = looked_up.get
        self._namespace[f"find_{name}"] = rows.find
        return RuntimeTable(table, self._actions, rows)

    def _compile_entry(self, action: ir.Action, position: int, args: tuple[int, ...], cell: Cell | None) -> Compiled:
        if self._traces or not is_specialised(action):
            return (position, cell, *args)
        space: dict[str, Any] = {}
        source = specialised_source(self._context, action, args)
        exec(_code(source, action.name), space)
        return (position, cell, space["specialised"])

    def set_value_set(self, name: str, members: Sequence[Pattern]) -> None:
        self._value_sets[name].replace(members)

    def set_meter(self, name: str, index: int, rates: MeterRates | None) -> None:
        self._meters[name].set(index, rates, self.now_us())

    @property
    def lost_passes(self) -> int:
        return self._lost_passes[0]


def _code(source: str, what: str) -> CodeType:
    """Compile generated code; its lines show in tracebacks and profiles."""
    name = f"<softswitch {what} {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        return compile(source, name, "exec")
    except (RecursionError, MemoryError, SyntaxError) as error:  # the last one: too many parentheses
        raise ProgramTooLargeError(
            "the program is nested too deeply for Python; use the native engine", "the Python engine"
        ) from error


@functools.lru_cache(maxsize=2)
def _program_code(source: str) -> CodeType:
    """The code of a whole program, which switches of one process may share."""
    return _code(source, "program")


class PythonEngine:
    """An :class:`softswitch.runtime.engine.Engine` that needs no compiler."""

    name: Literal["python"] = "python"

    def __init__(self, trace: Tracer | None = None) -> None:
        self.lock = threading.RLock()
        self._trace = trace

    def machine(self, program: ir.Program, generator: SplitMix, clock: Callable[[], int]) -> PythonMachine:
        return PythonMachine(program, generator, clock, self._trace)

    def run(self, machine: PythonMachine) -> None:
        """Do nothing: the switch calls the machine's ``process`` itself."""

    def check(self, program: ir.Program) -> None:
        emit_program(program, traces=self._trace is not None)

    def port_runner(self, switch: PacketSwitch, ports: PortsSpec) -> PythonPortRunner:
        return PythonPortRunner(switch, ports)
