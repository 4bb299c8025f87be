# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The switch: one engine, one loaded program, one lock."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

from commonlib.events import ProgramEvent
from nativelib import NativeError

from softswitch.errors import DeviceError, InvalidEntryError, NotFoundError, UnsupportedProgramError
from softswitch.native.engine import NativeEngine
from softswitch.program import ir
from softswitch.program.limits import SESSIONS
from softswitch.program.load.program import load_program
from softswitch.program.standard import DROP_PORT, STANDARD_WIDTHS
from softswitch.python.engine import PythonEngine
from softswitch.python.ports import PythonPortRunner
from softswitch.python.unix_port import UNIX
from softswitch.runtime.engine import (
    CounterCell,
    CounterCells,
    Engine,
    Machine,
    PortRunner,
    PortsSpec,
    RegisterCells,
    Tracer,
    Transmit,
)
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, KeyMatch, MeterRates, Replica
from softswitch.runtime.impair import ImpairmentSpec, SplitMix
from softswitch.runtime.interface import DEFAULT_TRAINS, TrainSpec
from softswitch.runtime.tables import RuntimeTable, patterns_of

_log = logging.getLogger("softswitch")

MAX_GROUP = 0xFFFF
MAX_PORT = (1 << STANDARD_WIDTHS["ingress_port"]) - 1

#: Entries that are inserted while packets wait.
_AT_ONCE = 64
#: Cells of a register that are reset while packets wait.
_CELLS_AT_ONCE = 4096

NOT_NATIVE = "the native engine does not trace packets; take the engine python or auto, or do not trace"
ENGINES = ("auto", "python", "native")
EngineChoice = Literal["auto", "python", "native"]


def _check_port(port: int) -> None:
    """Generated code relies on the width of a port."""
    if not 0 <= port <= MAX_PORT:
        raise InvalidEntryError(f"port {port} is not in 0..{MAX_PORT}")


def _check_rates(what: str, rates: MeterRates | None) -> None:
    if rates is not None and not (0 <= rates.committed <= rates.peak < math.inf):
        raise InvalidEntryError(f"{what}: {rates}: rates are 0 <= committed <= peak")
    if rates is not None and not all(0 <= each < 1 << 63 for each in (rates.committed_burst, rates.peak_burst)):
        raise InvalidEntryError(f"{what}: {rates}: bursts are in 0..2^63 - 1")


class SoftSwitch:
    """Implements :class:`softswitch.device.Device`; thread-safe.

    ``program`` is bmv2 JSON text or its intermediate form. ``seed`` fixes the numbers of P4's ``random``. ``cpu_port``
    is the port whose frames go to the callback of :meth:`on_cpu_frame` instead of the wire, ``drop_port`` the one at
    which packets end. ``clock`` returns microseconds for the P4 timestamps. ``engine``: ``native`` compiles programs to
    machine code, ``python`` to Python; ``auto`` is ``native``, or ``python`` with a warning if there is no compiler or
    the program given here cannot be compiled.

    With ``coverage`` the native engine counts the points of a program that packets reach (``loaded.reached()``).
    ``trace`` is called with what happened to each packet (docs/trace.md), after it has run. Only the Python engine
    traces: ``auto`` is ``python`` then, and ``native`` is refused with a DeviceError.

    The engine is chosen once: a program loaded later runs in it or is refused. Raises UnsupportedProgramError, and
    nativelib.NativeError if the native engine was asked for and cannot be compiled.
    """

    def __init__(
        self,
        program: str | ir.Program | None = None,
        *,
        seed: int | None = None,
        cpu_port: int | None = None,
        drop_port: int = DROP_PORT,
        clock: Callable[[], int] | None = None,
        engine: EngineChoice = "auto",
        coverage: bool = False,
        trace: Tracer | None = None,
    ) -> None:
        if cpu_port is not None:
            _check_port(cpu_port)
        _check_port(drop_port)
        self.cpu_port = cpu_port
        self.drop_port = drop_port
        self._random = SplitMix(seed)
        start_ns = time.monotonic_ns()
        self._clock = clock or (lambda: (time.monotonic_ns() - start_ns) // 1000)
        self._transmit: Transmit | None = None
        self._cpu_frame: Callable[[bytes], None] | None = None
        self._machine: Machine | None = None
        self.loads = 0
        if program is not None:
            program = self._own(program)
        self._engine = self._start_engine(engine, program, start_ns, coverage=coverage, trace=trace)
        self._lock = self._engine.lock
        if program is not None and self._machine is None:
            self.load(program)

    def _start_engine(
        self,
        wanted: EngineChoice,
        program: ir.Program | None,
        start_ns: int,
        *,
        coverage: bool,
        trace: Tracer | None,
    ) -> Engine[Any]:
        """The engine that runs from now on. With the native one ``program`` is loaded already."""
        if trace is not None and wanted == "native":
            raise DeviceError(NOT_NATIVE)
        if wanted == "python" or trace is not None:
            return PythonEngine(trace)
        try:
            native = NativeEngine(start_ns, coverage=coverage)
            if program is not None:
                machine = native.machine(program, self._random, self._clock)
                native.run(machine)
                self._machine = machine
        except (NativeError, UnsupportedProgramError) as error:
            if wanted == "native":
                raise
            told = ProgramEvent.KERNELS_MISSING(reason=str(error))
            _log.warning("the Python engine runs, not the native one: %s", error, extra=told)
            return PythonEngine()
        return native

    @property
    def engine(self) -> Literal["python", "native"]:
        """Name of the engine that runs."""
        return self._engine.name

    def port_runner(
        self,
        interfaces: Mapping[int, str],
        impairment: ImpairmentSpec | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
        *,
        trains: TrainSpec = DEFAULT_TRAINS,
    ) -> PortRunner:
        """Return ports for this switch on ``interfaces`` (names by port number). Start it, or use it as a context
        manager. The name unix:PATH makes a port of datagrams at a Unix socket; if there is one, no port takes trains.

        ``on_failure`` is called with the exception that ended a thread, in that thread. Raises PortError.
        """
        ports = PortsSpec(interfaces, impairment, on_failure, trains)
        if any(name.startswith(UNIX) for name in interfaces.values()):
            return PythonPortRunner(self, ports)
        return self._engine.port_runner(self, ports)

    # -- packets ---------------------------------------------------------

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Run one frame, and return the outgoing frames, including those for the CPU port. Nothing is sent.

        Without a program every frame is dropped.
        """
        _check_port(port)
        with self._lock:
            return self._machine.process(port, frame) if self._machine is not None else []

    def receive(self, port: int, frame: bytes) -> None:
        """Run one frame, and send the outgoing frames to the wire or to the CPU callback."""
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
        """Pass a frame of the CPU port to the callback."""
        callback = self._cpu_frame
        if callback is not None:
            callback(frame)

    def inject(self, port: int, frame: bytes) -> None:
        _check_port(port)
        self.receive(port, bytes(frame))

    def on_cpu_frame(self, callback: Callable[[bytes], None] | None) -> None:
        with self._lock:
            self._cpu_frame = callback

    def on_transmit(self, transmit: Transmit | None) -> None:
        """Call ``transmit(port, frame)`` for every frame to the wire. It must not block."""
        with self._lock:
            self._transmit = transmit

    # -- program ---------------------------------------------------------

    def _own(self, program: str | ir.Program) -> ir.Program:
        """The program as this switch runs it."""
        loaded = load_program(program) if isinstance(program, str) else program
        return loaded if loaded.drop_port == self.drop_port else replace(loaded, drop_port=self.drop_port)

    def load(self, program: str | ir.Program) -> None:
        loaded = self._own(program)
        try:
            machine = self._engine.machine(loaded, self._random, self._clock)
        except NativeError as error:
            raise UnsupportedProgramError(f"the program cannot be compiled: {error}") from error
        with self._lock:
            self._engine.run(machine)
            self._machine = machine
            self.loads += 1

    def verify(self, program: str | ir.Program) -> None:
        """Raise UnsupportedProgramError if :meth:`load` would refuse a construct of the program. Changes nothing."""
        self._engine.check(self._own(program))

    @property
    def loaded(self) -> Machine:
        """The running program. Raises NotFoundError without one. For tests and tools: not guarded by the lock."""
        if self._machine is None:
            raise NotFoundError("no program is loaded")
        return self._machine

    @property
    def program(self) -> ir.Program:
        with self._lock:
            return self.loaded.program

    def _register_cells(self, name: str) -> RegisterCells:
        cells = self.loaded.registers.get(name)
        if cells is None:
            raise NotFoundError(f"there is no register {name}")
        return cells

    def registers(self, name: str) -> list[int]:
        """Return a copy of a register array."""
        with self._lock:
            return list(self._register_cells(name))

    def read_register(self, name: str, index: int) -> int:
        with self._lock:
            cells = self._register_cells(name)
            if not 0 <= index < len(cells):
                raise NotFoundError(f"register {name} has no index {index}: its size is {len(cells)}")
            return cells[index]

    def reset_register(self, name: str) -> None:
        """Set all cells of a register array to 0. Packets wait once for every some thousand cells."""
        with self._lock:
            cells = self._register_cells(name)
        for first in range(0, len(cells), _CELLS_AT_ONCE):
            with self._lock:
                for index in range(first, min(first + _CELLS_AT_ONCE, len(cells))):
                    cells[index] = 0

    def write_register(self, name: str, index: int, value: int) -> None:
        with self._lock:
            self._register_cells(name)
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

    @contextmanager
    def batch(self) -> Iterator[None]:
        with self._lock:
            tables = [] if self._machine is None else list(self._machine.tables.values())
            for table in tables:
                table.hold()
        try:
            yield
        finally:
            with self._lock:
                for table in tables:
                    table.release()

    def insert(self, table: str, entry: Entry) -> None:
        with self._lock:
            self._table(table).insert(entry)

    def insert_many(self, table: str, entries: Sequence[Entry]) -> list[DeviceError | None]:
        outcomes: list[DeviceError | None] = []
        for first in range(0, len(entries), _AT_ONCE):
            with self._lock:
                outcomes += self._table(table).insert_many(entries[first : first + _AT_ONCE])
        return outcomes

    def modify(self, table: str, entry: Entry) -> None:
        with self._lock:
            self._table(table).modify(entry)

    def delete(self, table: str, key: tuple[KeyMatch, ...], priority: int = 0) -> None:
        with self._lock:
            self._table(table).delete(key, priority)

    def entry(self, table: str, key: tuple[KeyMatch, ...], priority: int = 0) -> Entry | None:
        with self._lock:
            return self._table(table).entry(key, priority)

    def entries(self, table: str) -> list[Entry]:
        with self._lock:
            return self._table(table).entries()

    def handle(self, table: str, key: tuple[KeyMatch, ...], priority: int = 0) -> int:
        """Return the number of an entry in the order of inserts: 0 for the first, the program's own come first.

        None is given twice. Raises NotFoundError.
        """
        with self._lock:
            return self._table(table).handle(key, priority)

    def identity(self, table: str, handle: int) -> tuple[tuple[KeyMatch, ...], int] | None:
        """Return key and priority of the entry with this handle, None if there is none."""
        with self._lock:
            return self._table(table).identity(handle)

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

    def _check_replicas(self, what: str, replicas: Sequence[Replica]) -> None:
        for replica in replicas:
            leaves = 0 <= replica.port <= MAX_PORT and replica.port != self.drop_port
            if not leaves or not 0 <= replica.instance <= 0xFFFF:
                rule = f"port 0..{MAX_PORT} but the drop port {self.drop_port}, instance 0..65535"
                raise InvalidEntryError(f"{what}: {replica} ({rule})")

    def set_group(self, group: int, replicas: Sequence[Replica]) -> None:
        if not 1 <= group <= MAX_GROUP:
            raise InvalidEntryError(f"multicast group {group} is not in 1..{MAX_GROUP}")
        self._check_replicas(f"multicast group {group}", replicas)
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

    # -- value sets, meters, digests -------------------------------------

    def set_value_set(self, name: str, members: Sequence[tuple[int | KeyMatch, ...]]) -> None:
        """Replace the members of a parser value set. A member is a number or a match for each field of the select's
        key."""
        with self._lock:
            declared = self.loaded.program.value_sets.get(name)
            if declared is None:
                raise NotFoundError(f"there is no value set {name}")
            self.loaded.set_value_set(name, patterns_of(declared, members))

    def set_meter(self, name: str, index: int, rates: MeterRates | None) -> None:
        """Configure one meter of an array. None removes its configuration, so that all its packets are green."""
        with self._lock:
            declared = self.loaded.program.meters.get(name)
            if declared is None or not 0 <= index < declared.size:
                raise NotFoundError(f"there is no meter {name}[{index}]")
            _check_rates(f"meter {name}[{index}]", rates)
            self.loaded.set_meter(name, index, rates)
            self.loaded.rates.pop((name, index), None)
            if rates is not None:
                self.loaded.rates[name, index] = rates

    def meter_rates(self, name: str, index: int) -> MeterRates | None:
        """Return the rates of one meter of an array; None where it is not configured."""
        with self._lock:
            return self.loaded.rates.get((name, index))

    def set_direct_meter(self, table: str, key: tuple[KeyMatch, ...], priority: int, rates: MeterRates | None) -> None:
        """Configure the direct meter of an entry. With None all its packets are green."""
        with self._lock:
            _check_rates(f"direct meter of table {table}", rates)
            self._table(table).set_meter(key, priority, rates)

    def direct_meter_rates(self, table: str, key: tuple[KeyMatch, ...], priority: int) -> MeterRates | None:
        """Return the rates of an entry's direct meter; None where there are none, or no such entry."""
        with self._lock:
            return self._table(table).rates(key, priority)

    def on_digest(self, callback: Callable[[str, tuple[int, ...]], None] | None) -> None:
        """Call ``callback(name, values)`` for every digest, while its packet is processed. It must not block."""
        with self._lock:
            self.loaded.on_digest(callback)

    # -- clones ----------------------------------------------------------

    def set_session(self, session: int, replicas: Sequence[Replica], group: int = 0) -> None:
        """Create or replace a clone session: clones go to ``replicas``, and to those of multicast group ``group`` (0:
        none)."""
        if not 0 <= session < SESSIONS:
            raise InvalidEntryError(f"clone session {session} is not in 0..{SESSIONS - 1}")
        if not 0 <= group <= MAX_GROUP:
            raise InvalidEntryError(f"clone session {session}: multicast group {group} is not in 0..{MAX_GROUP}")
        self._check_replicas(f"clone session {session}", replicas)
        with self._lock:
            self.loaded.set_session(session, [(replica.port, replica.instance) for replica in replicas], group)

    def delete_session(self, session: int) -> None:
        with self._lock:
            if session not in self.loaded.sessions:
                raise NotFoundError(f"there is no clone session {session}")
            self.loaded.delete_session(session)

    def sessions(self) -> dict[int, tuple[tuple[Replica, ...], int]]:
        """Return replicas and multicast group (0: none) by session."""
        with self._lock:
            found = self.loaded.sessions.items()
            return {number: (tuple(Replica(*pair) for pair in replicas), group) for number, (replicas, group) in found}
