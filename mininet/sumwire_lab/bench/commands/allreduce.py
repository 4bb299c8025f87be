# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One all-reduce, gloo against THC and SIGN, for several sizes and link rates: seconds beside the bound of the wire,
CPU seconds of hosts and switch, and packets lost inside them.

The bound is what a link needs for the bytes of its busier direction, headers included, at the full rate.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from sumwire.wire.header import HEADER_BYTES, LOWER_HEADER_BYTES, WORD_BYTES
from sumwire_protocol.ops import BY_NAME

from sumwire_lab.errors import OptionError
from sumwire_lab.network import switches
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.experiment import Say, interruptible, new_folder
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.system import drop_counters, leftovers
from sumwire_lab.system.drop_counters import Losses
from sumwire_lab.system.processes import family, kill_all, wait_all

SYSTEMS: Final = (BASELINE, "thc", "sign")
REPEATS: Final = 3
# A full TCP segment: 1448 bytes of data with timestamps in a frame of 1514.
TCP_PAYLOAD: Final = 1448
TCP_FRAME: Final = 1514
_DEADLINE_SECONDS: Final = 900.0
_SUFFIXES: Final = {"k": 1_000, "M": 1_000_000}


def parse_sizes(text: str) -> tuple[int, ...]:
    """`100k,1M` as numbers of float32 values. Raises OptionError."""
    sizes = []
    for word in text.split(","):
        digits, factor = (word[:-1], _SUFFIXES[word[-1]]) if word[-1:] in _SUFFIXES else (word, 1)
        if not digits.isdecimal() or int(digits) < 1:
            raise OptionError(f"sizes={word!r}: a number of values above 0, as 5000, 100k or 1M")
        sizes.append(int(digits) * factor)
    return tuple(sizes)


def parse_systems(text: str) -> tuple[str, ...]:
    """`gloo,thc` as names. Raises OptionError."""
    names = tuple(text.split(","))
    for name in names:
        if name not in SYSTEMS:
            raise OptionError(f"systems={name}: known are {', '.join(SYSTEMS)}")
    return names


def parse_rates(text: str) -> tuple[float, ...]:
    """`10,100` as Mbit/s. Raises OptionError."""
    try:
        rates = tuple(float(word) for word in text.split(","))
    except ValueError as error:
        raise OptionError(f"bw={text!r}: numbers of Mbit/s with commas between them") from error
    for rate in rates:
        LinkOptions(rate)
    return rates


def wire_bytes(system: str, values: int, workers: int) -> int:
    """Bytes in the busier direction of one worker's link for one all-reduce, without acknowledgements and norms.

    gloo: 2 (n-1)/n of the tensor each way, in TCP segments. Sumwire: down, 8 words a chunk.
    """
    if system == BASELINE:
        return round(2 * (workers - 1) / workers * 4 * values * TCP_FRAME / TCP_PAYLOAD)
    op = BY_NAME[system]
    chunks = math.ceil(values / op.values)
    return chunks * (LOWER_HEADER_BYTES + HEADER_BYTES + op.down.words * WORD_BYTES)


@dataclass(frozen=True)
class Row:
    """One measurement; `seconds` is the median of the repeats, each the slowest worker's.

    CPU seconds are per million values: a host's (mean of the workers) and those of all switches together; None for
    kernel bridges, whose work no process is charged for.
    """

    link_mbit: float
    values: int
    system: str
    seconds: float
    bound_s: float
    link_share: float
    host_cpu_s: float
    switch_cpu_s: float | None


def row(
    link_mbit: float, values: int, system: str, measured: Sequence[Mapping[str, Any]], switched: bool = True
) -> Row:
    """A row out of what each worker measured (see `bench_worker.measure`), the first worker first."""
    workers = len(measured)
    bound = wire_bytes(system, values, workers) * 8 / (link_mbit * 1e6)
    repeats = list(zip(*(worker["seconds"] for worker in measured), strict=True))
    seconds = median(max(repeat) for repeat in repeats)
    millions = len(repeats) * values / 1e6
    return Row(
        link_mbit,
        values,
        system,
        seconds,
        bound,
        bound / seconds,
        host_cpu_s=fmean(worker["cpu_s"] for worker in measured) / millions,
        switch_cpu_s=measured[0]["switch_cpu_s"] / millions if switched else None,
    )


@dataclass(frozen=True)
class Result:
    """One system at one rate: a row a size, and what was lost and sent again in the whole session."""

    system: str
    link_mbit: float
    rows: tuple[Row, ...]
    lost: Losses
    retransmissions: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def table(results: Sequence[Result]) -> str:
    """The rows, and for each size and rate how many times faster than gloo a system is; then what was lost."""
    rows = [r for result in results for r in result.rows]
    lines = ["Mbit/s     values  system   seconds     bound  link used  CPU s/M: host  switch  gloo / it"]
    base = {(r.link_mbit, r.values): r.seconds for r in rows if r.system == BASELINE}
    for r in rows:
        gloo = base.get((r.link_mbit, r.values))
        faster = "" if gloo is None or r.system == BASELINE else f"{gloo / r.seconds:9.2f}"
        switch = "-" if r.switch_cpu_s is None else f"{r.switch_cpu_s:.4f}"
        lines.append(
            f"{r.link_mbit:6g} {r.values:>10} {r.system:>7} {r.seconds:9.4f} {r.bound_s:9.4f} {r.link_share:9.1%} "
            f"{r.host_cpu_s:14.4f} {switch:>7}  {faster}"
        )
    for result in results:
        lost = ", ".join(f"{place} {_count(n)}" for place, n in result.lost.as_dict().items())
        lines.append(f"{result.link_mbit:g} Mbit/s, {result.system}: sent again {result.retransmissions}; lost: {lost}")
    return "\n".join(lines)


def _count(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def bench(
    sizes: Sequence[int],
    rates: Sequence[float],
    options: RunOptions,
    results: Path,
    say: Say,
    *,
    systems: Sequence[str] = SYSTEMS,
) -> list[Result]:
    """All rates, systems and sizes. Writes allreduce.json into a new folder of results. Raises LabError."""
    require_tools()
    kind = switches.choose_for(options)
    folder = new_folder(results, latest=False)
    leftovers.clean()
    done = []
    with interruptible():
        for rate in rates:
            for system in systems:
                at_rate = replace(options, link=LinkOptions(rate, options.link.queue_packets))
                where = folder / f"{system}-{rate:g}"
                done.append(_measure(system, None if system == BASELINE else kind, at_rate, sizes, where))
                for r in done[-1].rows:
                    say(f"{rate:g} Mbit/s, {r.values} values, {system}: {r.seconds:.4f} s")
    engine = switches.choose_engine(options.engine) if kind == "soft" else None
    record = {
        "workers": options.workers,
        "switch": kind,
        "engine": engine,
        "results": [result.as_dict() for result in done],
    }
    (folder / "allreduce.json").write_text(json.dumps(record, indent=1) + "\n")
    return done


def _measure(system: str, kind: str | None, options: RunOptions, sizes: Sequence[int], folder: Path) -> Result:
    backlog = drop_counters.backlog()
    with open_session(options, kind, folder) as session:
        measured = run_workers(session, system, sizes)
        counted = session.counted()
    sockets = sum(worker["host_sockets"] for worker in measured)
    lost = drop_counters.gather(counted, backlog_before=backlog, sockets=sockets)
    rows = [
        row(options.link.mbit, size, system, [worker["sizes"][k] for worker in measured], switched=kind is not None)
        for k, size in enumerate(sizes)
    ]
    again = sum(int(worker["stats"].get("retransmissions", 0)) for worker in measured)
    return Result(system, options.link.mbit, tuple(rows), lost, again)


def run_workers(
    session: Session, system: str, sizes: Sequence[int], module: str = "sumwire_lab.bench.allreduce_worker", **more: Any
) -> list[dict[str, Any]]:
    """What each worker wrote (see bench_worker, or the `module` that is run instead); `more` goes into its spec."""
    hosts, folder = session.fabric.hosts, session.folder
    spec: dict[str, Any] = {
        "system": system,
        "sizes": list(sizes),
        "repeats": REPEATS,
        "master": hosts[0].ip,
        "interfaces": [host.host_interface for host in hosts],
        "switches": [pid for process in session.serving().values() for pid in family(process.pid)],
        "job_file": None if session.job_file is None else str(session.job_file),
        "results": [str(folder / f"worker{rank}.json") for rank in range(len(hosts))],
        **more,
    }
    path = folder / "spec.json"
    path.write_text(json.dumps(spec))
    working: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for rank, host in enumerate(hosts):
            name = f"worker{rank}"
            command = [sys.executable, "-m", module, str(path), str(rank)]
            working[name] = session.start(name, host, command)
        wait_all(working, session.serving(), session.logs(working), _DEADLINE_SECONDS, lambda: None)
    finally:
        kill_all(working)
    return [json.loads(Path(result).read_text()) for result in spec["results"]]
