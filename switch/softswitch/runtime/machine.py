# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A loaded program as both engines present it to the switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from softswitch.program import ir
from softswitch.runtime.entries import MeterRates
from softswitch.runtime.tables import RuntimeTable
from softswitch.runtime.value_members import Pattern

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
