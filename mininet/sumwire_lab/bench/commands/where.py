# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where Sumwire pays: `make bench-where`. Measures a grid, then writes its picture and tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sumwire_lab.bench.commands.allreduce import parse_rates, parse_sizes
from sumwire_lab.bench.where import page, picture
from sumwire_lab.bench.where.grid import QUICK_RATES, QUICK_SIZES, RATES, SIZES, Grid
from sumwire_lab.bench.where.measure import measure
from sumwire_lab.bench.where.record import SWITCHES, SYSTEMS, Record
from sumwire_lab.errors import LabError, MissingToolError, OptionError
from sumwire_lab.network import switches
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.study.experiment import Say


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    grid: Grid
    record: Path
    results: Path
    resume: bool = False
    draw: bool = False
    page: Path | None = None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Request:
        """Raises OptionError."""
        default = (QUICK_SIZES, QUICK_RATES) if arguments.quick else (SIZES, RATES)
        grid = Grid(
            parse_sizes(arguments.sizes) if arguments.sizes else default[0],
            parse_rates(arguments.bw) if arguments.bw else default[1],
            tuple(name for name in parse_names("systems", arguments.systems, (BASELINE, *SYSTEMS)) if name != BASELINE),
            parse_names("switches", arguments.switches, SWITCHES) if arguments.switches else present(),
            arguments.workers,
            arguments.budget,
        )
        record = arguments.record or arguments.results / "bench-where.json"
        return cls(grid, record, arguments.results, arguments.resume, arguments.draw, arguments.page)


def parse_names(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """`soft,aggregator` as names, each once. Raises OptionError."""
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in known:
            raise OptionError(f"{option}={name}: known are {', '.join(known)}")
    return names


def present() -> tuple[str, ...]:
    """The kinds of switch that this machine has."""
    return tuple(name for name in SWITCHES if _is_here(name))


def _is_here(switch: str) -> bool:
    try:
        switches.choose(switch)
    except MissingToolError:
        return False
    return True


def run(request: Request, say: Say) -> Record:
    """Measure what is asked for, and write record, picture and, where asked for, the page. Raises LabError."""
    if request.draw:
        record = Record.load(request.record)
    else:
        record = measure(request.grid, request.record, request.results, say, resume=request.resume)
    if not record.cells:
        raise LabError(f"{request.record}: nothing was measured; see the messages above, and measure again")
    drawn = request.record.with_suffix(".svg")
    if request.page is not None:
        drawn = request.page.parent / "images" / f"{request.page.stem}.svg"
        request.page.write_text(page.renewed(request.page.read_text(), record))
    drawn.write_text(picture.svg(record))
    say(f"{request.record}, {drawn}")
    return record


def text(record: Record) -> str:
    """The tables for a terminal."""
    return page.markdown(record)
