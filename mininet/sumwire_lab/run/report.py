# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reports of a run: a table for the terminal, and an HTML page without external files."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Sequence
from itertools import accumulate, cycle
from pathlib import Path
from typing import Any, Final

from sumwire_lab.options.tasks import TASKS
from sumwire_lab.run.summary import SystemResult, ratio

_NONE: Final = "-"
_TRUTHS: Final = ("replicas", "hosts' offloads")
DROPS: Final = {
    "queue_classes": "decisions of the switches' virtual queues by drop class, 3 is lost first",
    "link_priorities": "packets lost in links' queues by priority, 7 is served first",
}
_COLOURS: Final = (
    "#4c566a", "#c2410c", "#0f766e", "#7c3aed", "#b91c1c", "#1d4ed8", "#a16207", "#be185d", "#4d7c0f", "#0ea5e9",
    "#78350f", "#84cc16", "#f472b6", "#1e1b4b", "#ea580c", "#14b8a6", "#9ca3af",
)  # fmt: skip


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
        row("of it encoding and decoding, s", "codec_s_per_step", ".3f"),
        speed_up("communication speed-up over gloo", "comm_s_per_step"),
        row("the step's other time, s", "compute_s_per_step", ".3f", compare=True),
        row("whole step, s", "step_s", ".3f", compare=True),
        row("whole step, median, s", "step_s_p50", ".3f", compare=True),
        row("whole step, 99th percentile, s", "step_s_p99", ".3f", compare=True),
        row("a tensor, hand-over to result, mean, s", "tensor_s", ".3f", compare=True),
        row("a tensor, median, s", "tensor_s_p50", ".3f", compare=True),
        row("a tensor, 99th percentile, s", "tensor_s_p99", ".3f", compare=True),
        row("bytes on a link per step", "wire_bytes_per_step", ".0f", compare=True),
        row("bits per value up, headers aside", "payload_bits_per_value_up", ".3f"),
        row("bits per value down, headers aside", "payload_bits_per_value_down", ".3f"),
        row("bits per value up, with headers", "bits_per_value_up", ".3f"),
        row("bits per value down, with headers", "bits_per_value_down", ".3f"),
        row("steps", "steps", "d"),
        row("NMSE of the gradient", "nmse", ".4f"),
        row("retransmissions", "retransmissions", "d"),
        row("fall-backs", "fallbacks", "d"),
        row("replicas bit-equal", "replicas_equal", "d"),
        row("hosts' offloads on", "offloads", "d"),
    ]


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
    first = [tuple(_words(cell, line[0]) for cell in line) for line in rows(summary)]
    lanes = lane_rows(summary)
    return "\n\n".join([_aligned(first), *unlike(summary), *([_aligned(lanes)] if lanes else [])])


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


def _aligned(body: Sequence[tuple[str, ...]]) -> str:
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


def plot_svg(results: Sequence[SystemResult], kind: str, target: float) -> str:
    """`accuracy` (over training time), `bytes` (accuracy over what a worker has sent) or `step` (seconds of each step)
    as an SVG element."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    draw(figure, results, kind, target)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def draw(figure: Any, results: Sequence[SystemResult], kind: str, target: float) -> None:
    """Draw one plot on a matplotlib figure. `target`: the accuracy to reach."""
    axes = figure.add_subplot()
    for result, colour in zip(results, cycle(_COLOURS), strict=False):
        steps = result.workers[0].steps
        if kind in _TESTED:
            sent = accumulate(s.tx_bytes for s in steps)
            after = zip(steps, sent, strict=True) if kind == "bytes" else ((s, s.clock_s) for s in steps)
            tested = [(at, s.accuracy) for s, at in after if s.accuracy is not None]
            x, y = [at for at, _ in tested], [100 * accuracy for _, accuracy in tested]
        else:
            x, y = [float(s.step + 1) for s in steps], [s.step_s for s in steps]
        axes.plot(x, y, label=result.system, color=colour, linewidth=1.6)
    if kind in _TESTED:
        axes.axhline(100 * target, color="#999999", linewidth=0.8, linestyle="--")
        axes.set(xlabel=_TESTED[kind], ylabel="test accuracy, %", ylim=(0, 102))
        axes.set_xscale("log") if kind == "bytes" else axes.set_xlim(0, None)
    else:
        axes.set(xlabel="step", ylabel="time of the step, s", ylim=(0, None))
    axes.legend(frameon=False, loc="lower right" if kind in _TESTED else "best")
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


_TESTED: Final = {"accuracy": "training time, s", "bytes": "bytes that a worker has sent"}
"""Plots of the test accuracy, and what it is drawn over."""
_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; color: #1f2937; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .3rem .9rem; border-bottom: 1px solid #d1d5db; }
td:not(:first-child), th:not(:first-child) { text-align: right; font-variant-numeric: tabular-nums; }
svg { max-width: 100%; height: auto; } pre { background: #f3f4f6; padding: 1rem; overflow: auto; font-size: .8rem; }
"""


def html_page(summary: dict[str, Any], results: Sequence[SystemResult]) -> str:
    """The page: table, the plots, and the summary as in summary.json."""
    lines = [tuple(_words(cell, line[0]) for cell in line) for line in rows(summary)]
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in lines[0])
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in line) + "</tr>\n" for line in lines[1:])
    switch = summary["switch"] + (f" ({summary['engine']} engine)" if summary["engine"] else "")
    setting = (
        f"{summary['workers']} workers, {summary['link_mbit']:g} Mbit/s links, queues of {summary['queue_packets']} "
        f"packets, {summary['topology']}, switch: {switch}, seed {summary['seed']}"
    )
    if summary["impair"]:
        setting += f", impaired: {summary['impair']}"
    if summary.get("conditions"):
        setting += ", conditions: " + ", ".join(f"{name} {value}" for name, value in summary["conditions"].items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sumwire run</title><style>{_STYLE}</style></head><body>
<h1>Sumwire run</h1>
<p>{html.escape(setting)}. {html.escape(TASKS[summary["task"]].title.capitalize())}. Systems over the process group,
gloo among them, run on kernel bridges.</p>
<table><tr>{head}</tr>
{body}</table>
{"".join(f"<p>{html.escape(one)}</p>" for one in unlike(summary))}{_lane_table(summary)}<h2>Accuracy over time</h2>
{plot_svg(results, "accuracy", summary["target_accuracy"])}
<h2>Accuracy over bytes sent</h2>
{plot_svg(results, "bytes", summary["target_accuracy"])}
<h2>Time per step</h2>
{plot_svg(results, "step", summary["target_accuracy"])}
<h2>summary.json</h2>
<pre>{html.escape(json.dumps(summary, indent=1))}</pre>
</body></html>
"""


def _lane_table(summary: dict[str, Any]) -> str:
    lines = lane_rows(summary)
    if not lines:
        return ""
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in line) + "</tr>\n" for line in lines)
    return f"<h2>Lanes</h2>\n<table>{body}</table>\n"


def write(folder: Path, summary: dict[str, Any], results: Sequence[SystemResult]) -> None:
    """Write summary.json and report.html into the folder."""
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    (folder / "report.html").write_text(html_page(summary, results))
