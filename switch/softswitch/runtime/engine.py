# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Protocols between the switch, its engine and the engine's ports, and a loaded program as both engines present it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeVar

from softswitch.events import SwitchEvent
from softswitch.program import ir
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
    """Packets at 0, bytes at 1."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, value: int, /) -> None: ...


class CounterCells(Protocol):
    """The cells of one indirect counter."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> CounterCell: ...


class Machine(Protocol):
    """One loaded program in an engine. Not thread-safe: callers hold the engine's lock.

    ``source`` is the generated code. ``registers`` and ``counters`` (the indirect ones) are the live cells by name.
    ``groups`` maps a multicast group to ``(port, instance)`` pairs. ``sessions``: by the number of a clone session.
    ``lost_passes``: clones, resubmitted and recirculated packets that were too many for the frame they came from.
    """

    @property
    def program(self) -> ir.Program: ...

    @property
    def source(self) -> str: ...

    @property
    def tables(self) -> Mapping[str, RuntimeTable[Any]]: ...

    @property
    def registers(self) -> Mapping[str, RegisterCells]: ...

    @property
    def counters(self) -> Mapping[str, CounterCells]: ...

    @property
    def groups(self) -> Mapping[int, tuple[tuple[int, int], ...]]: ...

    @property
    def sessions(self) -> Mapping[int, Session]: ...

    @property
    def lost_passes(self) -> int: ...

    def process(self, port: int, frame: bytes, /) -> list[tuple[int, bytes]]:
        """Run one frame; returns the frames that leave, with their ports."""

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Create or replace a multicast group."""

    def delete_group(self, group: int) -> None:
        """Raises KeyError if there is no such group."""

    def set_value_set(self, name: str, members: Sequence[Pattern]) -> None:
        """Replace the members of a parser value set: a value and a mask for each field of the key."""

    def set_meter(self, name: str, index: int, rates: MeterRates | None) -> None:
        """Configure one meter, whose buckets are full then; None: all packets are green."""

    def on_digest(self, callback: Callable[[str, tuple[int, ...]], None] | None) -> None:
        """``callback(name, values)`` gets every digest, while its packet runs."""

    def set_session(self, session: int, replicas: Sequence[tuple[int, int]], group: int) -> None:
        """Create or replace a clone session: clones go to ``replicas``, and to those of a multicast group (0: none)."""

    def delete_session(self, session: int) -> None:
        """Raises KeyError if there is no such session."""


_log = logging.getLogger("softswitch.program")


def log_message(text: str, values: tuple[int, ...]) -> None:
    """Log ``text`` with each ``{}`` replaced by the next value."""
    if not _log.isEnabledFor(logging.INFO):
        return
    for value in values:
        text = text.replace("{}", str(value), 1)
    _log.info("%s", text, extra=SwitchEvent.PROGRAM_SAID())


M = TypeVar("M", bound=Machine)

Transmit = Callable[[int, bytes], None]


class PacketSwitch(Protocol):
    """What port runners use of a switch."""

    @property
    def cpu_port(self) -> int | None:
        """Port of packet-in and packet-out."""

    def receive(self, port: int, frame: bytes) -> None:
        """Run one frame and send what leaves."""

    def to_cpu(self, frame: bytes) -> None:
        """Take a frame that left by the CPU port. Called without the engine's lock by the native engine."""

    def on_transmit(self, transmit: Transmit | None) -> None:
        """``transmit(port, frame)`` gets every frame for the wire that Python code sends."""


class PortRunner(Protocol):
    """Runs a switch on network interfaces, in threads of its own. Use as a context manager, or start and stop."""

    @property
    def counters(self) -> dict[int, PortCounters]:
        """By port, at this moment."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """End the threads and close the ports."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *_: object) -> None: ...


class Engine(Protocol[M]):
    """Turns programs into machines and runs one of them at a time.

    ``lock`` is re-entrant. It is held while a packet runs and by every thread that uses the running machine.
    """

    @property
    def name(self) -> Literal["python", "native"]: ...

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    def machine(self, program: ir.Program, generator: SplitMix, clock: Callable[[], int]) -> M:
        """A machine for ``program``. ``clock`` gives microseconds.

        Raises UnsupportedProgramError, and nativelib.NativeError where C cannot be compiled.
        """

    def run(self, machine: M) -> None:
        """Run ``machine`` from the next packet on. The caller holds ``lock`` and keeps the machine alive."""

    def check(self, program: ir.Program) -> None:
        """Raises UnsupportedProgramError for a construct that this engine cannot run."""

    def port_runner(
        self,
        switch: PacketSwitch,
        interfaces: Mapping[int, str],
        impairment: ImpairmentSpec | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
        *,
        trains: TrainSpec = DEFAULT_TRAINS,
    ) -> PortRunner:
        """Ports on ``interfaces`` (names by port number). ``trains`` is for the native engine; the other has none.

        ``on_failure`` gets the exception that ended a thread, in that thread. Raises PortError.
        """
