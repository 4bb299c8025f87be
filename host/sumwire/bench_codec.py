# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How long THC takes on one core: `python -m sumwire.bench_codec --values 1000000 --json out.json`.

One worker's whole round, error feedback included, stage by stage; the network is left out, its sums are made
beforehand. Stages are in wall-clock time. The verdict takes the median round in CPU time of the one thread: what a
core spends, whoever else wants it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import torch

from sumwire.codec.feedback import ErrorFeedback
from sumwire.codec.oracles import sum_words
from sumwire.codec.tables import solve
from sumwire.codec.thc import BLOCK_VALUES, ThcCodec

STAGES: Final = ("feedback add", "norms", "encode", "decode", "residual")
# Key of a round's CPU time beside its stages.
CPU: Final = "cpu"
TARGET_MS_PER_MILLION: Final = 40.0
_T = TypeVar("_T")


def time_rounds(codec: ThcCodec, values: int, rounds: int, warmup: int) -> list[dict[str, float]]:
    """Milliseconds of every stage, and of CPU time, of each round after the first `warmup` ones."""
    generator = torch.Generator().manual_seed(7)
    gradient = torch.randn(values, generator=generator)
    feedback = ErrorFeedback()
    timed = [_one_round(codec, gradient, feedback, sequence) for sequence in range(warmup + rounds)]
    return timed[warmup:]


def _one_round(codec: ThcCodec, gradient: torch.Tensor, feedback: ErrorFeedback, sequence: int) -> dict[str, float]:
    spent: dict[str, float] = {}

    def stage(name: str, step: Callable[[], _T]) -> _T:
        start, cpu_start = time.perf_counter(), time.thread_time()
        result = step()
        spent[CPU] = spent.get(CPU, 0.0) + (time.thread_time() - cpu_start) * 1e3
        spent[name] = (time.perf_counter() - start) * 1e3
        return result

    x = stage("feedback add", lambda: feedback.compensate(0, gradient))
    round_ = stage("norms", lambda: codec.begin(x, sequence, 0))
    words = stage("encode", lambda: round_.encode(round_.norms()))
    summed = sum_words(codec.table, [words])
    counts = np.ones(len(summed), np.int64)
    stage("decode", lambda: round_.decode(summed, counts))
    stage("residual", lambda: feedback.store(0, round_.residual()))
    return spent


def summarise(timed: Sequence[dict[str, float]], values: int, block: int | None, pinned: bool) -> dict[str, Any]:
    """Minimum and median by stage and of whole rounds, and the verdict against the target for this length.

    Below a million values the target stays that of a million: fixed costs weigh more there.
    """
    totals = [sum(one[name] for name in STAGES) for one in timed]
    cpu = statistics.median(one[CPU] for one in timed)
    target = TARGET_MS_PER_MILLION * max(1.0, values / 1e6)
    stages = {
        name: {"min_ms": min(one[name] for one in timed), "median_ms": statistics.median(one[name] for one in timed)}
        for name in STAGES
    }
    return {
        "values": values,
        "block": block,
        "rounds": len(timed),
        "threads": torch.get_num_threads(),
        "pinned_to_one_core": pinned,
        "torch": torch.__version__,
        "stages": stages,
        "min_ms": min(totals),
        "median_ms": statistics.median(totals),
        "cpu_median_ms": cpu,
        "target_ms": target,
        "holds": cpu <= target,
    }


def table_text(summary: dict[str, Any]) -> str:
    """The summary as a table for people."""
    lines = [f"{'stage':<14}{'min ms':>10}{'median ms':>12}"]
    rows = [*summary["stages"].items(), ("total", summary)]
    lines += [f"{name:<14}{row['min_ms']:>10.2f}{row['median_ms']:>12.2f}" for name, row in rows]
    verdict = "holds" if summary["holds"] else "does not hold"
    cpu, target = summary["cpu_median_ms"], summary["target_ms"]
    lines.append(f"{summary['values']} values on one core: {cpu:.2f} ms of CPU time, target {target:.1f} ms: {verdict}")
    return "\n".join(lines) + "\n"


def _pin_to_one_core() -> bool:
    """Keep this process on the core of its set that is named last; False where the system cannot."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 if the target is met, else 1."""
    parser = argparse.ArgumentParser(description="time THC encode and decode on one core")
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--block", type=int, default=BLOCK_VALUES, help="rotation length; 0 for the full tensor")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the summary here")
    options = parser.parse_args(arguments)
    if options.values < 1 or options.rounds < 1:
        parser.error("--values and --rounds must be at least 1")
    pinned = _pin_to_one_core()
    torch.set_num_threads(1)
    codec = ThcCodec(solve(4, 30, 1 / 32), job=1, worker=0, block=options.block or None)
    summary = summarise(
        time_rounds(codec, options.values, options.rounds, options.warmup), options.values, codec.block, pinned
    )
    sys.stdout.write(table_text(summary))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(summary, indent=2) + "\n")
    return 0 if summary["holds"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
