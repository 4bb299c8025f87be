# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Idle timeouts: reports entries that no packet has hit for the time that their controller set (specification:
"Idle-timeout").

Rows of such tables count their packets. A thread reads the counts four times per timeout. An entry whose count has
changed was hit since the last reading.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from softswitch.device import Device
from softswitch.errors import DeviceError
from softswitch.p4runtime.profiles import EntryKey

#: The thread looks no more often, and sleeps at least ten times as long as a look took.
SHORTEST_NS = 10_000_000
_LOOKS = 4
_REST = 10


@dataclass
class _Entry:
    """``packets``: of the row, when last looked at; ``since_ns``: the last hit, or when the entry was written."""

    timeout_ns: int
    since_ns: int
    packets: int = 0

    def look(self, packets: int, now_ns: int) -> None:
        if packets != self.packets:
            self.packets, self.since_ns = packets, now_ns


class IdleTimeouts:
    """The idle timeouts of one pipeline. ``notify`` gets the idle entries of a table, and must not block.

    The thread starts with the first entry that has a timeout.
    """

    def __init__(
        self, device: Device, notify: Callable[[list[EntryKey]], None], clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._device = device
        self._notify = notify
        self._clock = clock
        self._changed = threading.Condition()
        self._tables: dict[str, dict[EntryKey, _Entry]] = {}
        self._thread: threading.Thread | None = None
        self._ended = False

    def write(self, where: EntryKey, timeout_ns: int) -> None:
        """Restart the timeout of an entry that is inserted or modified. A timeout of 0 never expires."""
        with self._changed:
            packets = 0
            with suppress(KeyError):
                packets = self._tables[where[0]][where].packets
            self._tables.setdefault(where[0], {})[where] = _Entry(timeout_ns, self._clock(), packets)
            if timeout_ns:
                self._start()
                self._changed.notify()

    def delete(self, where: EntryKey) -> None:
        with self._changed:
            self._tables.get(where[0], {}).pop(where, None)

    def timeout_ns(self, where: EntryKey) -> int:
        with self._changed:
            known = self._tables.get(where[0], {}).get(where)
            return 0 if known is None else known.timeout_ns

    def elapsed_ns(self, where: EntryKey, packets: int) -> int:
        """Return the time since the last hit, as far as it is known. ``packets``: the row's present count."""
        with self._changed:
            now_ns = self._clock()
            known = self._tables.setdefault(where[0], {}).setdefault(where, _Entry(0, now_ns))
            known.look(packets, now_ns)
            return now_ns - known.since_ns

    def end(self) -> None:
        """Send no more notifications, and end the thread."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> int:
        """Check all entries with a timeout, notify of the idle ones, and return how long to wait."""
        shortest = 0
        with self._changed:
            timed = {
                table: min(timeouts)
                for table, entries in self._tables.items()
                if (timeouts := [each.timeout_ns for each in entries.values() if each.timeout_ns])
            }
        for table, timeout in timed.items():
            shortest = min(shortest or timeout, timeout)
            with suppress(DeviceError):  # the program has been replaced, and this ends soon
                counts = {(table, row.key, row.priority): row.counter for row in self._device.entries(table)}
                idle = self._idle(table, {key: count.packets for key, count in counts.items() if count is not None})
                if idle:
                    self._notify(idle)
        return max(shortest // _LOOKS, SHORTEST_NS)

    def _idle(self, table: str, packets: dict[EntryKey, int]) -> list[EntryKey]:
        found = []
        with self._changed:
            now_ns = self._clock()
            for where, entry in self._tables.get(table, {}).items():
                entry.look(packets.get(where, entry.packets), now_ns)
                if entry.timeout_ns and where in packets and now_ns - entry.since_ns >= entry.timeout_ns:
                    entry.since_ns = now_ns
                    found.append(where)
        return found

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="p4runtime-idle", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            started = time.monotonic_ns()
            wait_ns = self.look()
            wait_ns = max(wait_ns, _REST * (time.monotonic_ns() - started))
            with self._changed:
                if self._ended or (self._changed.wait(wait_ns / 1e9) and self._ended):
                    return
