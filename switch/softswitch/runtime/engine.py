# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Protocols between the switch, its engine and the engine's ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeVar

from softswitch.program import ir
from softswitch.runtime.impair import ImpairmentSpec
from softswitch.runtime.interface import PortCounters
from softswitch.runtime.machine import Machine
from softswitch.runtime.splitmix import SplitMix
from softswitch.runtime.trains import DEFAULT_TRAINS, TrainSpec

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
