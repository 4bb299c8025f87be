# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Renders a picture as text for a terminal's size. Rows that do not fit are counted, not dropped silently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.table import Table
from rich.text import Text

from sumwire.top.picture import Picture, PortRow, SwitchRow, WorkerRow

# From this width on there are more columns, and longer bars.
WIDE: Final = 120
_BAR, _WIDE_BAR = 6, 24
_UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTE_BITS: Final = 8
# From here on a number has no decimals.
_LONG: Final = 99.95
_TITLE: Final = Style(bold=True)
_HEAD: Final = Style(dim=True)
_NAMES: Final = Style(bold=True, underline=True)
_BAD: Final = Style(color="red", bold=True)
_NOTE: Final = Style(color="yellow")
_FULL: Final = Style(color="green")


@dataclass
class _Section:
    """A table. ``columns``: heads, and whether the values are numbers. Rows that have no room are only counted; those
    that are ``troubled`` get room first. ``what``: what the rows are."""

    what: str
    columns: Sequence[tuple[str, bool]]
    rows: list[list[Text]] = field(default_factory=list)
    troubled: set[int] = field(default_factory=set)

    def visible(self, room: int) -> list[list[Text]]:
        """The rows that are shown in so many lines, in their order."""
        if room >= len(self.rows):
            return self.rows
        first = sorted(range(len(self.rows)), key=lambda number: number not in self.troubled)
        return [self.rows[number] for number in sorted(first[: max(room - 1, 0)])]


class Screen:
    """A renderable for rich. ``when``: the time to show. ``height``: lines, or None for all of them."""

    def __init__(self, picture: Picture, when: str, height: int | None) -> None:
        self._picture, self._when, self._height = picture, when, height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= WIDE
        sections = [one for one in _sections(self._picture, wide) if one.rows]
        head = _head(self._picture, self._when)
        # The last line of a terminal stays empty, so that it does not scroll.
        room = None if self._height is None else self._height - 2 - len(sections)
        yield head
        for section, shown in zip(sections, _shares([len(one.rows) for one in sections], room), strict=True):
            yield from _drawn(section, shown, console, options)


def _shares(wanted: Sequence[int], room: int | None) -> list[int]:
    """How many rows each section gets of ``room``: small ones all they want, the others equal shares."""
    if room is None:
        return list(wanted)
    given, left = [0] * len(wanted), max(room, 0)
    while left and any(have < want for have, want in zip(given, wanted, strict=True)):
        for number, want in enumerate(wanted):
            if left and given[number] < want:
                given[number] += 1
                left -= 1
    return given


def _drawn(section: _Section, shown: int, console: Console, options: ConsoleOptions) -> RenderResult:
    table = Table(box=None, expand=False, padding=(0, 1, 0, 0), pad_edge=False, header_style=_NAMES, show_edge=False)
    for head, number in section.columns:
        table.add_column(head, justify="right" if number else "left", no_wrap=True, overflow="ellipsis")
    visible = section.visible(shown)
    for row in visible:
        table.add_row(*row)
    yield from console.render(table, options)
    if shown and len(visible) < len(section.rows):
        yield Text(f"... and {len(section.rows) - len(visible)} more {section.what}", _HEAD)


def _head(picture: Picture, when: str) -> Text:
    answering = picture.endpoints - len(picture.silent)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("sumwire top", _TITLE)
    text.append(f"  {when}  ")
    text.append(f"{answering} of {picture.endpoints} endpoints", _BAD if picture.silent else "")
    for name, job, workers in dict.fromkeys((one.name, one.job, _of_job(picture, one)) for one in picture.workers):
        text.append(f"  job {job} {name}: {workers} worker{'' if workers == 1 else 's'}")
    return text


def _of_job(picture: Picture, worker: WorkerRow) -> int:
    return sum((one.name, one.job) == (worker.name, worker.job) for one in picture.workers)


def _sections(picture: Picture, wide: bool) -> list[_Section]:
    return [
        _workers(picture.workers, wide),
        _switches(picture.switches),
        _refused(picture.switches),
        _ports(picture.ports, wide),
        _silent(picture),
    ]


def _workers(workers: Sequence[WorkerRow], wide: bool) -> _Section:
    columns = [("worker", True), ("sent/s", True), ("of line", False), ("got/s", True), ("op/s", True)]
    columns += [("in op", True), ("flying", True), ("resent/s", True), ("left out", True), ("state", False)]
    if wide:
        columns[1:1] = [("job", True), ("endpoint", False)]
        columns[-1:-1] = [("resent", True), ("missing", True), ("fall-backs", True)]
    section = _Section("workers", columns)
    for number, one in enumerate(workers):
        if one.fallen_back or one.straggler or one.waiting:
            section.troubled.add(number)
        row = [Text(str(one.worker)), _bits(one.sent), _bar(one.sent, one.line_rate, wide), _bits(one.received)]
        row += [_number(one.operations), _percent(one.share), Text(str(one.in_flight)), _number(one.resent)]
        row += [Text(str(one.left_out)), _state(one)]
        if wide:
            row[1:1] = [Text(one.job), Text(one.endpoint)]
            row[-1:-1] = [Text(str(one.resent_total)), Text(str(one.missing)), Text(str(one.fallbacks))]
        section.rows.append(row)
    return section


def _state(worker: WorkerRow) -> Text:
    if worker.fallen_back:
        return Text("fall-back", _BAD)
    if worker.waiting:
        return Text("waiting", _NOTE)
    return Text("straggler", _NOTE) if worker.straggler else Text("ok")


def _switches(switches: Sequence[SwitchRow]) -> _Section:
    columns = [("switch", False), ("admitted/s", True), ("results/s", True), ("repeated/s", True)]
    section = _Section("switches", [*columns, ("refused/s", True), ("endpoint", False), ("state", False)])
    for one in switches:
        rates = [one.admitted, one.results, one.repeated, one.refused_rate]
        state = Text("ok") if one.in_sync is not False else Text("out of sync", _NOTE)
        if not one.up:
            state = Text("does not answer", _BAD)
        section.rows.append([Text(one.switch), *map(_number, rates), Text(one.endpoint), state])
    return section


def _refused(switches: Sequence[SwitchRow]) -> _Section:
    section = _Section("reasons", [("switch", False), ("refused or dropped", False), ("packets", True)])
    counted = [(count, one.switch, f"refused: {why}") for one in switches for why, count in one.refused.items()]
    counted += [(count, one.switch, f"queue: {why}") for one in switches for why, count in one.dropped.items()]
    for count, switch, why in sorted(counted, reverse=True):
        section.rows.append([Text(switch), Text(why), Text(str(count))])
    return section


def _ports(ports: Sequence[PortRow], wide: bool) -> _Section:
    columns = [("switch", False), ("port", True), ("in/s", True), ("of line", False), ("out/s", True)]
    section = _Section("ports", [*columns, ("of line", False), ("lost frames", False)])
    for number, one in enumerate(ports):
        if one.dropped:
            section.troubled.add(number)
        lost = ", ".join(f"{cause} {count}" for cause, count in one.dropped.items())
        bars = [_bar(rate, one.line_rate, wide) for rate in (one.received, one.sent)]
        row = [Text(one.switch), Text(one.port), _bits(one.received), bars[0], _bits(one.sent), bars[1]]
        section.rows.append([*row, Text(lost or "none", _NOTE if lost else "")])
    return section


def _silent(picture: Picture) -> _Section:
    rows = [[Text(endpoint), Text(why, _BAD)] for endpoint, why in picture.silent.items()]
    return _Section("endpoints", [("no answer from", False), ("why", False)], rows)


def _number(value: float | None) -> Text:
    if value is None:
        return Text("-")
    for size, unit in _UNITS:
        if value >= size:
            return Text(f"{_short(value / size)}{unit}")
    return Text(_short(value))


def _short(value: float) -> str:
    return f"{value:.1f}" if value < _LONG else f"{value:.0f}"


def _bits(value: float | None) -> Text:
    """Bytes per second, in bits as links are counted."""
    return Text("-") if value is None else Text(f"{_number(value * _BYTE_BITS)}b")


def _percent(share: float | None) -> Text:
    return Text("-") if share is None else Text(f"{100 * share:.0f}%")


def _bar(value: float | None, most: float | None, wide: bool) -> Text:
    """The share of a rate, as a bar and a number."""
    if value is None or not most:
        return Text("-")
    share, length = value / most, _WIDE_BAR if wide else _BAR
    full = round(min(share, 1) * length)
    return Text.assemble(("━" * full, _FULL), ("─" * (length - full), _HEAD), f" {100 * share:.0f}%")
