# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where Sumwire pays: `make bench-where`. Measures the sessions of a grid, writes the record after each, then picture
and tables.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from sumwire.systems.formula import wire_s

from sumwire_lab.bench.exchange_worker import exchanges
from sumwire_lab.bench.timing import all_reduce_bytes, repeats_of
from sumwire_lab.bench.where import page, picture
from sumwire_lab.bench.where.grid import (
    BRIDGE,
    GRID_RATES,
    GRID_SIZES,
    QUICK_RATES,
    QUICK_SIZES,
    Cell,
    CellKey,
    Grid,
    GridRecord,
    GridSession,
    Skipped,
    planned,
    too_slow,
)
from sumwire_lab.errors import LabError, MissingToolError, OptionError
from sumwire_lab.network import switches
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.bench_options import GRID_SWITCHES, WhereOptions, rate_text
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study import records
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.system import leftovers

_MEMORY: Final = Path("/proc/meminfo")
_MILLION: Final = 1e6
# Of the machine, what a record that is published says.
_TOLD: Final = ("processor", "memory", "Python, PyTorch")


def begun(grid: Grid, path: Path, *, resume: bool) -> GridRecord:
    """Return the record to continue, or an empty one. Raises OptionError if it has another number of workers."""
    cores = len(os.sched_getaffinity(0))
    about = {
        "begun": datetime.now().isoformat(timespec="seconds"),
        "machine": {name: told for name, told in records.described().items() if name in _TOLD},
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

    A session that fails is noted in the record, and the next one runs. Raises LabError.
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
    """Return a cell from each worker's measurements of its size, the first worker first."""
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


def grid_of(options: WhereOptions) -> Grid:
    """Return the grid that the options ask for."""
    sizes, rates = (QUICK_SIZES, QUICK_RATES) if options.quick else (GRID_SIZES, GRID_RATES)
    return Grid(
        options.sizes or sizes,
        options.bw or rates,
        tuple(name for name in options.systems if name != BASELINE),
        options.switches or present(),
        options.workers,
        options.budget,
    )


def present() -> tuple[str, ...]:
    """Return the kinds of switch that this machine has."""
    return tuple(name for name in GRID_SWITCHES if _is_here(name))


def _is_here(switch: str) -> bool:
    try:
        switches.choose(switch)
    except MissingToolError:
        return False
    return True


def run(options: WhereOptions, results: Path, say: Say) -> GridRecord:
    """Measure the requested grid, and write record, picture and, if requested, the page. Raises LabError."""
    path = options.record or results / "bench-where.json"
    if options.draw:
        record = GridRecord.load(path)
    else:
        record = measure_grid(grid_of(options), path, results, say, resume=options.resume)
    if not record.cells:
        raise LabError(f"{path}: nothing was measured; see the messages above, and measure again")
    drawn = path.with_suffix(".svg")
    if options.page is not None:
        drawn = options.page.parent / "images" / f"{options.page.stem}.svg"
        options.page.write_text(page.renewed(options.page.read_text(), record))
    drawn.write_text(picture.svg(record))
    say(f"{path}, {drawn}")
    return record


def command(options: WhereOptions, results: Path, say: Say) -> tuple[str, bool]:
    """Run `bench where`. Returns the tables for a terminal, and whether every session could be measured. Raises
    LabError."""
    record = run(options, results, say)
    return page.markdown(record), not any(one.failed for one in record.skipped.values())
