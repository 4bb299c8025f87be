# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How long a codec takes on one core: `python -m sumwire_lab.bench.commands.codec --values 1000000 --json out.json`.

One worker's whole round, error feedback included, stage by stage, by the native kernels and by torch in turn; the
network is left out, its sums are made beforehand. Stages are in wall-clock time. The verdict takes the median round in
CPU time of the one thread: what a core spends, whoever else wants it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire.codec import kernels
from sumwire.codec.base import GradientCodec
from sumwire.codec.feedback import ErrorFeedback
from sumwire.codec.oracles import sum_words
from sumwire.codec.sign import EfSignCodec, SsdmCodec, VoteCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tables import DEFAULT_BITS, DEFAULT_GRANULARITY, DEFAULT_P, solve
from sumwire.codec.thc import BLOCK_VALUES, ThcCodec

STAGES: Final = ("feedback add", "begin", "encode", "decode", "residual")
# Key of a round's CPU time beside its stages.
CPU: Final = "cpu"
NATIVE: Final = "native"
TORCH: Final = "torch"
# CPU milliseconds a million values, by form; other codecs have no target.
THC_TARGETS_MS: Final = {NATIVE: 15.0, TORCH: 40.0}
_T = TypeVar("_T")
Timed = list[dict[str, float]]


CODECS: Final = ("thc", "vote", "ef-sign", "ssdm", "sum32")


def make_codec(name: str, block: int | None) -> GradientCodec:
    """One worker's codec, in a job of its own."""
    if name == "vote":
        return VoteCodec()
    if name == "ef-sign":
        return EfSignCodec(worker=0, workers=1)
    if name == "ssdm":
        return SsdmCodec(job=1, worker=0)
    if name == "sum32":
        return Sum32Codec(workers=1)
    return ThcCodec(solve(DEFAULT_BITS, DEFAULT_GRANULARITY, DEFAULT_P), job=1, worker=0, block=block)


def available_forms(device: str = "cpu") -> tuple[str, ...]:
    """The form that is used there, and torch."""
    return (TORCH,) if kernels.kernels(torch.zeros(1, device=device)) is None else (NATIVE, TORCH)


def time_rounds(codec: GradientCodec, values: int, rounds: int, warmup: int, device: str = "cpu") -> dict[str, Timed]:
    """By form: milliseconds of every stage, and of CPU time, of each round after the first `warmup` ones."""
    generator = torch.Generator().manual_seed(7)
    gradient = torch.randn(values, generator=generator).to(device)
    forms = available_forms(device)
    feedback = {form: ErrorFeedback() for form in forms}
    timed: dict[str, Timed] = {form: [] for form in forms}
    for sequence in range(warmup + rounds):
        # In turn, so that what else the machine does falls on both.
        for form in forms:
            with _form(form):
                timed[form].append(_one_round(codec, gradient, feedback[form], sequence))
    return {form: rows[warmup:] for form, rows in timed.items()}


@contextmanager
def _form(form: str) -> Iterator[None]:
    before = os.environ.get(kernels.SWITCH)
    if form == TORCH:
        os.environ[kernels.SWITCH] = "0"
    try:
        yield
    finally:
        if before is not None:
            os.environ[kernels.SWITCH] = before
        elif form == TORCH:
            del os.environ[kernels.SWITCH]


def _one_round(
    codec: GradientCodec, gradient: torch.Tensor, feedback: ErrorFeedback, sequence: int
) -> dict[str, float]:
    spent: dict[str, float] = {}

    def stage(name: str, step: Callable[[], _T]) -> _T:
        start, cpu_start = time.perf_counter(), time.thread_time()
        result = step()
        if gradient.is_cuda:
            torch.cuda.synchronize(gradient.device)
        spent[CPU] = spent.get(CPU, 0.0) + (time.thread_time() - cpu_start) * 1e3
        spent[name] = (time.perf_counter() - start) * 1e3
        return result

    x = stage("feedback add", lambda: feedback.compensate(0, gradient))
    round_ = stage("begin", lambda: codec.begin(x, sequence, 0))
    words = stage("encode", lambda: round_.encode(round_.preliminary()))
    summed = _of_one_worker(codec, words)
    counts = np.ones(len(summed), np.int64)
    stage("decode", lambda: round_.decode(summed, counts))
    stage("residual", lambda: feedback.store(0, round_.residual()))
    return spent


def _of_one_worker(codec: GradientCodec, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """What the switch makes of one contribution: table values where there is a table, else the same."""
    return sum_words(codec.table, [words]) if isinstance(codec, ThcCodec) else words


def summarise(timed: Timed, form: str, name: str, values: int) -> dict[str, Any]:
    """Minimum and median by stage and of whole rounds of one form, and the verdict against the target.

    Below a million values the target stays that of a million: fixed costs weigh more there.
    """
    totals = [sum(one[stage] for stage in STAGES) for one in timed]
    cpu = statistics.median(one[CPU] for one in timed)
    target = THC_TARGETS_MS[form] * max(1.0, values / 1e6) if name == "thc" else None
    stages = {
        stage: {
            "min_ms": min(one[stage] for one in timed),
            "median_ms": statistics.median(one[stage] for one in timed),
        }
        for stage in STAGES
    }
    return {
        "form": form,
        "rounds": len(timed),
        "stages": stages,
        "min_ms": min(totals),
        "median_ms": statistics.median(totals),
        "cpu_median_ms": cpu,
        "target_ms": target,
        "holds": target is None or cpu <= target,
    }


def table_text(summaries: Sequence[dict[str, Any]], values: int) -> str:
    """The forms side by side, for people."""
    heads = "".join(f"{one['form'] + ' min ms':>16}{'median ms':>12}" for one in summaries)
    lines = [f"{'stage':<14}{heads}"]
    for stage in (*STAGES, "total"):
        rows = [one if stage == "total" else one["stages"][stage] for one in summaries]
        lines.append(f"{stage:<14}" + "".join(f"{row['min_ms']:>16.2f}{row['median_ms']:>12.2f}" for row in rows))
    for one in summaries:
        verdict = "" if one["target_ms"] is None else f", target {one['target_ms']:.1f} ms: "
        verdict += "" if one["target_ms"] is None else "holds" if one["holds"] else "does not hold"
        lines.append(f"{values} values on one core, {one['form']}: {one['cpu_median_ms']:.2f} ms of CPU time{verdict}")
    if len(summaries) > 1:
        lines.append(f"torch / native: {summaries[1]['cpu_median_ms'] / summaries[0]['cpu_median_ms']:.1f}")
    return "\n".join(lines) + "\n"


def _pin_to_one_core() -> bool:
    """Keep this process on the core of its set that is named last; False where the system cannot."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 if the targets are met, else 1."""
    parser = argparse.ArgumentParser(description="time a codec's encode and decode on one core")
    parser.add_argument("--codec", choices=CODECS, default="thc")
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--block", type=int, default=BLOCK_VALUES, help="THC: rotation length; 0 for the full tensor")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the summary here")
    options = parser.parse_args(arguments)
    if options.values < 1 or options.rounds < 1:
        parser.error("--values and --rounds must be at least 1")
    pinned = _pin_to_one_core()
    torch.set_num_threads(1)
    codec = make_codec(options.codec, options.block or None)
    timed = time_rounds(codec, options.values, options.rounds, options.warmup)
    summaries = [summarise(rows, form, options.codec, options.values) for form, rows in timed.items()]
    sys.stdout.write(table_text(summaries, options.values))
    if options.json is not None:
        record = {
            "codec": options.codec,
            "values": options.values,
            "block": options.block or None,
            "threads": torch.get_num_threads(),
            "pinned_to_one_core": pinned,
            "torch": torch.__version__,
            # That of the form in use; both are in "forms".
            **summaries[0],
            "forms": {one["form"]: one for one in summaries},
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    return 0 if all(one["holds"] for one in summaries) else 1


if __name__ == "__main__":
    raise SystemExit(main())
