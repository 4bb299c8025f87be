# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The charts of a report: accuracy and communication over time, a step of every worker, bits on the wire."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from sumwire_lab.run.page import opening
from sumwire_lab.run.results import StepRecord, SystemResult, measured, warm_up_of

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
    """A plot: points by system, the labels of the axes, and how a point is described in words."""

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
    """A plot as an SVG element. `points`: by system, each point's place in the SVG's units and its description."""

    key: str
    title: str
    svg: str
    points: dict[str, list[tuple[float, float, str]]]


def curves(results: Sequence[SystemResult], target: float) -> list[Curve]:
    """Return the page's plots, without those that have no point."""
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
            "accuracy", "Test accuracy over time, %", over_time, tested, opening.seconds, score, 100 * target,
            percent=True,
        ),
        Curve(
            "loss", "Training loss over time, workers' mean, nats", over_time, losses, opening.seconds, "{:.4f}".format
        ),
        Curve(
            "bytes", "Test accuracy over bytes sent by a worker, %", "sent so far", sent, opening.size, score,
            100 * target, log_x=True, percent=True,
        ),
        Curve("step", "Time of each step, s", "step", times, "step {:.0f}".format, opening.seconds, counted=True),
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
    """Return the plot as SVG. `colours`: the number of each system's colour in the style sheet."""
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
    """Draw the plot on a matplotlib figure, and return its axes. A line's id ends with the number of its colour."""
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
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: opening.size(value)))
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


_TICKS_MOST: Final = 5
_ROUND: Final = (1, 2, 5, 10)


@dataclass(frozen=True)
class Span:
    """An activity on the timeline. `left` and `width` are percentages of the whole axis."""

    kind: str
    left: float
    width: float
    tip: str


@dataclass(frozen=True)
class WorkerTimeline:
    """One worker: its computing, and its simultaneous communication."""

    worker: int
    computes: tuple[Span, ...]
    sends: tuple[Span, ...]


@dataclass(frozen=True)
class Timeline:
    """One system's step of median duration."""

    system: str
    step: int
    lanes: tuple[WorkerTimeline, ...]
    ticks: tuple[tuple[str, float], ...]
    """Words below the axis, and their places on it in percent."""


def timelines(results: Sequence[SystemResult]) -> list[Timeline]:
    """Return the timeline of each system, all on one axis. Systems whose records lack the begin of steps are
    omitted."""
    chosen = {result.system: _typical(result) for result in results}
    steps = {name: one for name, one in chosen.items() if one}
    axis = max((_ends(one) for one in steps.values()), default=0.0)
    ticks = ticks_of(axis)
    return [
        Timeline(name, one[0].step, tuple(_lane(k, step, _begin(one), axis) for k, step in enumerate(one)), ticks)
        for name, one in steps.items()
    ]


def ticks_of(axis_s: float) -> tuple[tuple[str, float], ...]:
    """Round times on an axis of `axis_s` seconds, and their places in percent; empty for an axis of no length."""
    if axis_s <= 0:
        return ()
    power = 10.0 ** math.floor(math.log10(axis_s / _TICKS_MOST))
    each = next(power * one for one in _ROUND if axis_s / (power * one) <= _TICKS_MOST)
    times = [each * k for k in range(int(axis_s / each) + 1)]
    scale, unit = (1, "s") if axis_s >= 1 else (1000, "ms")
    return tuple((f"{scale * time_s:.4g} {unit}" if time_s else "0", 100 * time_s / axis_s) for time_s in times)


def _typical(result: SystemResult) -> list[StepRecord]:
    """Each worker's record of the step whose duration is the median of the first worker's; empty without one."""
    first = measured(result.workers[0].steps, warm_up_of(result.system))
    timed = sorted((s for s in first if s.at_s is not None), key=lambda s: s.step_s)
    if not timed:
        return []
    number = timed[len(timed) // 2].step
    found = [s for w in result.workers for s in w.steps if s.step == number and s.at_s is not None]
    return found if len(found) == len(result.workers) else []


def _begin(steps: Sequence[StepRecord]) -> float:
    return min(step.at_s or 0.0 for step in steps)


def _ends(steps: Sequence[StepRecord]) -> float:
    return max((step.at_s or 0.0) + step.step_s for step in steps) - _begin(steps)


def _lane(worker: int, step: StepRecord, begin: float, axis: float) -> WorkerTimeline:
    offset = (step.at_s or 0.0) - begin
    forward, backward = step.forward_s or 0.0, step.backward_s or 0.0
    under_way = communication(step)
    # DDP waits within the backward pass: it computes until the last tensor is handed over.
    handed = min(max((start for start, _, _ in under_way), default=backward), backward)

    def span(kind: str, start: float, end: float, what: str) -> Span:
        tip = f"worker {worker}, {what}: {opening.seconds(end - start)}"
        return Span(kind, 100 * (offset + start) / axis, 100 * (end - start) / axis, tip)

    computes = [
        span("forward", 0.0, forward, "forward pass"),
        span("backward", forward, max(forward, handed), "backward pass"),
        span("waiting", max(forward, handed), backward, "waiting for the communication"),
        span("optimizer", backward, step.step_s, "optimizer's step"),
    ]
    sends = [span("sending", start, start + length, what) for start, length, what in under_way]
    return WorkerTimeline(worker, tuple(one for one in computes if one.width > 0), tuple(sends))


def communication(step: StepRecord) -> list[tuple[float, float, str]]:
    """Return the communication of a step: begin (relative to the step's), seconds, and description, ordered by
    begin."""
    codec = "" if step.codec_s is None else f"; encoding and decoding of the step: {opening.seconds(step.codec_s)}"
    timed = [one for one in step.tensors if "at_s" in one]
    if timed and step.at_s is not None:
        return sorted((float(one["at_s"]) - step.at_s, float(one["seconds"]), _words(one) + codec) for one in timed)
    if not step.comm_s:
        return []
    # Either DDP's hook communicates, which has tensors and the backward pass waits for, or the optimizer.
    end = step.backward_s if step.tensors and step.backward_s is not None else step.step_s
    return [(max(0.0, end - step.comm_s), step.comm_s, "communication" + codec)]


def _words(tensor: Mapping[str, Any]) -> str:
    return f"bucket {tensor['bucket']} of {tensor['values']:,} values, from hand-over to result"


_DIRECTIONS: Final = (("up", "sent"), ("down", "received"))


@dataclass(frozen=True)
class Direction:
    """One direction of a worker's link. Lengths are between 0 and 1, relative to the longest of all systems."""

    label: str
    payload: float
    headers: float
    text: str
    tip: str


@dataclass(frozen=True)
class Share:
    """Share of communication in the steps of one system."""

    system: str
    colour: int
    directions: tuple[Direction, ...]


def shares(summary: Mapping[str, Any], colours: Mapping[str, int]) -> list[Share]:
    """Return the shares by system."""
    systems = summary["systems"]
    most = max((entry[f"bits_per_value_{way}"] for entry in systems.values() for way, _ in _DIRECTIONS), default=0.0)
    return [
        Share(name, colours[name], tuple(_direction(entry, way, word, most or 1.0) for way, word in _DIRECTIONS))
        for name, entry in systems.items()
    ]


def _direction(entry: Mapping[str, Any], way: str, word: str, most: float) -> Direction:
    whole, payload = entry[f"bits_per_value_{way}"], entry[f"payload_bits_per_value_{way}"]
    headers = max(0.0, whole - payload)
    tip = f"{word}: {payload:.2f} bits a value of payload, {headers:.2f} of headers"
    return Direction(word, payload / most, headers / most, f"{whole:.2f} bits", tip)
