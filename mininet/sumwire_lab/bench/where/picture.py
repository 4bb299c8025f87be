# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Draws a record: iso-lines of gloo's time over each system's time, the bound of the bytes, and processor time."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sumwire_lab.bench.timing import all_reduce_bytes
from sumwire_lab.bench.where import formula
from sumwire_lab.bench.where.formula import Fitted
from sumwire_lab.bench.where.grid import BRIDGE, CellKey, GridRecord, SystemAt
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import UNLIMITED

_GLOO: Final = SystemAt(BRIDGE, BASELINE)
_LEVELS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_EVEN: Final = (1.0,)
_VALUE_BYTES: Final = 4
_PANEL_WIDTH: Final = 3.4
_PANEL_HEIGHT: Final = 2.9
_FONT_SIZE: Final = 8
# Points of each axis at which the formula is computed.
_FINE: Final = 60
_RATIO_TICKS: Final = (1, 2, 5, 10, 20, 50)
_WINS, _LOSES, _FORMULA = "#0f766e", "#b91c1c", "#1d4ed8"
_COLOURS: Final = ("#4c566a", "#0f766e", "#c2410c", "#7c3aed", "#1d4ed8", "#a16207", "#be185d", "#4d7c0f", "#0891b2",
                   "#78350f")  # fmt: skip


def svg(record: GridRecord) -> str:
    """Return the picture as the text of an SVG file, whose description has the record's digest."""
    import matplotlib

    buffer = io.StringIO()
    # Equal records give equal text.
    with matplotlib.rc_context({"svg.hashsalt": "where", "font.size": _FONT_SIZE}):
        metadata = {"Date": None, "Description": digest(record)}
        figure(record).savefig(buffer, format="svg", metadata=metadata)
    return buffer.getvalue()


def figure(record: GridRecord) -> Any:
    """Return a matplotlib figure: a row for each system, a column for each switch, and one for bytes and processor
    time."""
    from matplotlib.figure import Figure

    switches = _distinct(place.switch for place in record.places() if place != _GLOO)
    systems = _distinct(place.system for place in record.places() if place != _GLOO)
    rows, columns = max(len(systems), 3), len(switches) + 1
    drawn = Figure(figsize=(_PANEL_WIDTH * columns, _PANEL_HEIGHT * rows), layout="constrained")
    drawn.suptitle("Numbers and grey lines: gloo's time / the system's, measured. Dashed: equal by the formula.")
    panels = drawn.subplots(rows, columns, squeeze=False)
    fitted = formula.fit_all(record)
    for row in range(rows):
        for column, switch in enumerate(switches):
            place = SystemAt(switch, systems[row]) if row < len(systems) else None
            if place in record.places():
                assert place is not None
                _iso_lines(panels[row][column], record, place, fitted)
            else:
                panels[row][column].axis("off")
    _bounds(panels[0][-1], record, systems)
    _processors(panels[1][-1], record, "host_cpu_s", "host: CPU s per million values")
    _processors(panels[2][-1], record, "switch_cpu_s", "switch: CPU s per million values")
    for panel in panels[3:, -1]:
        panel.axis("off")
    return drawn


def digest(record: GridRecord) -> str:
    """Return a digest of a record's contents."""
    return hashlib.sha256(json.dumps(record.as_json()).encode()).hexdigest()


def ratios(record: GridRecord, place: SystemAt) -> NDArray[np.float64]:
    """Return gloo's measured seconds over the place's, by rate and size; NaN if one is not measured."""
    rates, sizes = record.rates(), record.sizes()
    found = np.full((len(rates), len(sizes)), np.nan)
    for row, rate in enumerate(rates):
        for column, size in enumerate(sizes):
            gloo, mine = record.cells.get(CellKey(_GLOO, rate, size)), record.cells.get(CellKey(place, rate, size))
            if gloo is not None and mine is not None:
                found[row, column] = gloo.seconds / mine.seconds
    return found


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _height(rate: float, record: GridRecord) -> float:
    """Where a rate stands on the axis; a link without a limit is one decade above the fastest other."""
    if rate != UNLIMITED:
        return math.log10(rate)
    limited = [each for each in record.rates() if each != UNLIMITED]
    return math.log10(limited[-1]) + 1 if limited else 0.0


def _iso_lines(axes: Any, record: GridRecord, place: SystemAt, fitted: dict[SystemAt, Fitted]) -> None:
    measured = ratios(record, place)
    across = [math.log10(_VALUE_BYTES * size) for size in record.sizes()]
    up = [_height(rate, record) for rate in record.rates()]
    for row, column in np.argwhere(~np.isnan(measured)):
        ratio = measured[row, column]
        text = f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"
        colour = _WINS if ratio >= 1 else _LOSES
        axes.text(across[column], up[row], text, color=colour, ha="center", va="center", fontsize="small")
    if min(measured.shape) > 1:
        lines = axes.contour(
            across,
            up,
            np.ma.masked_invalid(np.log(measured)),
            np.log(_LEVELS),
            colors="#9ca3af",
            linewidths=0.8,
            linestyles="-",
        )
        axes.clabel(lines, fmt={math.log(level): f"{level:g}" for level in _LEVELS}, fontsize="x-small")
        if place in fitted and _GLOO in fitted:
            _even_by_formula(axes, record, place, fitted)
    axes.set_xticks(across, [_bytes(_VALUE_BYTES * size) for size in record.sizes()], fontsize="small")
    axes.set_yticks(up, [_rate(rate) for rate in record.rates()])
    axes.set(xlim=(across[0] - 0.4, across[-1] + 0.4), ylim=(up[0] - 0.3, up[-1] + 0.3))
    axes.set_title(f"gloo / {place.system}, {place.switch}")
    _frameless(axes)


def _even_by_formula(axes: Any, record: GridRecord, place: SystemAt, fitted: dict[SystemAt, Fitted]) -> None:
    """The line on which the formula gives both the same time; links with a limit only."""
    limited = [rate for rate in record.rates() if rate != UNLIMITED]
    sizes = np.geomspace(record.sizes()[0], record.sizes()[-1], _FINE)
    rates = np.geomspace(limited[0], limited[-1], _FINE)

    def seconds(of: SystemAt, size: float, rate: float) -> float:
        return formula.formula_s(record, fitted[of].costs, CellKey(of, float(rate), round(size)))

    log_ratio = [[math.log(seconds(_GLOO, n, r) / seconds(place, n, r)) for n in sizes] for r in rates]
    across, up = np.log10(_VALUE_BYTES * sizes), np.log10(rates)
    if np.min(log_ratio) < 0 < np.max(log_ratio):
        axes.contour(across, up, log_ratio, np.log(_EVEN), colors=_FORMULA, linewidths=1.2, linestyles="--")


def _bounds(axes: Any, record: GridRecord, systems: Sequence[str]) -> None:
    """gloo's bytes over each system's: the ratio that no link rate can exceed once bytes are all that counts."""
    sizes = record.sizes()
    for number, system in enumerate(systems):
        octets = [all_reduce_bytes(system, size, record.workers) for size in sizes]
        ratio = [
            all_reduce_bytes(BASELINE, size, record.workers) / own for size, own in zip(sizes, octets, strict=True)
        ]
        axes.plot([_VALUE_BYTES * size for size in sizes], ratio, "--", label=system, color=_COLOURS[number + 1])
    axes.set_title("gloo / it, by bytes alone")
    _over_size(axes, record)
    axes.set_yticks(_RATIO_TICKS, [str(tick) for tick in _RATIO_TICKS])


def _processors(axes: Any, record: GridRecord, field: str, title: str) -> None:
    """CPU time over size, at the fastest links."""
    for number, place in enumerate(record.places()):
        cells = [record.cells.get(CellKey(place, record.rates()[-1], size)) for size in record.sizes()]
        points = [
            (_VALUE_BYTES * cell.key.values, told)
            for cell in cells
            if cell is not None and (told := getattr(cell, field)) is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), ".-", label=place.label, color=_COLOURS[number % len(_COLOURS)])
    axes.set_title(f"{title}, {_rate(record.rates()[-1])}")
    _over_size(axes, record)


def _over_size(axes: Any, record: GridRecord) -> None:
    axes.set(xscale="log", yscale="log")
    sizes = [_VALUE_BYTES * size for size in record.sizes()]
    axes.set_xticks(sizes, [_bytes(size) for size in sizes], fontsize="small")
    axes.minorticks_off()
    axes.grid(alpha=0.25)
    if axes.lines:
        axes.legend(frameon=False, fontsize="x-small")
    _frameless(axes)


def _frameless(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _bytes(size: float) -> str:
    return f"{size / 1e6:g} MB" if size >= 1e6 else f"{size / 1e3:g} KB"


def _rate(mbit: float) -> str:
    if mbit == UNLIMITED:
        return "no limit"
    return f"{mbit / 1000:g} Gbit/s" if mbit >= 1000 else f"{mbit:g} Mbit/s"
