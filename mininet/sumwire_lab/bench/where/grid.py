# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A grid of all-reduces over size, link rate, system and switch: its plan, and its record.

The plan has the cells, those that a rule omits, and the sessions that measure the others. The record, one JSON file,
has the measured cells, and the omitted ones with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from sumwire.systems.formula import wire_s

from sumwire_lab.bench.timing import all_reduce_bytes
from sumwire_lab.errors import LabError
from sumwire_lab.options.bench_options import GRID_SWITCHES, GRID_SYSTEMS
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import UNLIMITED

BRIDGE: Final = "bridge"
"""The kernel's bridge, over which gloo runs; in the place of a switch's name."""
_SWITCH_ORDER: Final = (BRIDGE, *GRID_SWITCHES)
_SYSTEM_ORDER: Final = (BASELINE, *GRID_SYSTEMS)


@dataclass(frozen=True)
class SystemAt:
    """A system on a kind of switch. Its costs do not depend on size or link rate."""

    switch: str
    system: str

    @property
    def label(self) -> str:
        return self.system if self.switch == BRIDGE else f"{self.system}, {self.switch}"

    @property
    def order(self) -> tuple[int, int, str]:
        """The order in tables and pictures: gloo first; systems other than the usual ones last, by name."""
        known = _SYSTEM_ORDER.index(self.system) if self.system in _SYSTEM_ORDER else len(_SYSTEM_ORDER)
        return _SWITCH_ORDER.index(self.switch), known, self.system


@dataclass(frozen=True)
class CellKey:
    """One all-reduce of the grid. `link_mbit` may be UNLIMITED."""

    place: SystemAt
    link_mbit: float
    values: int

    @property
    def order(self) -> tuple[object, ...]:
        """Order of files and lists: by rate, place and size."""
        return self.link_mbit, self.place.order, self.values


@dataclass(frozen=True)
class Cell:
    """What was measured for one key."""

    key: CellKey
    seconds: float
    """The slowest worker's time, median of the repeats."""
    repeats: int
    bound_s: float
    """What a link needs for the bytes of its busier direction, headers included; 0 without a limit."""
    host_cpu_s: float
    """CPU seconds of a host per million values: the mean of the hosts' medians."""
    switch_cpu_s: float | None
    """CPU seconds of the switch per million values, median; None for the kernel's bridge."""
    offloads: bool
    """Whether the hosts kept their segmentation offloads."""
    load: float
    """Load average of the machine when the session began."""


@dataclass(frozen=True)
class Skipped:
    """A key that was not measured, and the rule. `failed`: the reason is an error, so a later run tries again."""

    key: CellKey
    why: str
    failed: bool = False


@dataclass
class GridRecord:
    """The cells of a grid that have been measured so far."""

    workers: int
    cores: int
    budget_s: float
    """Seconds that the repeats of one cell may take."""
    about: dict[str, Any] = field(default_factory=dict)
    cells: dict[CellKey, Cell] = field(default_factory=dict)
    skipped: dict[CellKey, Skipped] = field(default_factory=dict)

    def add(self, *found: Cell | Skipped) -> None:
        """Add cells and omitted keys. They replace earlier ones with the same keys."""
        for one in found:
            self.cells.pop(one.key, None)
            self.skipped.pop(one.key, None)
            if isinstance(one, Cell):
                self.cells[one.key] = one
            else:
                self.skipped[one.key] = one

    def known(self) -> set[CellKey]:
        """Return the keys that need no measurement, because they are measured, or omitted by a rule."""
        return self.cells.keys() | {key for key, one in self.skipped.items() if not one.failed}

    def places(self) -> list[SystemAt]:
        """Return the systems and switches with cells, gloo first."""
        return sorted({key.place for key in self.cells}, key=lambda place: place.order)

    def rates(self) -> list[float]:
        """Return the link rates with cells, the slowest first."""
        return sorted({key.link_mbit for key in self.cells})

    def sizes(self) -> list[int]:
        """Return the numbers of values with cells."""
        return sorted({key.values for key in self.cells})

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}")
        partial.write_text(json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n")
        partial.replace(path)

    def as_json(self) -> dict[str, Any]:
        """Return the record for JSON. A link without a limit has null for its rate."""
        return {
            "workers": self.workers,
            "cores": self.cores,
            "budget_s": self.budget_s,
            "about": self.about,
            "cells": _rows(self.cells.values()),
            "skipped": _rows(self.skipped.values()),
        }

    @classmethod
    def load(cls, path: Path) -> GridRecord:
        """Read a file. Raises LabError if the file is no record."""
        try:
            told = json.loads(path.read_text())
            record = cls(told["workers"], told["cores"], told["budget_s"], told["about"])
            record.add(*(Cell(**_with_key(row)) for row in told["cells"]))
            record.add(*(Skipped(**_with_key(row)) for row in told["skipped"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LabError(f"{path}: no record of bench-where ({error!r}); remove it, or name another file") from error
        return record


def _rows(found: Iterable[Cell | Skipped]) -> list[dict[str, Any]]:
    rows = []
    for one in sorted(found, key=lambda each: each.key.order):
        row = asdict(one)
        del row["key"]
        mbit = None if one.key.link_mbit == UNLIMITED else one.key.link_mbit
        rows.append(asdict(one.key.place) | {"link_mbit": mbit, "values": one.key.values} | row)
    return rows


def _with_key(row: Mapping[str, Any]) -> dict[str, Any]:
    more = dict(row)
    place = SystemAt(more.pop("switch"), more.pop("system"))
    mbit = more.pop("link_mbit")
    return {"key": CellKey(place, UNLIMITED if mbit is None else mbit, more.pop("values")), **more}


# 4 KB to 400 MB.
GRID_SIZES: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
GRID_RATES: Final = (10.0, 100.0, 1000.0, 10_000.0, UNLIMITED)
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
    """The grid that is to be measured."""

    sizes: tuple[int, ...] = GRID_SIZES
    rates: tuple[float, ...] = GRID_RATES
    systems: tuple[str, ...] = GRID_SYSTEMS
    switches: tuple[str, ...] = GRID_SWITCHES
    workers: int = 4
    budget_s: float = BUDGET_S

    def places(self) -> list[SystemAt]:
        """Return gloo over the kernel's bridge, then every system on every switch."""
        return [
            SystemAt(BRIDGE, BASELINE),
            *(SystemAt(switch, name) for switch in self.switches for name in self.systems),
        ]


@dataclass(frozen=True)
class GridSession:
    """Cells of one system at one rate, measured one after the other in one network."""

    place: SystemAt
    link_mbit: float
    sizes: tuple[int, ...]

    def cells(self) -> list[CellKey]:
        """Return the keys of the session's cells, the smallest first."""
        return [CellKey(self.place, self.link_mbit, size) for size in self.sizes]

    def expected_s(self, workers: int) -> float:
        """Return a lower bound of the session's seconds, to tell how much of a grid is left."""
        octets = sum(all_reduce_bytes(self.place.system, size, workers) for size in self.sizes)
        return _SESSION_S + (1 + REPEATS) * wire_s(octets, self.link_mbit)


def planned(grid: Grid, record: GridRecord, available_bytes: int) -> list[GridSession]:
    """Return the sessions for the cells that `record` lacks. Cells that a rule omits are added to the record.

    Systems of one rate are measured next to each other, so that load on the machine affects both sides of a ratio.
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
                sessions.append(GridSession(place, rate, tuple(sizes)))
    return sessions


def _unknown(grid: Grid, record: GridRecord, place: SystemAt, rate: float) -> Iterator[CellKey]:
    known = record.known()
    return (key for size in sorted(grid.sizes) if (key := CellKey(place, rate, size)) not in known)


def left_out(key: CellKey, grid: Grid, available_bytes: int) -> str | None:
    """Return the rule that omits a cell, or None. Without gloo's time there is no ratio, so gloo's bytes count."""
    seconds = (1 + REPEATS) * wire_s(all_reduce_bytes(BASELINE, key.values, grid.workers), key.link_mbit)
    if seconds > grid.budget_s:
        return f"gloo's bytes alone take {seconds:.0f} s in {1 + REPEATS} repeats, the budget is {grid.budget_s:g} s"
    needed = _MEMORY_BYTES * key.values * grid.workers
    if needed > available_bytes:
        return f"{needed / 1e9:.0f} GB of memory for {grid.workers} workers, {available_bytes / 1e9:.0f} GB are free"
    return None


def too_slow(keys: Sequence[CellKey], budget_s: float) -> list[Skipped]:
    """Return the rest of a session, if a cell's time shows that the next one would exceed the budget."""
    why = f"by the time of the size before it, {1 + REPEATS} repeats take over the budget of {budget_s:g} s"
    return [Skipped(key, why) for key in keys]
