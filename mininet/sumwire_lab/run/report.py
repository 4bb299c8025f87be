# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The table of a run, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.run.summary import ratio

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


def rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """The table: a header, a row per measure, a column per system.

    With gloo and one other system, a last column has the ratio of the two.
    """
    systems: dict[str, dict[str, Any]] = summary["systems"]
    names = tuple(systems)
    compared = names[-1] if len(names) == 2 and names[0] == "gloo" else None
    head = ("", *names, *((f"gloo / {compared}",) if compared else ()))

    def row(label: str, key: str, form: str, scale: float = 1.0, compare: bool = False) -> tuple[str, ...]:
        cells = tuple(_show(systems[name].get(key), form, scale) for name in names)
        if compared is None:
            return (label, *cells)
        speed = _show(ratio(summary, key, compared), ".2f") if compare else ""
        return (label, *cells, speed)

    def speed_up(label: str, key: str) -> tuple[str, ...]:
        cells = tuple(_show(ratio(summary, key, name), ".2f") for name in names)
        return (label, *cells, "") if compared is not None else (label, *cells)

    target = f"{summary['target_accuracy']:.0%}"
    return [
        head,
        row("test accuracy, %", "accuracy", ".2f", scale=100),
        row("test loss (bits per example)", "bits_per_answer", ".3f"),
        row(f"time to {target} accuracy, s", "time_to_target_s", ".1f", compare=True),
        row("communication per step, s", "comm_s_per_step", ".3f", compare=True),
        row("of which encoding and decoding, s", "codec_s_per_step", ".3f"),
        speed_up("communication speed-up over gloo", "comm_s_per_step"),
        row("algorithm bandwidth, MB/s", "algorithm_mb_per_s", ".1f"),
        row("rest of the step, s", "compute_s_per_step", ".3f", compare=True),
        row("whole step, s", "step_s", ".3f", compare=True),
        row("whole step, median, s", "step_s_p50", ".3f", compare=True),
        row("whole step, 99th percentile, s", "step_s_p99", ".3f", compare=True),
        row("a tensor, hand-over to result, mean, s", "tensor_s", ".3f", compare=True),
        row("a tensor, median, s", "tensor_s_p50", ".3f", compare=True),
        row("a tensor, 99th percentile, s", "tensor_s_p99", ".3f", compare=True),
        row("bytes on a link per step", "wire_bytes_per_step", ".0f", compare=True),
        row("bits per value up, without headers", "payload_bits_per_value_up", ".3f"),
        row("bits per value down, without headers", "payload_bits_per_value_down", ".3f"),
        row("bits per value up, with headers", "bits_per_value_up", ".3f"),
        row("bits per value down, with headers", "bits_per_value_down", ".3f"),
        row("steps", "steps", "d"),
        row("NMSE of the gradient", "nmse", ".4f"),
        row("retransmissions", "retransmissions", "d"),
        row("fall-backs", "fallbacks", "d"),
        row("replicas bit-equal", "replicas_equal", "d"),
        row("hosts' offloads on", "offloads", "d"),
    ]


def shown_rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """The table with words for truth values."""
    return [tuple(_words(cell, line[0]) for cell in line) for line in rows(summary)]


def lane_rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """For systems with priority lanes: times of each lane's tensors, and where packets were lost. Empty without one."""
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
    """Fixed-width text: labels to the left, numbers to the right."""
    first = shown_rows(summary)
    lanes = lane_rows(summary)
    return "\n\n".join([aligned(first), *unlike(summary), *uneven(summary), *([aligned(lanes)] if lanes else [])])


def unlike(summary: dict[str, Any]) -> list[str]:
    """A sentence if the systems were not measured with the same offloads."""
    on = {name: entry["offloads"] for name, entry in summary["systems"].items() if "offloads" in entry}
    if len(set(on.values())) < 2:
        return []
    kept, lost = (", ".join(name for name in on if on[name] is value) for value in (True, False))
    return [
        f"Not the same settings: the hosts' segmentation offloads are on for {kept}, and off for {lost}. "
        f"The switch ({summary['switch']}), random loss or queues by priority cannot bear them."
    ]


def uneven(summary: dict[str, Any]) -> list[str]:
    """A sentence for each system a few of whose steps make up much of the time, so that its mean says little."""
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


def aligned(body: Sequence[tuple[str, ...]]) -> str:
    """Columns of text, the first to the left and the others to the right."""
    widths = [max(len(line[i]) for line in body) for i in range(len(body[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in body
    )


def _words(cell: str, label: str) -> str:
    """Yes or no instead of 1 or 0, in the rows whose values are truth values."""
    return {"1": "yes", "0": "no"}.get(cell, cell) if label.startswith(_TRUTHS) else cell
