# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The results of runs as text for a terminal: the table of one run, and two runs side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from commonlib.logs import printable
from commonlib.untrusted import UntrustedInputError, bounded_text, json_of, shown

from sumwire_lab.errors import OptionError
from sumwire_lab.options.layout import load
from sumwire_lab.options.recipes import BASELINE, BASELINES
from sumwire_lab.options.recorded import SETTINGS, TOPOLOGY, settings_in
from sumwire_lab.run.results import ratio
from sumwire_lab.study.figures import aligned

_NONE: Final = "-"
_MEDIAN: Final = "comm_s_per_step_median"
# A mean beyond so many medians is made by few steps.
_UNEVEN: Final = 1.5
_TRUTHS: Final = ("replicas", "hosts' offloads")
DROPS: Final = {
    "queue_classes": "decisions of the switches' virtual queues by drop class, 3 is lost first",
    "link_priorities": "packets lost in links' queues by priority, 7 is served first",
}


def _show(value: float | int | None, form: str, scale: float = 1.0) -> str:
    if value is None:
        return _NONE
    return format(value if form == "d" else value * scale, form)


@dataclass(frozen=True)
class TableRow:
    """A row of the table. ``form`` and ``scale``: the format of a system's value of ``key``. ``compare``: also show the
    ratio of gloo and one other system. ``speed_up``: show the ratios over gloo instead of the values."""

    label: str
    key: str
    form: str
    scale: float = 1.0
    compare: bool = False
    speed_up: bool = False


_TABLE: Final = (
    TableRow("test accuracy, %", "accuracy", ".2f", scale=100),
    TableRow("test loss (bits per example)", "bits_per_answer", ".3f"),
    TableRow("time to {target} accuracy, s", "time_to_target_s", ".1f", compare=True),
    TableRow("communication per step, s", "comm_s_per_step", ".3f", compare=True),
    TableRow("of which encoding and decoding, s", "codec_s_per_step", ".3f"),
    TableRow("communication speed-up over gloo", "comm_s_per_step", ".2f", speed_up=True),
    TableRow("algorithm bandwidth, MB/s", "algorithm_mb_per_s", ".1f"),
    TableRow("rest of the step, s", "compute_s_per_step", ".3f", compare=True),
    TableRow("whole step, s", "step_s", ".3f", compare=True),
    TableRow("whole step, median, s", "step_s_p50", ".3f", compare=True),
    TableRow("whole step, 99th percentile, s", "step_s_p99", ".3f", compare=True),
    TableRow("a tensor, hand-over to result, mean, s", "tensor_s", ".3f", compare=True),
    TableRow("a tensor, median, s", "tensor_s_p50", ".3f", compare=True),
    TableRow("a tensor, 99th percentile, s", "tensor_s_p99", ".3f", compare=True),
    TableRow("bytes on a link per step", "wire_bytes_per_step", ".0f", compare=True),
    TableRow("bits per value up, without headers", "payload_bits_per_value_up", ".3f"),
    TableRow("bits per value down, without headers", "payload_bits_per_value_down", ".3f"),
    TableRow("bits per value up, with headers", "bits_per_value_up", ".3f"),
    TableRow("bits per value down, with headers", "bits_per_value_down", ".3f"),
    TableRow("steps", "steps", "d"),
    TableRow("NMSE of the gradient", "nmse", ".4f"),
    TableRow("retransmissions", "retransmissions", "d"),
    TableRow("fall-backs", "fallbacks", "d"),
    TableRow("replicas bit-equal", "replicas_equal", "d"),
    TableRow("hosts' offloads on", "offloads", "d"),
)


def rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the table: a header, a row per measure, a column per system.

    With gloo and one other system, besides other baselines, a last column has the ratio of the two.
    """
    names = tuple(summary["systems"])
    others = [name for name in names if name not in BASELINES] or names[1:]
    compared = others[0] if len(others) == 1 and names[0] == BASELINE else None
    head = ("", *names, *((f"gloo / {compared}",) if compared else ()))
    return [head, *(_line_of(row, summary, compared) for row in _TABLE)]


def _line_of(row: TableRow, summary: dict[str, Any], compared: str | None) -> tuple[str, ...]:
    label = row.label.format(target=f"{summary['target_accuracy']:.0%}")
    if row.speed_up:
        cells = [_show(ratio(summary, row.key, name), row.form) for name in summary["systems"]]
    else:
        cells = [_show(entry.get(row.key), row.form, row.scale) for entry in summary["systems"].values()]
    if compared is not None:
        cells.append(_show(ratio(summary, row.key, compared), ".2f") if row.compare else "")
    return label, *cells


def shown_rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the rows of the table, with words for truth values."""
    return [tuple(_words(cell, line[0]) for cell in line) for line in rows(summary)]


def lane_rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return rows for systems with priority lanes: times of each lane's tensors, and where packets were lost. Empty
    without such a system."""
    lines: list[tuple[str, ...]] = []
    for name, entry in summary["systems"].items():
        if "tensor_by_lane" not in entry:
            continue
        lines.append((f"{name}: lane, priority", "mean, s", "median, s", "99 %, s"))
        for one in entry["tensor_by_lane"]:
            times = (_show(one[key], ".3f") for key in ("s", "s_p50", "s_p99"))
            lines.append((f"{one['lane']}, {one['priority']}", *times))
        lines.append((f"{name}: largest share missing of a tensor", _show(entry["tensor_missing_max"], ".4f"), "", ""))
        for place, counts in entry.get("drops", {}).items():
            told = ", ".join(f"{which} {count}" for which, count in counts.items()) or "none"
            lines.append((f"{name}: {DROPS.get(place, place)}", told, "", ""))
    return lines


def table(summary: dict[str, Any]) -> str:
    """Return fixed-width text: labels to the left, numbers to the right."""
    first = shown_rows(summary)
    lanes = lane_rows(summary)
    return "\n\n".join(
        [_columns(first), *best(summary), *unlike(summary), *uneven(summary), *([_columns(lanes)] if lanes else [])]
    )


def best(summary: dict[str, Any]) -> list[str]:
    """Return a sentence on the best baseline, if there are others than gloo: ratios of times to the target accuracy."""
    if sum(name in BASELINES for name in summary["systems"]) < 2:
        return []
    name = next((one["best_baseline"] for one in summary["answer"].values()), None)
    if name is None:
        return []
    ratios = [
        f"{name} / {other} is {one['over_best']:.2f}, {BASELINE} / {other} {_show(one['time_to_accuracy'], '.2f')}"
        for other, one in summary["answer"].items()
        if other not in BASELINES and one["over_best"]
    ]
    target = f"Best baseline to {summary['target_accuracy']:.0%} accuracy: {name}."
    return [f"{target} By time to it, {'; '.join(ratios)}." if ratios else f"{target} No other system reached it."]


def unlike(summary: dict[str, Any]) -> list[str]:
    """Return a sentence if the systems were not measured with the same offloads."""
    on = {name: entry["offloads"] for name, entry in summary["systems"].items() if "offloads" in entry}
    if len(set(on.values())) < 2:
        return []
    kept, lost = (", ".join(name for name in on if on[name] is value) for value in (True, False))
    return [
        f"Not the same settings: the hosts' segmentation offloads are on for {kept}, and off for {lost}. "
        f"The switch ({summary['switch']}), random loss or queues by priority cannot bear them."
    ]


def uneven(summary: dict[str, Any]) -> list[str]:
    """Return a sentence for each system where a few steps make up much of the time, so that the mean is not typical."""
    systems: dict[str, dict[str, Any]] = summary["systems"]
    base = systems.get(BASELINE, {}).get(_MEDIAN)
    told = []
    for name, entry in systems.items():
        mean, median = entry.get("comm_s_per_step"), entry.get(_MEDIAN)
        if not mean or not median or mean <= _UNEVEN * median:
            continue
        compared = [other for other in systems if other != BASELINE and name in (BASELINE, other)]
        ratios = (f"{BASELINE} / {o} is {base / systems[o][_MEDIAN]:.2f}" for o in compared if systems[o].get(_MEDIAN))
        by_medians = f" By medians {', '.join(ratios)}." if base and compared else ""
        told.append(
            f"Few steps make up much of {name}'s time: its communication takes {mean:.3f} s a step in the mean, and "
            f"{median:.3f} s in the median.{by_medians}"
        )
    return told


def _columns(lines: Sequence[tuple[str, ...]]) -> str:
    return "\n".join(aligned(lines))


def _words(cell: str, label: str) -> str:
    """Yes or no instead of 1 or 0, in the rows whose values are truth values."""
    return {"1": "yes", "0": "no"}.get(cell, cell) if label.startswith(_TRUTHS) else cell


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
        """The settings in the run's summary."""
        return {name: self.summary.get(name) for name in _OF_SUMMARY}

    @property
    def machine(self) -> dict[str, Any]:
        """The facts about the machine that affect a run's speed; empty for a run that did not record them."""
        known = self.summary.get("machine")
        return {name: known.get(name) for name in _OF_MACHINE} if isinstance(known, dict) else {}

    @classmethod
    def of(cls, folder: Path) -> Recorded:
        """Read a folder. Raises OptionError."""
        path = folder / _SUMMARY
        try:
            summary = json_of(bounded_text(path, _BYTES_MOST))
        except (OSError, UntrustedInputError) as error:
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
    """A setting in which two runs differ. `free`: the runs can still be compared."""

    name: str
    first: str
    second: str
    free: bool


@dataclass(frozen=True)
class Line:
    """A measure of a system in both runs, and the first value divided by the second if both are known."""

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
    """The differences between two runs."""

    first: str
    second: str
    settings: tuple[Setting, ...]
    lines: tuple[Line, ...]
    alone: tuple[str, ...]
    """Systems of only one of the runs, in words."""

    @property
    def comparable(self) -> bool:
        """Whether the runs differ at most in the seed or in the list of systems."""
        return all(one.free for one in self.settings)

    @property
    def verdict(self) -> str:
        """The comparison's verdict in one sentence."""
        if not self.settings:
            return "Both runs have the same settings."
        if self.comparable:
            return "The runs can be compared: of their settings only " + self._names(free=True) + " differ."
        return "Not comparable: the runs differ in " + self._names(free=False) + ". Ratios tell what that changes."

    def _names(self, *, free: bool) -> str:
        return ", ".join(one.name for one in self.settings if one.free == free)

    def rows(self) -> list[tuple[str, ...]]:
        """Return a text table: a heading, and a row for each measure that at least one run has."""
        return [
            ("system", "measure", "A", "B", "A / B"),
            *((one.system, one.measure, *one.shown) for one in self.lines),
        ]


def compare(first: Recorded, second: Recorded) -> Comparison:
    """Compare two runs by the settings that both have kept, or else by their summaries."""
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
    """Return the value as text that is safe to show: files of others may hold anything."""
    return "-" if value is None else printable(value if isinstance(value, str) else json.dumps(value))


def text(found: Comparison) -> str:
    """Return the comparison as text for the terminal."""
    parts = [f"A  {found.first}\nB  {found.second}", found.verdict]
    if found.settings:
        parts.append(_columns([("setting", "A", "B"), *((one.name, one.first, one.second) for one in found.settings)]))
    parts.append(_columns(found.rows()))
    parts += found.alone
    return "\n\n".join(parts)
