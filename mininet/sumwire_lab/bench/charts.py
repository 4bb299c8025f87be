# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Draws charts as SVG, to be embedded in the page."""

from __future__ import annotations

import io
from typing import Any, Final

from sumwire_lab.bench.suite import Chart, Series

_COLOURS: Final = (
    *("#4c566a", "#c2410c", "#0f766e", "#7c3aed", "#b91c1c", "#1d4ed8", "#a16207", "#be185d"),
    *("#4d7c0f", "#0891b2", "#78350f", "#6b7280"),
)
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_WIDTH: Final = 8.4
_HEIGHT: Final = 4.2
# A line with more points than this is a curve without marks.
_MARKED: Final = 20


def svg(chart: Chart) -> str:
    """The chart as an SVG element."""
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    _draw(figure.add_subplot(), chart)
    buffer = io.StringIO()
    # Equal charts give equal text; different charts on one page need different ids.
    with matplotlib.rc_context({"svg.hashsalt": chart.title}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _draw(axes: Any, chart: Chart) -> None:
    colours: dict[str, int] = {}
    for series in chart.series:
        # A system and its bound have the same colour.
        number = colours.setdefault(owner(series), len(colours))
        _line(axes, series, number)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label, title=chart.title)
    if chart.log_x:
        axes.set_xscale("log")
    elif counts := whole_numbers(chart):
        axes.set_xticks(counts)
    if chart.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def whole_numbers(chart: Chart) -> list[float]:
    """Tick positions of an axis with a few whole numbers, such as workers; empty for any other axis."""
    found = sorted({x for series in chart.series for x, _ in series.points})
    return found if len(found) <= _MARKED and all(x.is_integer() for x in found) else []


def _line(axes: Any, series: Series, number: int) -> None:
    x, y = [point[0] for point in series.points], [point[1] for point in series.points]
    colour = _COLOURS[number % len(_COLOURS)]
    if series.bound:
        axes.plot(x, y, label=series.name, color=colour, linewidth=0.9, linestyle="--")
        return
    marker = _MARKERS[number % len(_MARKERS)] if len(x) <= _MARKED else None
    axes.plot(x, y, label=series.name, color=colour, linewidth=1.6, marker=marker, markersize=4)


def owner(series: Series) -> str:
    """The system of a line. A bound's name begins with that of its system."""
    return series.name.partition(",")[0]
