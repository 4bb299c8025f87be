# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of a grid: its cells, those that a rule leaves out, and the sessions that measure the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sumwire_lab.bench.where.record import BRIDGE, SWITCHES, SYSTEMS, Key, Place, Record, Skipped
from sumwire_lab.bench.wire import all_reduce_bytes
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import UNLIMITED

# 4 KB to 400 MB.
SIZES: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
RATES: Final = (10.0, 100.0, 1000.0, 10_000.0, UNLIMITED)
QUICK_SIZES: Final = (1_000, 100_000, 1_000_000)
QUICK_RATES: Final = (100.0, 1000.0, UNLIMITED)
BUDGET_S: Final = 60.0
REPEATS: Final = 3
"""Timed repeats of a cell at least, after one that is not timed."""
# Tensor, copy, result and what a codec needs, of every worker: measured for THC, the largest.
_MEMORY_BYTES: Final = 40
# Seconds of a session beside its all-reduces: network, switch, four Python processes.
_SESSION_S: Final = 10.0


@dataclass(frozen=True)
class Grid:
    """What is to be measured."""

    sizes: tuple[int, ...] = SIZES
    rates: tuple[float, ...] = RATES
    systems: tuple[str, ...] = SYSTEMS
    switches: tuple[str, ...] = SWITCHES
    workers: int = 4
    budget_s: float = BUDGET_S

    def places(self) -> list[Place]:
        """gloo over the kernel's bridge, then every system on every switch."""
        return [Place(BRIDGE, BASELINE), *(Place(switch, name) for switch in self.switches for name in self.systems)]


@dataclass(frozen=True)
class Session:
    """Cells of one system at one rate, measured one after the other in one network."""

    place: Place
    link_mbit: float
    sizes: tuple[int, ...]

    def cells(self) -> list[Key]:
        """Their keys, the smallest first."""
        return [Key(self.place, self.link_mbit, size) for size in self.sizes]

    def expected_s(self, workers: int) -> float:
        """Seconds that the session takes at least, to tell how much of a grid is left."""
        octets = sum(all_reduce_bytes(self.place.system, size, workers) for size in self.sizes)
        return _SESSION_S + (1 + REPEATS) * wire_s(octets, self.link_mbit)


def wire_s(octets: float, link_mbit: float) -> float:
    """Seconds that a link needs for so many bytes."""
    return 8 * octets / (link_mbit * 1e6)


def planned(grid: Grid, record: Record, available_bytes: int) -> list[Session]:
    """The sessions for the cells that `record` does not know. Cells that a rule leaves out are added to the record.

    Systems of one rate are next to each other, so that a ratio's two sides share what else the machine does.
    """
    sessions = []
    for rate in grid.rates:
        for place in grid.places():
            sizes = []
            for key in _unknown(grid, record, place, rate):
                why = left_out(key, grid, available_bytes)
                if why is None:
                    sizes.append(key.values)
                else:
                    record.add(Skipped(key, why))
            if sizes:
                sessions.append(Session(place, rate, tuple(sizes)))
    return sessions


def _unknown(grid: Grid, record: Record, place: Place, rate: float) -> Iterator[Key]:
    known = record.known()
    return (key for size in sorted(grid.sizes) if (key := Key(place, rate, size)) not in known)


def left_out(key: Key, grid: Grid, available_bytes: int) -> str | None:
    """The rule that leaves a cell out, or None. Without gloo's time there is no ratio, so gloo's bytes count."""
    seconds = (1 + REPEATS) * wire_s(all_reduce_bytes(BASELINE, key.values, grid.workers), key.link_mbit)
    if seconds > grid.budget_s:
        return f"gloo's bytes alone take {seconds:.0f} s in {1 + REPEATS} repeats, the budget is {grid.budget_s:g} s"
    needed = _MEMORY_BYTES * key.values * grid.workers
    if needed > available_bytes:
        return f"{needed / 1e9:.0f} GB of memory for {grid.workers} workers, {available_bytes / 1e9:.0f} GB are free"
    return None


def too_slow(keys: Sequence[Key], budget_s: float) -> list[Skipped]:
    """The rest of a session, after a cell whose time says that the next one would go over the budget."""
    why = f"by the time of the size before it, {1 + REPEATS} repeats take over the budget of {budget_s:g} s"
    return [Skipped(key, why) for key in keys]
