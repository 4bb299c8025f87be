# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The native engine's interface to the switch: the compiled program and its state."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from nativelib import build, find_compiler, load

from softswitch.native.emit import emit_c
from softswitch.native.emit_code import Message
from softswitch.native.limbs import LIMB_BYTES, argument_offsets, from_limbs, limbs, to_limbs
from softswitch.native.ports import NativePortRunner, ProgramLock
from softswitch.native.runtime_library import LogFunction, headers, present, runtime
from softswitch.native.table import NativeRow, NativeTable, meter_numbers
from softswitch.program import ir
from softswitch.program.limits import FRAME_BYTES
from softswitch.runtime.engine import TIMESTAMP_MASK, Machine, PacketSwitch, PortsSpec, log_message
from softswitch.runtime.entries import MeterRates
from softswitch.runtime.impair import SplitMix
from softswitch.runtime.tables import Pattern, RuntimeTable

COUNTER_LIMBS = 2  # packets, bytes


class NativeMachine(Machine):
    """A machine whose code is compiled C.

    ``address``: that of C's ``struct ss_machine``, valid as long as this object exists. Raises UnsupportedProgramError,
    and nativelib.NativeError if the C cannot be compiled. With ``coverage`` it counts the points of the program that
    packets reach.
    """

    def __init__(
        self, program: str | ir.Program, generator: SplitMix, clock: Callable[[], int], *, coverage: bool = False
    ) -> None:
        super().__init__(program, clock)
        emitted = emit_c(self.program, coverage=coverage)
        self._points = emitted.points
        self.source = emitted.source
        self._messages = emitted.messages
        self._generator = generator  # C uses its memory
        self._library = runtime()
        self._compiled = compiled_program(self.source)
        # Kept alive: C calls it.
        self._log = LogFunction(self._log_message)
        self.address = present(
            self._library.ss_machine_new(
                ctypes.addressof(ctypes.c_char.in_dll(self._compiled, "ss_program")), generator.address, self._log
            )
        )
        # Not at exit: the packet loop may still run in it.
        weakref.finalize(self, self._library.ss_machine_free, self.address).atexit = False
        self._collector = present(self._library.ss_collector_new())
        weakref.finalize(self, self._library.ss_collector_free, self._collector)
        self._frames = self._library.ss_collected
        self._collect = self._library.ss_collect
        actions = {action.index: action for action in self.program.actions}
        self.tables: dict[str, RuntimeTable[NativeRow]] = {
            name: RuntimeTable(table, actions, NativeTable(self.address, number, table, actions, clock))
            for number, (name, table) in enumerate(self.program.tables.items())
        }
        self.registers = self._map_registers()
        self.counters = self._map_counters()

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Return the frames that leave, with their ports."""
        now_us = self._clock() & TIMESTAMP_MASK
        count = self._collect(self.address, port, frame, len(frame), now_us, self._collector)
        if count <= 0:
            if count < 0:
                present(None)
            return []
        frames = self._frames(self._collector)
        return [(left.port, ctypes.string_at(left.data, left.length)) for left in frames[:count]]

    def reached(self) -> dict[str, int]:
        """Return how often packets of this process reached each point of a program made with ``coverage``."""
        counts = (ctypes.c_uint64 * len(self._points)).in_dll(self._compiled, "ss_reached")
        return dict(zip(self._points, counts, strict=True))

    # -- state -----------------------------------------------------------

    def _map_registers(self) -> dict[str, NativeRegister]:
        return {
            name: NativeRegister(self._cells("register", number, register.size), register)
            for number, (name, register) in enumerate(self.program.registers.items())
        }

    def _map_counters(self) -> dict[str, NativeCounter]:
        indirect = [array for array in self.program.counters.values() if array.table is None]
        return {
            array.name: NativeCounter(self._cells("counter", number, array.size), array.size)
            for number, array in enumerate(indirect)
        }

    def _cells(self, kind: str, number: int, size: int) -> int:
        """The address of an array's cells; C and Python must agree on their number."""
        address: int | None = getattr(self._library, f"ss_machine_{kind}")(self.address, number, size)
        if not address:
            raise AssertionError(f"{kind} {number} does not have {size} cells in C")
        return address

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        if not self._library.ss_machine_set_group(self.address, group, self._replicas(replicas), len(replicas)):
            present(None)
        super().set_group(group, replicas)

    @property
    def lost_passes(self) -> int:
        lost: int = self._library.ss_machine_lost_passes(self.address)
        return lost

    def set_session(self, session: int, replicas: Sequence[tuple[int, int]], group: int) -> None:
        pairs = self._replicas(replicas)
        if not self._library.ss_machine_set_session(self.address, session, pairs, len(replicas), group, 1):
            present(None)
        super().set_session(session, replicas, group)

    def _replicas(self, replicas: Sequence[tuple[int, int]]) -> Any:
        """An array for C."""
        replica = self._library.ss_replica
        return (replica * len(replicas))(*(replica(*one) for one in replicas))

    def delete_session(self, session: int) -> None:
        super().delete_session(session)
        self._library.ss_machine_set_session(self.address, session, None, 0, 0, 0)

    def delete_group(self, group: int) -> None:
        super().delete_group(group)
        self._library.ss_machine_set_group(self.address, group, None, 0)

    def _log_message(self, _machine: int, number: int, values: int) -> None:
        message = self._messages[number]
        text, read = _read_message(message, values)
        (self._learn if message.is_digest else log_message)(text, read)

    def set_value_set(self, name: str, members: Sequence[Pattern]) -> None:
        widths = self.program.value_sets[name].widths
        keys = b"".join(
            to_limbs(numbers[place], width)
            for member in members
            for place in (0, 1)
            for numbers, width in zip(member, widths, strict=True)
        )
        number = list(self.program.value_sets).index(name)
        count = 2 * sum(map(limbs, widths))
        if not self._library.ss_machine_set_values(self.address, number, keys, count, len(members)):
            present(None)

    def set_meter(self, name: str, index: int, rates: MeterRates | None) -> None:
        number = [meter.name for meter in self.program.meters.values() if meter.table is None].index(name)
        numbers = meter_numbers(rates, self.now_us())
        if not self._library.ss_machine_set_meter(self.address, number, index, *numbers):
            raise AssertionError(f"there is no meter {name}[{index}] in C")


class NativeRegister:
    """The cells of a register array, like a list of numbers."""

    def __init__(self, address: int, register: ir.Register) -> None:
        self._register = register
        self._stride = limbs(register.width) * LIMB_BYTES
        self._memory = memoryview((ctypes.c_uint8 * (register.size * self._stride)).from_address(address)).cast("B")

    def __len__(self) -> int:
        return self._register.size

    def __iter__(self) -> Iterator[int]:
        """All cells as they are now. Much faster than one by one: most cells of a large array are 0."""
        data, zero = bytes(self._memory), bytes(self._stride)
        for start in range(0, len(data), self._stride):
            cell = data[start : start + self._stride]
            yield 0 if cell == zero else from_limbs(cell, self._register.width, signed=self._register.signed)

    def __getitem__(self, index: int) -> int:
        return from_limbs(self._cell(index), self._register.width, signed=self._register.signed)

    def __setitem__(self, index: int, value: int) -> None:
        self._cell(index)[:] = to_limbs(value, self._register.width)

    def _cell(self, index: int) -> memoryview:
        if not 0 <= index < len(self):
            raise IndexError(f"register {self._register.name} has {len(self)} cells, none is number {index}")
        return self._memory[index * self._stride : (index + 1) * self._stride]


class NativeCounter:
    """The cells of an indirect counter, like a list of ``[packets, bytes]``."""

    def __init__(self, address: int, size: int) -> None:
        memory = (ctypes.c_uint64 * (size * COUNTER_LIMBS)).from_address(address)
        self._memory = memoryview(memory).cast("B").cast("Q")
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> memoryview:
        if not 0 <= index < self._size:
            raise IndexError(f"a counter of {self._size} cells has none of number {index}")
        return self._memory[index * COUNTER_LIMBS : (index + 1) * COUNTER_LIMBS]


def compiled_program(source: str) -> ctypes.CDLL:
    """Compile ``source``, and return the library, which exports ``struct ss_program ss_program``. It stays loaded.

    Raises nativelib.NativeError.
    """
    path = build(
        "softswitch-program",
        [],
        generated={**headers(), "program.c": source},
        flags=[f"-Wframe-larger-than={FRAME_BYTES}", "-Werror=frame-larger-than="],
        wide_bitint=True,
    )
    return load(path)


def _read_message(message: Message, address: int) -> tuple[str, tuple[int, ...]]:
    """Format and values of a log message whose values lie at ``address``."""
    offsets, total = argument_offsets(value.width for value in message.values)
    data = ctypes.string_at(address, total * LIMB_BYTES)
    values = tuple(
        from_limbs(data[offset * LIMB_BYTES :], value.width, signed=value.signed)
        for offset, value in zip(offsets, message.values, strict=True)
    )
    return message.format, values


class NativeEngine:
    """An :class:`softswitch.runtime.engine.Engine` that compiles programs to machine code.

    ``start_ns``: the moment of the monotonic clock at which P4's timestamps are 0. ``coverage``: programs count the
    points that packets reach. Raises nativelib.NativeError without a compiler.
    """

    name: Literal["native"] = "native"

    def __init__(self, start_ns: int, *, coverage: bool = False) -> None:
        self._coverage = coverage
        find_compiler(wide_bitint=True)
        headers(), runtime()  # while this user may read the sources
        self.lock = ProgramLock(start_ns)

    def machine(self, program: ir.Program, generator: SplitMix, clock: Callable[[], int]) -> NativeMachine:
        return NativeMachine(program, generator, clock, coverage=self._coverage)

    def run(self, machine: NativeMachine) -> None:
        self.lock.run(machine.address)

    def check(self, program: ir.Program) -> None:
        emit_c(program)

    def port_runner(self, switch: PacketSwitch, ports: PortsSpec) -> NativePortRunner:
        return NativePortRunner(switch, self.lock, ports)
