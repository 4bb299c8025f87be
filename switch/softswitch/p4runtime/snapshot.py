# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The tables and groups of a device as they are when first asked for, for one Read: each is fetched once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from softswitch.device import Device
from softswitch.p4runtime.tables import Row
from softswitch.runtime.entries import Entry, KeyMatch, Replica


class Snapshot:
    """Methods raise NotFoundError for a table that the device does not have."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._rows: dict[str, list[Entry]] = {}
        self._by_key: dict[str, dict[tuple[KeyMatch, ...], list[Entry]]] = {}

    @cached_property
    def groups(self) -> Mapping[int, tuple[Replica, ...]]:
        return self.device.groups()

    @cached_property
    def sessions(self) -> Mapping[int, tuple[tuple[Replica, ...], int]]:
        return self.device.sessions()

    def rows(self, table: str) -> list[Entry]:
        if table not in self._rows:
            self._rows[table] = self.device.entries(table)
        return self._rows[table]

    def rows_of(self, table: str, key: tuple[KeyMatch, ...]) -> list[Entry]:
        """The rows with this key, of any priority."""
        if table not in self._by_key:
            index: dict[tuple[KeyMatch, ...], list[Entry]] = {}
            for entry in self.rows(table):
                index.setdefault(entry.key, []).append(entry)
            self._by_key[table] = index
        return self._by_key[table].get(key, [])

    def row(self, wanted: Row) -> Entry:
        """Raises NotThereError."""
        return wanted.among(self.rows_of(wanted.table.name, wanted.key))
