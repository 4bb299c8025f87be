# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The interfaces of an engine: a loaded program, ports, and the engine itself."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeVar

from softswitch.events import SwitchEvent
from softswitch.program import ir
from softswitch.program.load.program import load_program
from softswitch.runtime.entries import MeterRates
from softswitch.runtime.impair import ImpairmentSpec, SplitMix
from softswitch.runtime.interface import DEFAULT_TRAINS, PortCounters, TrainSpec
from softswitch.runtime.tables import Pattern, RuntimeTable

TIMESTAMP_MASK = (1 << 48) - 1  # P4's timestamps have 48 bits


Session = tuple[tuple[tuple[int, int], ...], int]  # where clones go: (port, instance) pairs, a multicast group or 0


class RegisterCells(Protocol):
    """The cells of one register array."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, value: int, /) -> None: ...


class CounterCell(Protocol):
    """A cell of a counter: packets at 0, bytes at 1."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, value: int, /) -> None: ...


class CounterCells(Protocol):
    """The cells of one indirect counter."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> CounterCell: ...


class Machine(ABC):
    """One loaded program in an engine. Not thread-safe: callers hold the engine's lock.

    ``source`` is the generated code. ``registers`` and ``counters`` (the indirect ones) are the live cells by name.
    ``groups`` maps a multicast group to ``(port, instance)`` pairs. ``sessions``: by the number of a clone session.
    ``rates``: of the meters that are configured, by array and index. ``process`` runs one frame that arrived at a port,
    and returns the outgoing frames with their ports. ``clock`` returns microseconds.
    """

    source: str
    tables: Mapping[str, RuntimeTable[Any]]
    registers: Mapping[str, RegisterCells]
    counters: Mapping[str, CounterCells]
    process: Callable[[int, bytes], list[tuple[int, bytes]]]

    def __init__(self, program: str | ir.Program, clock: Callable[[], int]) -> None:
        self.program = load_program(program) if isinstance(program, str) else program
        self.groups: dict[int, tuple[tuple[int, int], ...]] = {}
        self.sessions: dict[int, Session] = {}
        self.rates: dict[tuple[str, int], MeterRates] = {}
        self._clock = clock
        self._digest: Callable[[str, tuple[int, ...]], None] | None = None

    @property
    @abstractmethod
    def lost_passes(self) -> int:
        """How many clones, resubmitted and recirculated packets were dropped because one frame caused too many."""

    def now_us(self) -> int:
        """Return the time in the unit of P4's timestamps."""
        return self._clock() & TIMESTAMP_MASK

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Create or replace a multicast group."""
        self.groups[group] = tuple(replicas)

    def delete_group(self, group: int) -> None:
        """Raises KeyError if there is no such group."""
        del self.groups[group]

    def set_session(self, session: int, replicas: Sequence[tuple[int, int]], group: int) -> None:
        """Create or replace a clone session: clones go to ``replicas``, and to those of multicast group ``group`` (0:
        none)."""
        self.sessions[session] = tuple(replicas), group

    def delete_session(self, session: int) -> None:
        """Raises KeyError if there is no such session."""
        del self.sessions[session]

    @abstractmethod
    def set_value_set(self, name: str, members: Sequence[Pattern]) -> None:
        """Replace the members of a parser value set. A member is a value and a mask for each field of the key."""

    @abstractmethod
    def set_meter(self, name: str, index: int, rates: MeterRates | None) -> None:
        """Configure one meter, whose buckets are then full. With None all packets are green."""

    def on_digest(self, callback: Callable[[str, tuple[int, ...]], None] | None) -> None:
        """Call ``callback(name, values)`` for every digest, while its packet is processed."""
        self._digest = callback

    def _learn(self, name: str, values: tuple[int, ...]) -> None:
        """Pass on a digest of the program."""
        if self._digest is not None:
            self._digest(name, values)


_log = logging.getLogger("softswitch.program")


def log_message(text: str, values: tuple[int, ...]) -> None:
    """Log ``text`` with each ``{}`` replaced by the next value."""
    if not _log.isEnabledFor(logging.INFO):
        return
    for value in values:
        text = text.replace("{}", str(value), 1)
    _log.info("%s", text, extra=SwitchEvent.PROGRAM_SAID())


Packet = dict[str, Any]  # what happened to one packet: see docs/trace.md
Tracer = Callable[[Packet], None]

M = TypeVar("M", bound=Machine)

Transmit = Callable[[int, bytes], None]


class PacketSwitch(Protocol):
    """The methods of a switch that port runners use."""

    @property
    def cpu_port(self) -> int | None:
        """Port of packet-in and packet-out."""

    def receive(self, port: int, frame: bytes) -> None:
        """Run one frame and send what leaves."""

    def to_cpu(self, frame: bytes) -> None:
        """Take a frame that left by the CPU port. The native engine calls it without holding its lock."""

    def on_transmit(self, transmit: Transmit | None) -> None:
        """Call ``transmit(port, frame)`` for every frame that Python code sends to the wire."""


@dataclass(frozen=True)
class PortsSpec:
    """The ports to open. ``interfaces``: names by port number. ``on_failure``: called with the exception that ended a
    thread, in that thread. ``trains``: for the native engine; the Python engine's ports receive and send none."""

    interfaces: Mapping[int, str]
    impairment: ImpairmentSpec | None = None
    on_failure: Callable[[BaseException], None] | None = None
    trains: TrainSpec = DEFAULT_TRAINS


class PortRunner(ABC):
    """Runs a switch on network interfaces, in threads of its own. Use as a context manager, or start and stop."""

    @property
    @abstractmethod
    def counters(self) -> dict[int, PortCounters]:
        """The ports' counters at this moment, by port."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """End the threads and close the ports."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Engine(Protocol[M]):
    """Turns programs into machines and runs one of them at a time.

    ``lock`` is re-entrant. It is held while a packet runs and by every thread that uses the running machine.
    """

    @property
    def name(self) -> Literal["python", "native"]: ...

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    def machine(self, program: ir.Program, generator: SplitMix, clock: Callable[[], int]) -> M:
        """Return a machine for ``program``. ``clock`` returns microseconds.

        Raises UnsupportedProgramError, and nativelib.NativeError if the C code cannot be compiled.
        """

    def run(self, machine: M) -> None:
        """Run ``machine`` from the next packet on. The caller holds ``lock`` and keeps the machine alive."""

    def check(self, program: ir.Program) -> None:
        """Raise UnsupportedProgramError for a construct that this engine cannot run."""

    def port_runner(self, switch: PacketSwitch, ports: PortsSpec) -> PortRunner:
        """Open the ports of a switch. Raises PortError."""
