# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds of one all-reduce, gloo against Sumwire, for several sizes and link rates, beside the bound of the wire.

The bound is what a link needs for the bytes of its busier direction, headers included, at the full rate.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from sumwire.wire import HEADER_BYTES, LOWER_HEADER_BYTES, VALUES_PER_PLANE, WORD_BYTES

from sumwire_lab import leftovers, switches
from sumwire_lab.errors import OptionError
from sumwire_lab.options import LinkOptions, RunOptions
from sumwire_lab.processes import wait_all
from sumwire_lab.recipes import BASELINE
from sumwire_lab.run import new_folder
from sumwire_lab.session import Say, interruptible, open_session
from sumwire_lab.topology import require_tools

REPEATS: Final = 3
# A full TCP segment: 1448 bytes of data with timestamps in a frame of 1514.
_TCP_PAYLOAD: Final = 1448
_TCP_FRAME: Final = 1514
_RESULT_WORDS: Final = 8
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
        return round(2 * (workers - 1) / workers * 4 * values * _TCP_FRAME / _TCP_PAYLOAD)
    chunks = math.ceil(values / VALUES_PER_PLANE)
    return chunks * (LOWER_HEADER_BYTES + HEADER_BYTES + _RESULT_WORDS * WORD_BYTES)


@dataclass(frozen=True)
class Row:
    """One measurement; `seconds` is the median of the repeats, each the slowest worker's."""

    link_mbit: float
    values: int
    system: str
    seconds: float
    bound_s: float
    link_share: float


def row(link_mbit: float, values: int, system: str, workers: int, seconds: float) -> Row:
    """A row with its bound."""
    bound = wire_bytes(system, values, workers) * 8 / (link_mbit * 1e6)
    return Row(link_mbit, values, system, seconds, bound, bound / seconds)


def table(rows: Sequence[Row]) -> str:
    """The rows, and for each size and rate how many times faster the switch is."""
    lines = ["Mbit/s     values  system   seconds     bound  link used  gloo / it"]
    base = {(r.link_mbit, r.values): r.seconds for r in rows if r.system == BASELINE}
    for r in rows:
        gloo = base.get((r.link_mbit, r.values))
        faster = "" if gloo is None or r.system == BASELINE else f"{gloo / r.seconds:9.2f}"
        lines.append(
            f"{r.link_mbit:6g} {r.values:>10} {r.system:>7} "
            f"{r.seconds:9.4f} {r.bound_s:9.4f} {r.link_share:9.1%}  {faster}"
        )
    return "\n".join(lines)


def bench(sizes: Sequence[int], rates: Sequence[float], options: RunOptions, results: Path, say: Say) -> list[Row]:
    """All rates, systems and sizes. Writes allreduce.json into a new folder of results. Raises LabError."""
    require_tools()
    kind = switches.choose(options.switch)
    folder = new_folder(results, latest=False)
    leftovers.clean()
    rows = []
    with interruptible():
        for rate in rates:
            for system in options.systems:
                link = LinkOptions(rate, options.link.queue_packets)
                at_rate = RunOptions(workers=options.workers, link=link, switch=options.switch)
                where = folder / f"{system}-{rate:g}"
                for values, seconds in _measure(system, kind, at_rate, sizes, where):
                    rows.append(row(rate, values, system, options.workers, seconds))
                    say(f"{rate:g} Mbit/s, {values} values, {system}: {seconds:.4f} s")
    record = {"workers": options.workers, "switch": kind, "rows": [asdict(r) for r in rows]}
    (folder / "allreduce.json").write_text(json.dumps(record, indent=1) + "\n")
    return rows


def _measure(
    system: str, kind: str, options: RunOptions, sizes: Sequence[int], folder: Path
) -> list[tuple[int, float]]:
    with open_session(options, None if system == BASELINE else kind, folder) as session:
        hosts = session.fabric.hosts
        spec: dict[str, Any] = {
            "system": system,
            "sizes": list(sizes),
            "repeats": REPEATS,
            "master": hosts[0].ip,
            "interfaces": [host.host_interface for host in hosts],
            "job_file": None if session.job_file is None else str(session.job_file),
            "results": [str(folder / f"worker{rank}.json") for rank in range(len(hosts))],
        }
        path = folder / "spec.json"
        path.write_text(json.dumps(spec))
        working: dict[str, subprocess.Popen[bytes]] = {}
        try:
            for rank, host in enumerate(hosts):
                name = f"worker{rank}"
                command = [sys.executable, "-m", "sumwire_lab.bench_worker", str(path), str(rank)]
                working[name] = session.start(name, host, command)
            wait_all(working, session.serving(), session.logs(working), _DEADLINE_SECONDS, lambda: None)
        finally:
            for process in working.values():
                process.kill()
                process.wait()
    times = [json.loads(Path(result).read_text()) for result in spec["results"]]
    return [
        (size, median(max(worker[k][n] for worker in times) for n in range(REPEATS))) for k, size in enumerate(sizes)
    ]
