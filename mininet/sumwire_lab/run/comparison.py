# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Two runs beside each other: which settings differ, and by what their numbers differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sumwire_protocol.logs.forms import printable
from sumwire_protocol.outside import OutsideError, bounded_text, json_of, shown

from sumwire_lab.errors import OptionError
from sumwire_lab.options.layout import load
from sumwire_lab.options.recorded import SETTINGS, TOPOLOGY, settings_in

_BYTES_MOST: Final = 1 << 22
# Of one run. The lab knows fewer.
_SYSTEMS_MOST: Final = 256
_SUMMARY: Final = "summary.json"
# The seed chooses which of many equal runs this is, and a run may have fewer systems than the other one.
_FREE: Final = frozenset({"seed", "systems"})
# Of summary.json, for runs without recorded settings.
_OF_SUMMARY: Final = (
    "workers", "link_mbit", "topology", "switch", "engine", "queue_packets", "seed", "impair", "conditions", "laned",
    "task",
)  # fmt: skip
_OF_MACHINE: Final = ("processor", "cores", "kernel", "python", "torch", "sumwire")
MEASURES: Final[Mapping[str, str]] = {
    "comm_s_per_step": "communication per step, s",
    "compute_s_per_step": "rest of the step, s",
    "step_s": "whole step, s",
    "time_to_target_s": "time to the target accuracy, s",
    "accuracy": "test accuracy",
    "wire_bytes_per_step": "bytes on a link per step",
    "nmse": "NMSE of the gradient",
    "retransmissions": "retransmissions",
}
"""Names by key in summary.json."""


@dataclass(frozen=True)
class Recorded:
    """A run's folder: its name, settings and summary. `settings` is None for a run that did not keep them."""

    name: str
    settings: Mapping[str, Any] | None
    summary: Mapping[str, Any]

    @property
    def told(self) -> dict[str, Any]:
        """The settings that its summary has."""
        return {name: self.summary.get(name) for name in _OF_SUMMARY}

    @property
    def machine(self) -> dict[str, Any]:
        """What decides how fast a run is besides its settings; empty for a run that did not tell it."""
        known = self.summary.get("machine")
        return {name: known.get(name) for name in _OF_MACHINE} if isinstance(known, dict) else {}

    @classmethod
    def of(cls, folder: Path) -> Recorded:
        """Read a folder. Raises OptionError."""
        path = folder / _SUMMARY
        try:
            summary = json_of(bounded_text(path, _BYTES_MOST))
        except (OSError, OutsideError) as error:
            raise OptionError(f"{path}: {error}: name the folder of a run, as results/latest") from error
        systems = summary.get("systems") if isinstance(summary, dict) else None
        if not isinstance(systems, dict) or not all(isinstance(entry, dict) for entry in systems.values()):
            raise OptionError(f"{path}: must be an object with systems, as `sumwire-lab run` writes it")
        if len(systems) > _SYSTEMS_MOST:
            raise OptionError(f"{path}: has {len(systems)} systems: must be at most {_SYSTEMS_MOST}")
        settings = settings_in(folder) if (folder / SETTINGS).exists() else None
        if settings is not None and settings.get("topology") == TOPOLOGY:
            settings["topology"] = json.dumps(load(folder / TOPOLOGY).as_dict())
        return cls(str(folder), settings, summary)


@dataclass(frozen=True)
class Setting:
    """A setting in which two runs differ. `free`: runs that differ in it can still be compared."""

    name: str
    first: str
    second: str
    free: bool


@dataclass(frozen=True)
class Line:
    """A measure of a system in both runs, and the first value over the second, where both are known."""

    system: str
    measure: str
    first: float | None
    second: float | None
    ratio: float | None

    @property
    def shown(self) -> tuple[str, str, str]:
        """The values and their ratio in words."""
        return _number(self.first), _number(self.second), _number(self.ratio)


@dataclass(frozen=True)
class Comparison:
    """What differs between two runs."""

    first: str
    second: str
    settings: tuple[Setting, ...]
    lines: tuple[Line, ...]
    alone: tuple[str, ...]
    """Systems of only one of the runs, in words."""

    @property
    def comparable(self) -> bool:
        """Whether nothing but a seed, or the list of systems, was set otherwise."""
        return all(one.free for one in self.settings)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if not self.settings:
            return "Both runs have the same settings."
        if self.comparable:
            return "The runs can be compared: of their settings only " + self._names(free=True) + " differ."
        return "Not comparable: the runs differ in " + self._names(free=False) + ". Ratios tell what that changes."

    def _names(self, *, free: bool) -> str:
        return ", ".join(one.name for one in self.settings if one.free == free)

    def rows(self) -> list[tuple[str, ...]]:
        """A table of text: a heading, and a row for each measure that both runs or one of them have."""
        return [
            ("system", "measure", "A", "B", "A / B"),
            *((one.system, one.measure, *one.shown) for one in self.lines),
        ]


def compare(first: Recorded, second: Recorded) -> Comparison:
    """Compare two runs: by the settings that both have kept, or else by what their summaries say of them."""
    ours, others = first.settings, second.settings
    if ours is None or others is None:
        ours, others = first.told, second.told
    if first.machine and second.machine:
        ours, others = {**ours, **first.machine}, {**others, **second.machine}
    names = [*ours, *(name for name in others if name not in ours)]
    settings = tuple(
        Setting(name, _text(ours.get(name)), _text(others.get(name)), free=name in _FREE)
        for name in names
        if ours.get(name) != others.get(name)
    )
    mine, theirs = first.summary["systems"], second.summary["systems"]
    lines = tuple(
        _line(system, key, mine[system], theirs[system])
        for system in mine
        if system in theirs
        for key in MEASURES
        if mine[system].get(key) is not None or theirs[system].get(key) is not None
    )
    alone = [f"{printable(name)} only in A" for name in mine if name not in theirs]
    alone += [f"{printable(name)} only in B" for name in theirs if name not in mine]
    return Comparison(first.name, second.name, settings, lines, tuple(alone))


def _line(system: str, key: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Line:
    values = [_checked(system, key, entry.get(key)) for entry in (mine, theirs)]
    first, second = values
    ratio = first / second if first is not None and second else None
    return Line(printable(system), MEASURES[key], first, second, ratio)


def _checked(system: str, key: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionError(f"{_SUMMARY}: {shown(system)} {key}={shown(value)}: must be a number")
    return float(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def _text(value: Any) -> str:
    """As a page and the terminal show it: files of others may hold anything."""
    return "-" if value is None else printable(value if isinstance(value, str) else json.dumps(value))


def text(found: Comparison) -> str:
    """For the terminal."""
    from sumwire_lab.run.report import aligned

    parts = [f"A  {found.first}\nB  {found.second}", found.verdict]
    if found.settings:
        parts.append(aligned([("setting", "A", "B"), *((one.name, one.first, one.second) for one in found.settings)]))
    parts.append(aligned(found.rows()))
    parts += found.alone
    return "\n\n".join(parts)
