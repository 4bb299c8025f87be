# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The native engine as the switch sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from nativelib import find_compiler

from softswitch.native import runtime_library
from softswitch.native.emit import emit_c
from softswitch.native.machine import NativeMachine
from softswitch.native.ports import NativePortRunner
from softswitch.native.program_lock import ProgramLock
from softswitch.program import ir
from softswitch.runtime.engine import PacketSwitch
from softswitch.runtime.impair import ImpairmentSpec
from softswitch.runtime.splitmix import SplitMix
from softswitch.runtime.trains import DEFAULT_TRAINS, TrainSpec


class NativeEngine:
    """An :class:`softswitch.runtime.engine.Engine` that compiles programs to machine code.

    ``start_ns``: the moment of the monotonic clock at which P4's timestamps are 0. ``coverage``: programs count what
    packets reach. Raises nativelib.NativeError without a compiler.
    """

    name: Literal["native"] = "native"

    def __init__(self, start_ns: int, *, coverage: bool = False) -> None:
        self._coverage = coverage
        find_compiler(wide_bitint=True)
        runtime_library.headers(), runtime_library.runtime()  # while this user may read the sources
        self.lock = ProgramLock(start_ns)

    def machine(self, program: ir.Program, generator: SplitMix, clock: Callable[[], int]) -> NativeMachine:
        return NativeMachine(program, generator, clock, coverage=self._coverage)

    def run(self, machine: NativeMachine) -> None:
        self.lock.run(machine.address)

    def check(self, program: ir.Program) -> None:
        emit_c(program)

    def port_runner(
        self,
        switch: PacketSwitch,
        interfaces: Mapping[int, str],
        impairment: ImpairmentSpec | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
        *,
        trains: TrainSpec = DEFAULT_TRAINS,
    ) -> NativePortRunner:
        return NativePortRunner(switch, self.lock, interfaces, impairment, on_failure, trains=trains)
