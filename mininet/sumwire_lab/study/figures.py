# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Presents a study's rows: medians with intervals, tables for a terminal, figures for a paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

Row = Mapping[str, Any]
_CONFIDENCE: Final = 0.95
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
_MARKERS: Final = "osD^vPX*"
_PANEL: Final = (3.4, 2.7)
"""Inches of a panel: two of them fill the columns of a page."""


@dataclass(frozen=True)
class Interval:
    """The median of ``n`` values, and an interval that has the true median with 95 % probability. With fewer than six
    values the interval is their range."""

    median: float
    low: float
    high: float
    n: int

    def shown(self, form: str) -> str:
        """Return the median, and the interval if it is wider than the median, each in this format."""
        if self.n == 1 or self.low == self.high:
            return f"{self.median:{form}}"
        return f"{self.median:{form}} [{self.low:{form}}, {self.high:{form}}]"


def interval(values: Iterable[float]) -> Interval:
    """Return the median and its interval, from the order of the values, so for any distribution.

    The k-th smallest and largest of n values miss the median with probability 2 P(Binomial(n, 1/2) < k); k is the
    largest for which that is at most 5 %. Raises ValueError without values.
    """
    ordered = sorted(values)
    n, k, missed = len(ordered), 0, 0.0
    while k + 1 <= n // 2 and 2 * (missed + math.comb(n, k) / 2**n) <= 1 - _CONFIDENCE:
        missed += math.comb(n, k) / 2**n
        k += 1
    k = max(k, 1)
    return Interval(median(ordered), ordered[k - 1], ordered[n - k], n)


def grouped(rows: Iterable[Row], by: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows with the same values in some columns, in the order in which they appear."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(_hashable(row.get(name)) for name in by), []).append(row)
    return found


def _hashable(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def numbers(rows: Iterable[Row], column: str) -> list[float]:
    """Return the column's values that were measured."""
    values = (row.get(column) for row in rows)
    return [float(value) for value in values if isinstance(value, int | float) and not math.isnan(value)]


def table(rows: Sequence[Row], by: Sequence[str], columns: Sequence[tuple[str, str, str]]) -> str:
    """Return a line for each group of rows: its common values, then each column's median and interval.

    ``columns``: their names, heads, and number formats.
    """
    lines = [(*by, *(head for _, head, _ in columns))]
    for group, members in grouped(rows, by).items():
        lines.append((*map(_cell, group), *(_summary(members, name, form) for name, _, form in columns)))
    return "\n".join(aligned(lines))


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _summary(rows: Sequence[Row], column: str, form: str) -> str:
    found = numbers(rows, column)
    if found:
        return interval(found).shown(form)
    words = list(dict.fromkeys(_cell(_hashable(row.get(column))) for row in rows))
    return " / ".join(words)


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as text. The first column is aligned to the left, the others to the right."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return [
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


@dataclass(frozen=True)
class Figure:
    """A figure: column ``y`` over ``x``, a line or bars for each value of ``by``, a panel for each value of ``panel``.

    Points are medians, with their intervals where a case was measured several times.
    """

    x: str
    y: str
    by: str | None = None
    panel: str | None = None
    kind: Literal["line", "bars"] = "line"
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the figure shows."""
        return tuple(name for name in (self.x, self.y, self.by, self.panel) if name is not None)


Point = tuple[Any, Interval]


def series(figure: Figure, rows: Iterable[Row]) -> dict[str, list[Point]]:
    """Return the points of each line, in the order of x."""
    found: dict[str, list[Point]] = {}
    for (owner,), members in grouped(rows, [figure.by or ""]).items():
        points = [
            (x, interval(measured))
            for (x,), of_x in grouped(members, [figure.x]).items()
            if (measured := numbers(of_x, figure.y))
        ]
        number = all(isinstance(x, int | float) for x, _ in points)
        found[_cell(owner) if figure.by else figure.y] = sorted(points, key=lambda one: one[0]) if number else points
    return found


def draw(figure: Figure, rows: Sequence[Row], path: Path) -> None:
    """Write the figure, in the format of the path's suffix: .svg, .pdf or .png. Equal rows give equal files."""
    import matplotlib

    canvas = drawn(figure, rows)
    with matplotlib.rc_context({"svg.hashsalt": f"{figure.title} {figure.columns}", "font.size": 9}):
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        canvas.savefig(path, metadata=metadata)


def drawn(figure: Figure, rows: Sequence[Row]) -> Any:
    """Return the figure as matplotlib has it."""
    from matplotlib.figure import Figure as Canvas

    panels = grouped(rows, [figure.panel]) if figure.panel else {(None,): list(rows)}
    canvas = Canvas(figsize=(_PANEL[0] * len(panels) + 0.6, _PANEL[1]), layout="constrained")
    axes = canvas.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for one, ((value,), members) in zip(axes, panels.items(), strict=True):
        _draw_panel(one, figure, series(figure, members))
        named = f"{figure.panel} {_cell(value)}" if figure.panel else figure.title
        one.set(title=named, xlabel=figure.x_label or figure.x)
    axes[0].set_ylabel(figure.y_label or figure.y)
    if not figure.log_y:
        # Of all panels: they share it.
        axes[0].set_ylim(bottom=min(0.0, axes[0].get_ylim()[0]))
    if figure.panel and figure.title:
        canvas.suptitle(figure.title, fontsize="medium")
    if figure.by:
        axes[-1].legend(frameon=False, fontsize="small")
    return canvas


def _draw_panel(axes: Any, figure: Figure, lines: Mapping[str, Sequence[Point]]) -> None:
    ticks = list(dict.fromkeys(x for points in lines.values() for x, _ in points))
    for number, (name, points) in enumerate(lines.items()):
        middle = [one.median for _, one in points]
        errors = [[one.median - one.low for _, one in points], [one.high - one.median for _, one in points]]
        style = {"color": _COLOURS[number % len(_COLOURS)], "label": name}
        if figure.kind == "bars":
            width = 0.8 / len(lines)
            places = [ticks.index(x) + (number - (len(lines) - 1) / 2) * width for x, _ in points]
            axes.bar(places, middle, width, yerr=errors, capsize=2, error_kw={"linewidth": 0.8}, **style)
        else:
            marker = _MARKERS[number % len(_MARKERS)]
            axes.errorbar([x for x, _ in points], middle, errors, marker=marker, markersize=4, capsize=2, **style)
    if figure.kind == "bars":
        axes.set_xticks(range(len(ticks)), [_cell(x) for x in ticks])
    elif figure.log_x:
        axes.set_xscale("log")
    if figure.log_y:
        axes.set_yscale("log")
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
