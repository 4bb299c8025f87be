# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The switch: one loaded program behind one lock."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from nativelib import NativeError, find_compiler

from softswitch import ir
from softswitch.device import (
    ActionCall,
    CounterValue,
    Entry,
    InvalidEntryError,
    KeyMatch,
    NotFoundError,
    Replica,
    UnsupportedProgramError,
)
from softswitch.emit import emit_program
from softswitch.load import load_program
from softswitch.machine import Machine
from softswitch.native.emit import emit_c
from softswitch.native.gate import Gate
from softswitch.native.machine import NativeMachine
from softswitch.splitmix import SplitMix
from softswitch.tables import RuntimeTable

_log = logging.getLogger("softswitch")

DROP_PORT = 511
MAX_GROUP = 0xFFFF

ENGINES = ("auto", "python", "native")
EngineChoice = Literal["auto", "python", "native"]

Transmit = Callable[[int, bytes], None]


class CounterCell(Protocol):
    """Packets at 0, bytes at 1."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, value: int, /) -> None: ...


class CounterCells(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> CounterCell: ...


class SoftSwitch:
    """Implements :class:`softswitch.device.Device`; thread-safe.

    ``program`` is bmv2 JSON text or its intermediate form. ``seed`` fixes what P4's ``random`` draws. ``cpu_port`` is
    the port whose frames go to the callback of :meth:`on_cpu_frame` instead of the wire. ``clock`` gives microseconds
    for the P4 timestamps. ``engine``: ``native`` compiles programs to machine code, ``python`` to Python; ``auto`` is
    native unless there is no compiler, or one refuses the program given here: it then says so and takes Python.

    The engine is chosen once: a program that :meth:`load` brings later runs in it or is refused. Raises
    UnsupportedProgramError, and nativelib.NativeError where the native engine was asked for and cannot be compiled.
    """

    def __init__(
        self,
        program: str | ir.Program | None = None,
        *,
        seed: int | None = None,
        cpu_port: int | None = None,
        clock: Callable[[], int] | None = None,
        engine: EngineChoice = "auto",
    ) -> None:
        self.cpu_port = cpu_port
        self._random = SplitMix(seed)
        start_ns = time.monotonic_ns()
        self._clock = clock or (lambda: (time.monotonic_ns() - start_ns) // 1000)
        self._transmit: Transmit | None = None
        self._cpu_frame: Callable[[bytes], None] | None = None
        self._machine: Machine | NativeMachine | None = None
        #: The native engine's lock, which its packet loop holds too; None with the Python engine.
        self.gate: Gate | None = None
        if isinstance(program, str):
            program = load_program(program)
        if engine != "python":
            self._start_native(program, start_ns, may_fail=engine == "auto")
        self._lock: AbstractContextManager[Any] = self.gate or threading.RLock()
        if program is not None and self._machine is None:
            self.load(program)

    def _start_native(self, program: ir.Program | None, start_ns: int, *, may_fail: bool) -> None:
        try:
            find_compiler(wide_bitint=True)
            gate = Gate(start_ns)
            if program is not None:
                self._machine = NativeMachine(program, self._random, self._clock)
                gate.run(self._machine.address)
            self.gate = gate
        except (NativeError, UnsupportedProgramError) as error:
            if not may_fail:
                raise
            _log.warning("the Python engine runs, not the native one: %s", error)

    @property
    def engine(self) -> Literal["python", "native"]:
        return "python" if self.gate is None else "native"

    # -- packets ---------------------------------------------------------

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Run one frame; returns the frames that leave, also those for the CPU port. Nothing is sent.

        Without a program every frame is dropped.
        """
        with self._lock:
            return self._machine.process(port, frame) if self._machine is not None else []

    def receive(self, port: int, frame: bytes) -> None:
        """Run one frame and send what leaves: to the wire, or to the CPU callback."""
        with self._lock:
            machine = self._machine
            if machine is None:
                return
            for out_port, out_frame in machine.process(port, frame):
                if out_port == self.cpu_port:
                    self.to_cpu(out_frame)
                elif self._transmit is not None:
                    self._transmit(out_port, out_frame)

    def to_cpu(self, frame: bytes) -> None:
        """Hand a frame of the CPU port to whoever takes them."""
        callback = self._cpu_frame
        if callback is not None:
            callback(frame)

    def inject(self, port: int, frame: bytes) -> None:
        self.receive(port, bytes(frame))

    def on_cpu_frame(self, callback: Callable[[bytes], None] | None) -> None:
        with self._lock:
            self._cpu_frame = callback

    def on_transmit(self, transmit: Transmit | None) -> None:
        """``transmit(port, frame)`` gets every frame for the wire; it must not block."""
        with self._lock:
            self._transmit = transmit

    # -- program ---------------------------------------------------------

    def load(self, program: str | ir.Program) -> None:
        if self.gate is None:
            machine = Machine(program, self._random, self._clock)
            with self._lock:
                self._machine = machine
            return
        try:
            native = NativeMachine(program, self._random, self._clock)
        except NativeError as error:
            raise UnsupportedProgramError(f"the program cannot be compiled: {error}") from error
        with self._lock:
            self.gate.run(native.address)
            self._machine = native

    def verify(self, program: str | ir.Program) -> None:
        """Raises UnsupportedProgramError where :meth:`load` would because of a construct; changes nothing."""
        loaded = load_program(program) if isinstance(program, str) else program
        if self.gate is None:
            emit_program(loaded)
        else:
            emit_c(loaded)

    @property
    def loaded(self) -> Machine | NativeMachine:
        """The running program; NotFoundError without one. For tests and tools: not guarded by the lock."""
        if self._machine is None:
            raise NotFoundError("no program is loaded")
        return self._machine

    def registers(self, name: str) -> list[int]:
        """A copy of a register array."""
        with self._lock:
            cells = self.loaded.registers.get(name)
            if cells is None:
                raise NotFoundError(f"there is no register {name}")
            return list(cells)

    def write_register(self, name: str, index: int, value: int) -> None:
        with self._lock:
            self.registers(name)
            declared = self.loaded.program.registers[name]
            if not 0 <= index < declared.size or not 0 <= value < 1 << declared.width:
                raise InvalidEntryError(
                    f"register {name}[{index}] = {value:#x}: it has {declared.size} cells of {declared.width} bits"
                )
            negative = declared.signed and value >> (declared.width - 1)
            self.loaded.registers[name][index] = value - (1 << declared.width) if negative else value

    # -- tables ----------------------------------------------------------

    def _table(self, name: str) -> RuntimeTable[Any]:
        table = self.loaded.tables.get(name)
        if table is None:
            raise NotFoundError(f"there is no table {name}")
        return table

    def insert(self, table: str, entry: Entry) -> None:
        with self._lock:
            self._table(table).insert(entry)

    def modify(self, table: str, entry: Entry) -> None:
        with self._lock:
            self._table(table).modify(entry)

    def delete(self, table: str, key: tuple[KeyMatch, ...], priority: int = 0) -> None:
        with self._lock:
            self._table(table).delete(key, priority)

    def entries(self, table: str) -> list[Entry]:
        with self._lock:
            return self._table(table).entries()

    def default_action(self, table: str) -> ActionCall | None:
        with self._lock:
            return self._table(table).default

    def set_default_action(self, table: str, action: ActionCall | None) -> None:
        with self._lock:
            self._table(table).set_default(action)

    # -- counters --------------------------------------------------------

    def _counter_cells(self, name: str) -> CounterCells:
        cells: CounterCells | None = self.loaded.counters.get(name)
        if cells is None:
            raise NotFoundError(f"there is no indirect counter {name}")
        return cells

    def _counter_cell(self, name: str, index: int) -> CounterCell:
        cells = self._counter_cells(name)
        if not 0 <= index < len(cells):
            raise NotFoundError(f"counter {name} has no index {index}: its size is {len(cells)}")
        return cells[index]

    def read_counter(self, counter: str, index: int) -> CounterValue:
        with self._lock:
            cell = self._counter_cell(counter, index)
            return CounterValue(cell[0], cell[1])

    def write_counter(self, counter: str, index: int, value: CounterValue) -> None:
        with self._lock:
            cell = self._counter_cell(counter, index)
            cell[0], cell[1] = value.packets, value.bytes

    def counter_size(self, counter: str) -> int:
        with self._lock:
            return len(self._counter_cells(counter))

    def write_direct_counter(self, table: str, key: tuple[KeyMatch, ...], priority: int, value: CounterValue) -> None:
        with self._lock:
            self._table(table).write_counter(key, priority, value)

    # -- multicast -------------------------------------------------------

    def set_group(self, group: int, replicas: Sequence[Replica]) -> None:
        if not 1 <= group <= MAX_GROUP:
            raise InvalidEntryError(f"multicast group {group} is not in 1..{MAX_GROUP}")
        for replica in replicas:
            if not 0 <= replica.port < DROP_PORT or not 0 <= replica.instance <= 0xFFFF:
                raise InvalidEntryError(f"multicast group {group}: {replica} (port 0..510, instance 0..65535)")
        if len(set(replicas)) != len(replicas):
            raise InvalidEntryError(f"multicast group {group}: the same port and instance twice")
        with self._lock:
            self.loaded.set_group(group, [(replica.port, replica.instance) for replica in replicas])

    def delete_group(self, group: int) -> None:
        with self._lock:
            if group not in self.loaded.groups:
                raise NotFoundError(f"there is no multicast group {group}")
            self.loaded.delete_group(group)

    def groups(self) -> dict[int, tuple[Replica, ...]]:
        with self._lock:
            return {
                group: tuple(Replica(port, instance) for port, instance in replicas)
                for group, replicas in self.loaded.groups.items()
            }
