# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The record of a grid: what was measured, what was left out and why, as one JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from sumwire_lab.errors import LabError
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import AGGREGATOR, UNLIMITED

BRIDGE: Final = "bridge"
"""The kernel's bridge, over which gloo runs; in the place of a switch's name."""
SWITCHES: Final = ("soft", AGGREGATOR, "bmv2")
SYSTEMS: Final = ("thc", "sign", "sum32")
"""Beside gloo, which every grid has."""
_SWITCH_ORDER: Final = (BRIDGE, *SWITCHES)
_SYSTEM_ORDER: Final = (BASELINE, *SYSTEMS)


@dataclass(frozen=True)
class Place:
    """A system on a kind of switch. Its costs do not depend on size or link rate."""

    switch: str
    system: str

    @property
    def label(self) -> str:
        return self.system if self.switch == BRIDGE else f"{self.system}, {self.switch}"

    @property
    def order(self) -> tuple[int, int, str]:
        """Of tables and pictures: gloo first; other systems than the usual ones last, by name."""
        known = _SYSTEM_ORDER.index(self.system) if self.system in _SYSTEM_ORDER else len(_SYSTEM_ORDER)
        return _SWITCH_ORDER.index(self.switch), known, self.system


@dataclass(frozen=True)
class Key:
    """One all-reduce of the grid. `link_mbit` may be UNLIMITED."""

    place: Place
    link_mbit: float
    values: int

    @property
    def order(self) -> tuple[object, ...]:
        """Of files and lists: by rate, place and size."""
        return self.link_mbit, self.place.order, self.values


@dataclass(frozen=True)
class Cell:
    """What was measured for one key."""

    key: Key
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
    """One key that was not measured, and the rule. `failed`: an error, so that a later run tries again."""

    key: Key
    why: str
    failed: bool = False


@dataclass
class Record:
    """A grid as far as it was measured."""

    workers: int
    cores: int
    budget_s: float
    """Seconds that the repeats of one cell may take."""
    about: dict[str, Any] = field(default_factory=dict)
    cells: dict[Key, Cell] = field(default_factory=dict)
    skipped: dict[Key, Skipped] = field(default_factory=dict)

    def add(self, *found: Cell | Skipped) -> None:
        """Keep cells and what was left out, in place of what there was for the same keys."""
        for one in found:
            self.cells.pop(one.key, None)
            self.skipped.pop(one.key, None)
            if isinstance(one, Cell):
                self.cells[one.key] = one
            else:
                self.skipped[one.key] = one

    def known(self) -> set[Key]:
        """The keys that need no measurement: measured, or left out by a rule."""
        return self.cells.keys() | {key for key, one in self.skipped.items() if not one.failed}

    def places(self) -> list[Place]:
        """Systems and switches with cells, gloo first."""
        return sorted({key.place for key in self.cells}, key=lambda place: place.order)

    def rates(self) -> list[float]:
        """Link rates with cells, the slowest first."""
        return sorted({key.link_mbit for key in self.cells})

    def sizes(self) -> list[int]:
        """Numbers of values with cells."""
        return sorted({key.values for key in self.cells})

    def save(self, path: Path) -> None:
        """Write the file, in one piece."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}")
        partial.write_text(json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n")
        partial.replace(path)

    def as_json(self) -> dict[str, Any]:
        """The record for JSON. A link without a limit has null for its rate."""
        return {
            "workers": self.workers,
            "cores": self.cores,
            "budget_s": self.budget_s,
            "about": self.about,
            "cells": _rows(self.cells.values()),
            "skipped": _rows(self.skipped.values()),
        }

    @classmethod
    def load(cls, path: Path) -> Record:
        """Raises LabError if the file is no record."""
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
    place = Place(more.pop("switch"), more.pop("system"))
    mbit = more.pop("link_mbit")
    return {"key": Key(place, UNLIMITED if mbit is None else mbit, more.pop("values")), **more}
