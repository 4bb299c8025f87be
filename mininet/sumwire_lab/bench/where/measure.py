# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where Sumwire pays: `make bench-where`. Measures the sessions of a grid, writes the record after each, then picture
and tables.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from sumwire_lab.bench import machine
from sumwire_lab.bench.allreduce import parse_rates, parse_sizes, rate_text
from sumwire_lab.bench.exchange_worker import exchanges
from sumwire_lab.bench.timing import all_reduce_bytes, repeats_of
from sumwire_lab.bench.where import page, picture
from sumwire_lab.bench.where.grid import (
    BRIDGE,
    GRID_RATES,
    GRID_SIZES,
    QUICK_RATES,
    QUICK_SIZES,
    SWITCHES,
    SYSTEMS,
    Cell,
    CellKey,
    Grid,
    GridRecord,
    GridSession,
    Skipped,
    planned,
    too_slow,
    wire_s,
)
from sumwire_lab.errors import LabError, MissingToolError, OptionError
from sumwire_lab.network import switches
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.system import leftovers

_MEMORY: Final = Path("/proc/meminfo")
_MILLION: Final = 1e6
# Of the machine, what a record that is published says.
_TOLD: Final = ("processor", "memory", "Python, PyTorch")


def begun(grid: Grid, path: Path, *, resume: bool) -> GridRecord:
    """The record to go on with, or an empty one. Raises OptionError if it is of another number of workers."""
    cores = len(os.sched_getaffinity(0))
    about = {
        "begun": datetime.now().isoformat(timespec="seconds"),
        "machine": {name: told for name, told in machine.describe().items() if name in _TOLD},
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    }
    fresh = GridRecord(grid.workers, cores, grid.budget_s, about)
    if not resume or not path.exists():
        return fresh
    before = GridRecord.load(path)
    if (before.workers, before.cores) != (grid.workers, cores):
        told = f"{before.workers} workers on {before.cores} cores"
        raise OptionError(f"resume={path}: has {told}, this is {grid.workers} on {cores}; name another file")
    fresh.about = before.about
    fresh.add(*before.cells.values())
    if before.budget_s == grid.budget_s:
        fresh.add(*before.skipped.values())
    return fresh


def measure_grid(grid: Grid, path: Path, results: Path, say: Say, *, resume: bool) -> GridRecord:
    """Measure all cells that the record at `path` does not have. Logs go into a new folder of `results`.

    A session that fails is named in the record, and the next one runs. Raises LabError.
    """
    require_tools()
    for switch in grid.switches:
        switches.choose_for(RunOptions(switch=switch))
    record = begun(grid, path, resume=resume)
    sessions = planned(grid, record, _available_bytes())
    record.save(path)
    folder = new_folder(results, latest=False)
    leftovers.clean()
    began, done_s = time.monotonic(), 0.0
    weights = [session.expected_s(grid.workers) for session in sessions]
    with interruptible():
        for number, (session, weight) in enumerate(zip(sessions, weights, strict=True), start=1):
            left = _left(time.monotonic() - began, done_s, sum(weights) - done_s)
            say(f"{number} of {len(sessions)}{left}: {session.place.label}, {rate_text(session.link_mbit)}")
            record.add(*_tried(session, grid, folder / f"{number:03}", say))
            record.save(path)
            done_s += weight
    return record


def _left(spent_s: float, done: float, rest: float) -> str:
    """What is left if it takes as long, for its weight, as what is done; empty at the start."""
    return f", some {spent_s / done * rest / 60:.0f} min left" if done else ""


def _tried(session: GridSession, grid: Grid, folder: Path, say: Say) -> list[Cell | Skipped]:
    try:
        found = _measured(session, grid, folder)
    except LabError as error:
        say(f"failed: {error}")
        # The message may be long: it has the end of a log.
        return [Skipped(key, f"its session failed ({type(error).__name__})", failed=True) for key in session.cells()]
    for one in found:
        told = f"{one.seconds:.4f} s" if isinstance(one, Cell) else one.why
        say(f"  {one.key.values} values: {told}")
    return found


def _measured(session: GridSession, grid: Grid, folder: Path) -> list[Cell | Skipped]:
    kind = None if session.place.switch == BRIDGE else session.place.switch
    options = RunOptions(
        workers=grid.workers, link=LinkOptions(session.link_mbit), switch=session.place.switch if kind else "soft"
    )
    load = os.getloadavg()[0]
    with open_session(options, kind, folder) as network:
        workers = exchanges(
            network,
            {
                "exchange": "all-reduce",
                "system": session.place.system,
                "sizes": session.sizes,
                "budget_s": grid.budget_s,
            },
        )
        offloads = network.network.offloads
    keys = session.cells()
    count = len(workers[0]["sizes"])
    found: list[Cell | Skipped] = [
        cell(key, [worker["sizes"][k] for worker in workers], offloads=offloads, load=load)
        for k, key in enumerate(keys[:count])
    ]
    return [*found, *too_slow(keys[count:], grid.budget_s)]


def cell(key: CellKey, measured: Sequence[Mapping[str, Any]], *, offloads: bool, load: float) -> Cell:
    """A cell out of what each worker measured of its size, the first worker first."""
    times = repeats_of(measured)
    switch_s = median(measured[0]["switch_cpu_each_s"])
    return Cell(
        key,
        seconds=median(max(repeat) for repeat in times),
        repeats=len(times),
        bound_s=wire_s(all_reduce_bytes(key.place.system, key.values, len(measured)), key.link_mbit),
        host_cpu_s=fmean(median(worker["cpu_each_s"]) for worker in measured) / key.values * _MILLION,
        switch_cpu_s=None if key.place.switch == BRIDGE else switch_s / key.values * _MILLION,
        offloads=offloads,
        load=load,
    )


def _available_bytes() -> int:
    """Free memory of this machine, with what the kernel would give back."""
    sizes = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines() if ":" in line)
    return int(sizes["MemAvailable"].split()[0]) << 10


@dataclass(frozen=True)
class GridRequest:
    """What the command line asks for."""

    grid: Grid
    record: Path
    results: Path
    resume: bool = False
    draw: bool = False
    page: Path | None = None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> GridRequest:
        """Raises OptionError."""
        default = (QUICK_SIZES, QUICK_RATES) if arguments.quick else (GRID_SIZES, GRID_RATES)
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


def run(request: GridRequest, say: Say) -> GridRecord:
    """Measure what is asked for, and write record, picture and, where asked for, the page. Raises LabError."""
    if request.draw:
        record = GridRecord.load(request.record)
    else:
        record = measure_grid(request.grid, request.record, request.results, say, resume=request.resume)
    if not record.cells:
        raise LabError(f"{request.record}: nothing was measured; see the messages above, and measure again")
    drawn = request.record.with_suffix(".svg")
    if request.page is not None:
        drawn = request.page.parent / "images" / f"{request.page.stem}.svg"
        request.page.write_text(page.renewed(request.page.read_text(), record))
    drawn.write_text(picture.svg(record))
    say(f"{request.record}, {drawn}")
    return record


def text(record: GridRecord) -> str:
    """The tables for a terminal."""
    return page.markdown(record)
