# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One switch's part of an apply: what it has, what will be written, and the writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import Change, Generations, Write, differences
from sumwire_controller.deploy.running import Part
from sumwire_controller.deploy.switch import Loaded, SwitchControl
from sumwire_controller.derive.entries import Entry, admits
from sumwire_controller.errors import ReadBackError, SwitchRefusedError
from sumwire_controller.model.config import Config

_AGAIN: Final = "run it again: sumwire-controller apply CONFIG"


@dataclass(frozen=True, slots=True)
class Found:
    """What a switch has before an apply. `entries` is empty unless it runs the wanted program."""

    loaded: Loaded | None
    entries: frozenset[Entry]

    @property
    def runs_wanted(self) -> bool:
        return self.loaded is not None and self.loaded.wanted


def look(switch: SwitchControl, program: Program) -> Found:
    """What the switch has now."""
    loaded = switch.loaded(program)
    return Found(loaded, switch.entries(program) if loaded is not None and loaded.wanted else frozenset())


@dataclass(frozen=True, slots=True)
class Steps:
    """The changes to one switch."""

    config: Config
    switch: SwitchControl
    found: Found
    generations: Generations
    desired: frozenset[Entry]
    changes: list[Change]

    def part(self) -> Part:
        """What `running_jobs_changed` must know. Counters are only read if a job would be withdrawn."""
        replaced = "" if self.found.loaded is None or self.found.runs_wanted else self.found.loaded.name
        withdraws = any(change.write is Write.DELETE and admits(change.entry) for change in self.changes)
        packets = self._packets(bool(replaced)) if replaced or withdraws else {}
        return Part(self.config, self.found.entries, self.generations, packets, replaced)

    def _packets(self, other_program: bool) -> dict[int, int]:
        """Packets by job. A program whose counters cannot be read is broken, so no job runs on it."""
        try:
            return self.switch.packets_of_jobs()
        except SwitchRefusedError:
            if not other_program:
                raise
            return {}

    def load(self, program: Program) -> None:
        """Load the program unless it runs already."""
        if self.found.runs_wanted:
            return
        self.switch.push(program)
        if self.switch.entries(program):
            raise ReadBackError(f"switch {self.config.switch.name}: has entries right after loading; {_AGAIN}")

    def write(self, changes: list[Change], program: Program) -> None:
        for change in changes:
            self.switch.write(program, change)

    def check(self, program: Program) -> None:
        lines = differences(self.desired, self.switch.entries(program)) if self.changes else []
        if lines:
            differing = "; ".join(lines)
            raise ReadBackError(f"switch {self.config.switch.name}: reads back differently: {differing}; {_AGAIN}")
