# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/where-it-pays.md, from a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sumwire.systems.formula import OneAllReduce
from sumwire.systems.formula import seconds as by_formula

from sumwire_lab.bench.where import formula
from sumwire_lab.bench.where.formula import CheckedCell, Fitted
from sumwire_lab.bench.where.grid import BRIDGE, CellKey, GridRecord, SystemAt
from sumwire_lab.errors import LabError
from sumwire_lab.options.bench_options import rate_text
from sumwire_lab.options.recipes import BASELINE

BEGIN: Final = "<!-- begin: written by bench-where -->"
END: Final = "<!-- end: written by bench-where -->"
_GLOO: Final = SystemAt(BRIDGE, BASELINE)
_SHOWN_SIZES: Final = (10_000, 1_000_000, 100_000_000)
# Link rates that are tried, in Mbit/s: ten a decade from 1 to 1,000,000.
_TRIED: Final = tuple(10 ** (k / 10) for k in range(61))
# Load average beyond that of the benchmark's own processes, of the session before, that still counts as quiet.
_LOAD_QUIET: Final = 3.0


def renewed(page: str, record: GridRecord) -> str:
    """Return the page with the record's tables between its two marks. Raises LabError without the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise LabError(f"the page lacks {BEGIN} or {END}; put both where the tables belong")
    return f"{before}{BEGIN}\n\n{markdown(record)}\n\n{END}{after}"


def markdown(record: GridRecord) -> str:
    """Return all tables, with a sentence before each."""
    fitted = formula.fit_all(record)
    checked = formula.check_fit(record, fitted)
    parts = [
        _conditions(record),
        "### Up to which link rate",
        _limits(record, fitted),
        "### gloo / it, measured",
        _measured(record),
        "### Processor time, measured",
        _processor_time(record),
        "### Constants of the formula",
        _constants(fitted),
        "### The formula against what was measured",
        _checks(checked),
        "### Left out",
        _left_out(record),
    ]
    return "\n\n".join(parts)


def _conditions(record: GridRecord) -> str:
    machine = record.about.get("machine", {})
    loads = [cell.load for cell in record.cells.values()]
    lines = [
        f"{record.workers} workers and the switch on {record.cores} cores ({machine.get('processor', 'unknown')}), "
        f"begun {record.about.get('begun', 'unknown')}. Load average before a session: {min(loads):.1f} to "
        f"{max(loads):.1f}."
    ]
    if disturbed(record):
        lines.append(
            f"**Other work ran on the machine, and the benchmark had niceness {_niceness(record)}: times are far too "
            "long, a ratio may be wrong by a factor of two, and the formula is no better than its constants.**"
        )
    off = sorted({cell.key.place.switch for cell in record.cells.values() if not cell.offloads})
    if off:
        names = ", ".join(off)
        lines.append(
            f"Hosts kept their segmentation offloads, gloo's too; those on {names} did not: it takes no trains."
        )
    else:
        lines.append("All hosts kept their segmentation offloads.")
    return " ".join(lines)


def disturbed(record: GridRecord) -> bool:
    """Return whether other work ran beside the benchmark, so that its times do not describe the machine alone."""
    most = max(cell.load for cell in record.cells.values())
    return _niceness(record) > 0 or most > record.workers + _LOAD_QUIET


def _niceness(record: GridRecord) -> int:
    return int(record.about.get("niceness", 0))


def _limits(record: GridRecord, fitted: Mapping[SystemAt, Fitted]) -> str:
    if disturbed(record):
        return "Not told: the constants below are from a machine with other work."
    text = (
        'The fastest link on which the formula gives the system less time than gloo. "all": also on the fastest link '
        'tried, 1 Tbit/s; "none": not even at 1 Mbit/s. With one core each, more cores are of no use to the formula.'
    )

    cores = sorted({record.cores, record.workers + 1})
    head = ["system, switch", *(f"{_count(size)} values, {count} cores" for count in cores for size in _SHOWN_SIZES)]
    rows = [
        [place.label, *(_limit(record, fitted, place, size, count) for count in cores for size in _SHOWN_SIZES)]
        for place in fitted
        if place != _GLOO and _GLOO in fitted
    ]
    return f"{text}\n\n{_table(head, rows)}"


def _limit(record: GridRecord, fitted: Mapping[SystemAt, Fitted], place: SystemAt, values: int, cores: int) -> str:
    mbit = faster_up_to(fitted, place, values, record.workers, cores)
    if mbit is None:
        return "none"
    return "all" if mbit == _TRIED[-1] else rate_text(float(f"{mbit:.2g}"))


def faster_up_to(
    fitted: Mapping[SystemAt, Fitted], place: SystemAt, values: int, workers: int, cores: int
) -> float | None:
    """Return the fastest of the tried link rates at which, by the formula, a place is faster than gloo; or None."""

    def seconds(of: SystemAt, mbit: float) -> float:
        sent = formula.traffic(of.system, values, workers)
        return by_formula(sent, fitted[of].costs, OneAllReduce(values, mbit, workers, cores))

    return max((mbit for mbit in _TRIED if seconds(place, mbit) < seconds(_GLOO, mbit)), default=None)


def _measured(record: GridRecord) -> str:
    places = [place for place in record.places() if place != _GLOO]
    head = ["link", "values", "gloo, s", *(place.label for place in places)]
    rows = []
    for rate in record.rates():
        for size in record.sizes():
            gloo = record.cells.get(CellKey(_GLOO, rate, size))
            if gloo is not None:
                ratios = [_ratio(record, CellKey(place, rate, size), gloo.seconds) for place in places]
                rows.append([rate_text(rate), _count(size), f"{gloo.seconds:.4f}", *ratios])
    return _table(head, rows)


def _ratio(record: GridRecord, key: CellKey, gloo_s: float) -> str:
    cell = record.cells.get(key)
    return "-" if cell is None else f"{gloo_s / cell.seconds:.2f}"


def _processor_time(record: GridRecord) -> str:
    fastest = record.rates()[-1]
    lines = [f"CPU seconds per million values: a host; the switch. Links: {rate_text(fastest)}."]
    sizes = [size for size in record.sizes() if CellKey(_GLOO, fastest, size) in record.cells]
    rows = []
    for place in record.places():
        cells = [record.cells.get(CellKey(place, fastest, size)) for size in sizes]
        told = ["-" if cell is None else f"{cell.host_cpu_s:.4f}; {_or_dash(cell.switch_cpu_s)}" for cell in cells]
        rows.append([place.label, *told])
    return "\n\n".join([*lines, _table(["system, switch", *(f"{_count(size)} values" for size in sizes)], rows)])


def _or_dash(number: float | None) -> str:
    return "–" if number is None else f"{number:.4f}"


def _constants(fitted: Mapping[SystemAt, Fitted]) -> str:
    head = ["system, switch", "`host_s`", "`switch_s`", "`operation_s`", "`step_s`", "`busy`", "`apart`"]
    rows = []
    for place, one in fitted.items():
        costs = one.costs
        per_value = [f"{each * 1e9:.1f} ns" for each in (costs.host_s, costs.switch_s)]
        per_call = [f"{each * 1e3:.2f} ms" for each in (costs.operation_s, costs.step_s)]
        rows.append([place.label, *per_value, *per_call, f"{costs.busy:.2f}", f"{costs.apart:.2f}"])
    return _table(head, rows)


def _checks(checked: Sequence[CheckedCell]) -> str:
    outside = [one for one in checked if not one.holds]
    text = (
        f"{len(checked) - len(outside)} of {len(checked)} cells are within {formula.TOLERANCE:.0%} of the formula. "
        "Cells that constants are from do not count."
    )
    if not outside:
        return text
    rows = [
        [
            one.cell.key.place.label,
            rate_text(one.cell.key.link_mbit),
            _count(one.cell.key.values),
            f"{one.cell.seconds:.4f}",
            f"{one.formula_s:.4f}",
            f"{one.ratio:.2f}",
        ]
        for one in sorted(outside, key=lambda each: (each.ratio, each.cell.key.order))
    ]
    head = ["outside", "link", "values", "measured, s", "formula, s", "formula / measured"]
    return f"{text}\n\n{_table(head, rows)}"


def _left_out(record: GridRecord) -> str:
    if not record.skipped:
        return "Nothing."
    reasons: dict[str, list[CellKey]] = {}
    for one in sorted(record.skipped.values(), key=lambda each: each.key.order):
        reasons.setdefault(one.why, []).append(one.key)
    everywhere = {*record.places(), *(key.place for key in record.skipped)}
    return "\n".join(f"- {_cells(keys, len(everywhere))}: {why}." for why, keys in reasons.items())


def _cells(keys: Iterable[CellKey], places: int) -> str:
    """Which cells: by size and rate, with the systems unless it is all of these places at once."""
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(f"{_count(key.values)} values at {rate_text(key.link_mbit)}", []).append(key.place.label)
    return "; ".join(
        cell if len(names) == places else f"{cell} ({' and '.join(names)})" for cell, names in found.items()
    )


def _count(values: int) -> str:
    return f"{values:,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
