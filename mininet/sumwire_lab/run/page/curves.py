# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The curves of a page, drawn by matplotlib as SVG, with the places of their points for the page's script.

Text stays text, so that the page's style sheet chooses font and colours, also for the dark.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from sumwire_lab.run.page import wording
from sumwire_lab.run.records import StepRecord
from sumwire_lab.run.summary import SystemResult

_INCHES: Final = (6.0, 3.5)
_DPI: Final = 72
_FONT: Final = 12
_GREY: Final = "#888888"
_POINTS_MAX: Final = 400
# A range of so many times and more has room for the labels of powers of ten alone.
_DECADES: Final = 100
_MARGINS: Final = {"left": 0.105, "right": 0.975, "bottom": 0.16, "top": 0.96}


@dataclass(frozen=True)
class Curve:
    """A plot: points by system, what the axes show, and how a point is put in words."""

    key: str
    title: str
    x_label: str
    points: Mapping[str, Sequence[tuple[float, float]]]
    show_x: Callable[[float], str]
    show_y: Callable[[float], str]
    target: float | None = None
    """A line across: the accuracy to reach."""
    log_x: bool = False
    percent: bool = False
    counted: bool = False
    """Whether the horizontal axis counts, so that it has no fractions."""


@dataclass(frozen=True)
class Drawn:
    """A plot as an SVG element. `points`: by system, the places in the SVG's units and the words of each point."""

    key: str
    title: str
    svg: str
    points: dict[str, list[tuple[float, float, str]]]


def curves(results: Sequence[SystemResult], target: float) -> list[Curve]:
    """The page's plots, without those that have no point."""
    steps = {result.system: result.workers[0].steps for result in results}
    tested = {
        name: [(s.clock_s, 100 * s.accuracy) for s in ones if s.accuracy is not None] for name, ones in steps.items()
    }
    losses = {result.system: _losses(result) for result in results}
    sent = {name: _over_bytes(ones) for name, ones in steps.items()}
    times = {name: [(float(s.step + 1), s.step_s) for s in ones] for name, ones in steps.items()}
    score = "{:.2f} %".format
    over_time = "training time, s"
    made = [
        Curve(
            "accuracy", "Test accuracy over time, %", over_time, tested, wording.seconds, score, 100 * target,
            percent=True,
        ),
        Curve(
            "loss", "Training loss over time, workers' mean, nats", over_time, losses, wording.seconds, "{:.4f}".format
        ),
        Curve(
            "bytes", "Test accuracy over bytes sent by a worker, %", "sent so far", sent, wording.size, score,
            100 * target, log_x=True, percent=True,
        ),
        Curve("step", "Time of each step, s", "step", times, "step {:.0f}".format, wording.seconds, counted=True),
    ]  # fmt: skip
    return [curve for curve in made if any(curve.points.values())]


def _losses(result: SystemResult) -> list[tuple[float, float]]:
    """Training loss over the first worker's clock: the mean of the workers that computed the step."""
    found = []
    for step, *others in zip(*(worker.steps for worker in result.workers), strict=False):
        known = [one.loss for one in (step, *others) if one.loss is not None]
        if known:
            found.append((step.clock_s, sum(known) / len(known)))
    return found


def _over_bytes(steps: Sequence[StepRecord]) -> list[tuple[float, float]]:
    sent = accumulate(s.tx_bytes for s in steps)
    return [(at, 100 * s.accuracy) for s, at in zip(steps, sent, strict=True) if s.accuracy is not None and at > 0]


def drawn(curve: Curve, colours: Mapping[str, int]) -> Drawn:
    """The plot as SVG. `colours`: the number of each system's colour in the style sheet."""
    import matplotlib
    from matplotlib.figure import Figure

    styles: Any = {"svg.fonttype": "none", "svg.hashsalt": curve.key, "font.size": _FONT, "text.color": _GREY}
    with matplotlib.rc_context(styles):
        figure = Figure(figsize=_INCHES, dpi=_DPI)
        figure.subplots_adjust(**_MARGINS)
        axes = draw(figure, curve, colours)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return Drawn(curve.key, curve.title, text[text.index("<svg") :], _places(axes, curve))


def draw(figure: Any, curve: Curve, colours: Mapping[str, int]) -> Any:
    """Draw the plot on a matplotlib figure; returns its axes. A line's id ends with the number of its colour."""
    axes = figure.add_subplot()
    for number, (name, points) in enumerate(curve.points.items()):
        thin = _thinned(points)
        (line,) = axes.plot([x for x, _ in thin], [y for _, y in thin], linewidth=2, color=_GREY)
        line.set_gid(f"{curve.key}-{number}-series-{colours[name]}")
    if curve.target is not None:
        axes.axhline(curve.target, color=_GREY, linewidth=1, linestyle="--").set_gid(f"{curve.key}-target")
    axes.set_xlabel(curve.x_label)
    _bytes_axis(axes) if curve.log_x else axes.set_xlim(0, None)
    if curve.counted:
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(0, 102 if curve.percent else None)
    axes.grid(alpha=0.25, color=_GREY)
    axes.tick_params(color=_GREY)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_GREY)
    return axes


def _bytes_axis(axes: Any) -> None:
    """A logarithmic axis of bytes, whose labels have units: each power of ten, and between them where there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > _DECADES * low else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.size(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _places(axes: Any, curve: Curve) -> dict[str, list[tuple[float, float, str]]]:
    height = _INCHES[1] * _DPI
    found: dict[str, list[tuple[float, float, str]]] = {}
    for name, points in curve.points.items():
        thin = _thinned(points)
        at = axes.transData.transform(thin) if thin else []
        found[name] = [
            (round(float(x), 1), round(float(height - y), 1), f"{curve.show_y(point[1])} at {curve.show_x(point[0])}")
            for (x, y), point in zip(at, thin, strict=True)
        ]
    return found


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    every = -(-len(points) // _POINTS_MAX) or 1
    return [*points[::every]]
