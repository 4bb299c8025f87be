# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A loaded program as both engines present it to the switch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from softswitch.program import ir
from softswitch.runtime.tables import RuntimeTable

TIMESTAMP_MASK = (1 << 48) - 1  # P4's timestamps have 48 bits


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
    ``groups`` maps a multicast group to ``(port, instance)`` pairs.
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

    def process(self, port: int, frame: bytes, /) -> list[tuple[int, bytes]]:
        """Run one frame; returns the frames that leave, with their ports."""

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Create or replace a multicast group."""

    def delete_group(self, group: int) -> None:
        """Raises KeyError if there is no such group."""
