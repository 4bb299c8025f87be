# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The switch: one loaded program behind one lock."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from softswitch.device import (
    ActionCall,
    CounterValue,
    Entry,
    InvalidEntryError,
    KeyMatch,
    NotFoundError,
    Replica,
)
from softswitch.machine import Machine
from softswitch.tables import RuntimeTable

DROP_PORT = 511
MAX_GROUP = 0xFFFF

Transmit = Callable[[int, bytes], None]


class SoftSwitch:
    """Implements :class:`softswitch.device.Device`; thread-safe.

    ``seed`` fixes what P4's ``random`` draws. ``cpu_port`` is the port whose frames go to the callback of
    :meth:`on_cpu_frame` instead of the wire. ``clock`` gives microseconds for the P4 timestamps.
    """

    def __init__(
        self,
        bmv2_json: str | None = None,
        *,
        seed: int | None = None,
        cpu_port: int | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._lock = threading.RLock()
        self._random = random.Random(seed)
        self._cpu_port = cpu_port
        start_ns = time.monotonic_ns()
        self._clock = clock or (lambda: (time.monotonic_ns() - start_ns) // 1000)
        self._machine: Machine | None = None
        self._transmit: Transmit | None = None
        self._cpu_frame: Callable[[bytes], None] | None = None
        if bmv2_json is not None:
            self.load(bmv2_json)

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
                if out_port == self._cpu_port:
                    if self._cpu_frame is not None:
                        self._cpu_frame(out_frame)
                elif self._transmit is not None:
                    self._transmit(out_port, out_frame)

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

    def load(self, bmv2_json: str) -> None:
        machine = Machine(bmv2_json, self._random, self._clock)
        with self._lock:
            self._machine = machine

    @property
    def loaded(self) -> Machine:
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
            self.loaded.registers[name][index] = value

    # -- tables ----------------------------------------------------------

    def _table(self, name: str) -> RuntimeTable:
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

    def read_counter(self, counter: str, index: int) -> CounterValue:
        with self._lock:
            return self.loaded.read_counter(counter, index)

    def write_counter(self, counter: str, index: int, value: CounterValue) -> None:
        with self._lock:
            self.loaded.counter_cell(counter, index)[:] = value.packets, value.bytes

    def counter_size(self, counter: str) -> int:
        with self._lock:
            return len(self.loaded.counter_cells(counter))

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
            self.loaded.groups[group] = tuple((replica.port, replica.instance) for replica in replicas)

    def delete_group(self, group: int) -> None:
        with self._lock:
            if self.loaded.groups.pop(group, None) is None:
                raise NotFoundError(f"there is no multicast group {group}")

    def groups(self) -> dict[int, tuple[Replica, ...]]:
        with self._lock:
            return {
                group: tuple(Replica(port, instance) for port, instance in replicas)
                for group, replicas in self.loaded.groups.items()
            }
