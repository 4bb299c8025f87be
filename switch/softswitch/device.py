# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The control interface of a running switch, in names and integers, independent of P4Runtime.

The switch implements :class:`Device`; the P4Runtime server translates requests into these calls. Names are the fully
qualified names of bmv2's JSON (``ingress.forward``). Every call, or batch of them, takes effect between two packets.
Calls raise the errors of :mod:`softswitch.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from softswitch.errors import DeviceError
from softswitch.program import ir
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, KeyMatch, MeterRates, Replica


class Device(Protocol):
    @property
    def loads(self) -> int:
        """How many programs have been loaded so far."""

    @property
    def program(self) -> ir.Program:
        """The program that runs. Raises NotFoundError without one."""

    def load(self, program: ir.Program) -> None:
        """Replace program, entries, counters, registers and groups.

        Raises UnsupportedProgramError, and then leaves everything unchanged.
        """

    def batch(self) -> AbstractContextManager[None]:
        """Context manager: table writes inside it take effect at its end, for each table together. Only one may be
        open."""

    def insert(self, table: str, entry: Entry) -> None: ...

    def insert_many(self, table: str, entries: Sequence[Entry]) -> list[DeviceError | None]:
        """Insert entries, and return the error of each or None, as if :meth:`insert` were called one after the other.
        Raises NotFoundError without the table."""

    def modify(self, table: str, entry: Entry) -> None: ...

    def delete(self, table: str, key: tuple[KeyMatch, ...], priority: int = 0) -> None: ...

    def entry(self, table: str, key: tuple[KeyMatch, ...], priority: int = 0) -> Entry | None:
        """Return an entry, None if there is none. The cost does not depend on the table's length."""

    def entries(self, table: str) -> list[Entry]:
        """Return a table's entries: const entries too, but not the default action."""

    def default_action(self, table: str) -> ActionCall | None: ...

    def set_default_action(self, table: str, action: ActionCall | None) -> None:
        """Set the default action; None restores the program's own."""

    def read_counter(self, counter: str, index: int) -> CounterValue: ...

    def write_counter(self, counter: str, index: int, value: CounterValue) -> None: ...

    def counter_size(self, counter: str) -> int: ...

    def write_direct_counter(
        self, table: str, key: tuple[KeyMatch, ...], priority: int, value: CounterValue
    ) -> None: ...

    def set_group(self, group: int, replicas: Sequence[Replica]) -> None:
        """Create or replace a multicast group."""

    def delete_group(self, group: int) -> None: ...

    def groups(self) -> dict[int, tuple[Replica, ...]]: ...

    def set_session(self, session: int, replicas: Sequence[Replica], group: int = 0) -> None:
        """Create or replace a clone session: clones go to ``replicas``, and to those of multicast group ``group`` (0:
        none)."""

    def delete_session(self, session: int) -> None: ...

    def sessions(self) -> dict[int, tuple[tuple[Replica, ...], int]]: ...

    def set_value_set(self, name: str, members: Sequence[tuple[int | KeyMatch, ...]]) -> None:
        """Replace the members of a parser's value set. A member is a number or a match for each field of the select's
        key."""

    def set_meter(self, name: str, index: int, rates: MeterRates | None) -> None:
        """Configure one meter of an array. With None, all its packets are green."""

    def meter_rates(self, name: str, index: int) -> MeterRates | None:
        """Return the rates of one meter of an array; None where it is not configured."""

    def set_direct_meter(self, table: str, key: tuple[KeyMatch, ...], priority: int, rates: MeterRates | None) -> None:
        """Configure the direct meter of an entry. With None, all its packets are green."""

    def direct_meter_rates(self, table: str, key: tuple[KeyMatch, ...], priority: int) -> MeterRates | None:
        """Return the rates of an entry's direct meter; None where there are none, or no such entry."""

    def on_digest(self, callback: Callable[[str, tuple[int, ...]], None] | None) -> None:
        """Call ``callback(name, values)`` for every digest of the running program, while its packet is processed."""

    def inject(self, port: int, frame: bytes) -> None:
        """Run one frame through the pipeline as if it had arrived at ``port`` (PacketOut uses the CPU port)."""

    def on_cpu_frame(self, callback: Callable[[bytes], None] | None) -> None:
        """Pass frames that leave by the CPU port to ``callback``, as deparsed (PacketIn)."""
