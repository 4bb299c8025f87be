# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The Python engine as the switch sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Literal

from softswitch.program import ir
from softswitch.python.emit import emit_program
from softswitch.python.machine import PythonMachine
from softswitch.python.ports import PythonPortRunner
from softswitch.runtime.engine import PacketSwitch
from softswitch.runtime.impair import ImpairmentSpec
from softswitch.runtime.splitmix import SplitMix
from softswitch.runtime.trains import DEFAULT_TRAINS, TrainSpec


class PythonEngine:
    """An :class:`softswitch.runtime.engine.Engine` that needs no compiler."""

    name: Literal["python"] = "python"

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def machine(self, program: ir.Program, generator: SplitMix, clock: Callable[[], int]) -> PythonMachine:
        return PythonMachine(program, generator, clock)

    def run(self, machine: PythonMachine) -> None:
        """Nothing to do: the switch calls the machine's ``process`` itself."""

    def check(self, program: ir.Program) -> None:
        emit_program(program)

    def port_runner(
        self,
        switch: PacketSwitch,
        interfaces: Mapping[int, str],
        impairment: ImpairmentSpec | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
        *,
        trains: TrainSpec = DEFAULT_TRAINS,
    ) -> PythonPortRunner:
        """See the protocol. These ports take and send no trains."""
        return PythonPortRunner(switch, interfaces, impairment, on_failure)
