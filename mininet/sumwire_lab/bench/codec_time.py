# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make bench-codec`: measures the time of a codec on one core. One worker's whole round, error feedback included,
stage by stage, with the native kernels and with torch in turn; no network, the sums are made beforehand. Stages are in
wall-clock time. The target is for the median round in CPU time of the one thread, which other work on the machine
changes less."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire.codec import kernels
from sumwire.codec.base import GradientCodec, staged
from sumwire.codec.feedback import ErrorFeedback
from sumwire.codec.naive import NaiveCodec
from sumwire.codec.oracles import sum_words
from sumwire.codec.sign import EfSignCodec, SsdmCodec, VoteCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tables import PUBLISHED_GRANULARITY, PUBLISHED_P, solve
from sumwire.codec.thc import BLOCK_VALUES, ThcCodec
from sumwire.codec.thc_wide import wide_codec
from sumwire.native import SWITCH
from sumwire_protocol.tables import DEFAULT_BITS

from sumwire_lab.bench.benchmark import Bench, Row, Rows
from sumwire_lab.errors import OptionError
from sumwire_lab.options.bench_options import CodecBenchOptions
from sumwire_lab.study.study import Study

STAGES: Final = ("feedback add", "begin", "encode", "decode", "residual")
CPU: Final = "cpu"
"""Key of a round's CPU time beside its stages."""
NATIVE: Final = "native"
TORCH: Final = "torch"
_T = TypeVar("_T")
Timed = list[dict[str, float]]
"""By round: milliseconds of every stage, and of CPU time."""


def available_forms(codec: GradientCodec, device: str = "cpu") -> tuple[str, ...]:
    """Return the forms that can take tensors of a device, the one in use first: native, torch. Native kernels run on
    the CPU, so for a GPU's tensors the round includes both copies. Naive quantization has no native form."""
    fits = (device == "cpu" or codec.staged) and not isinstance(codec, NaiveCodec)
    return (NATIVE, TORCH) if fits and kernels.kernels(torch.zeros(1)) is not None else (TORCH,)


def time_rounds(codec: GradientCodec, values: int, rounds: int, warmup: int, device: str = "cpu") -> dict[str, Timed]:
    """Return by form the milliseconds of every stage, and of CPU time, of each round after the first `warmup` ones."""
    generator = torch.Generator().manual_seed(7)
    gradient = torch.randn(values, generator=generator).to(device)
    forms = available_forms(codec, device)
    feedback = {form: ErrorFeedback() for form in forms}
    timed: dict[str, Timed] = {form: [] for form in forms}
    for sequence in range(warmup + rounds):
        # In turn, so that other load on the machine affects both.
        for form in forms:
            with _form(form):
                timed[form].append(_one_round(codec, gradient, feedback[form], sequence))
    return {form: rows[warmup:] for form, rows in timed.items()}


@contextmanager
def _form(form: str) -> Iterator[None]:
    before = os.environ.get(SWITCH)
    if form == TORCH:
        os.environ[SWITCH] = "0"
    try:
        yield
    finally:
        if before is not None:
            os.environ[SWITCH] = before
        elif form == TORCH:
            del os.environ[SWITCH]


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
    round_ = stage("begin", lambda: codec.begin(staged(codec, x), sequence, 0))
    words = stage("encode", lambda: round_.encode(round_.preliminary()))
    summed = _of_one_worker(codec, words)
    counts = np.ones(len(summed), np.int64)
    stage("decode", lambda: round_.decode(summed, counts).to(gradient.device))
    stage("residual", lambda: feedback.store(0, round_.residual().to(gradient.device)))
    return spent


def _of_one_worker(codec: GradientCodec, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The switch's result for one contribution: table values with THC, else the contribution itself."""
    return sum_words(codec.table, [words]) if isinstance(codec, ThcCodec | NaiveCodec) else words


# CPU milliseconds per million values, by form; other codecs have no target.
THC_TARGETS_MS: Final = {NATIVE: 2.0, TORCH: 40.0}


def bench(options: CodecBenchOptions) -> Bench:
    """Measure one codec at one size, with a row for each form: native first if it is there, then torch. Raises
    OptionError without the device."""
    block = (BLOCK_VALUES if options.block is None else options.block) or None
    if options.device == "cuda" and not torch.cuda.is_available():
        raise OptionError("device=cuda: torch finds none here: take a torch with CUDA and a GPU, or leave it out")
    case = {"codec": options.codec, "values": options.values, "device": options.device}

    def measure(_: Row) -> list[dict[str, Any]]:
        """This process stays on one core and one thread afterwards."""
        pinned = _pin_to_one_core()
        torch.set_num_threads(1)
        codec = make_codec(options.codec, block)
        timed = time_rounds(codec, options.values, options.rounds, options.warmup, options.device)
        about = {"block": block, "threads": 1, "pinned_to_one_core": pinned, "torch": torch.__version__}
        return [{**about, **summary(rounds, form, options)} for form, rounds in timed.items()]

    def record(rows: Rows) -> dict[str, Any]:
        """The row of the form in use, and all rows in `forms`."""
        return {**rows[0], "forms": {row["form"]: {name: row[name] for name in SUMMARY} for row in rows}}

    study = Study("bench-codec", "how long a codec takes on one core", [case], measure, stops=True)
    return Bench(study, record, text, lambda rows: all(row["holds"] for row in rows), needs_network=False)


SUMMARY: Final = ("form", "rounds", "stages", "min_ms", "median_ms", "cpu_median_ms", "target_ms", "holds")


def summary(timed: Timed, form: str, options: CodecBenchOptions) -> dict[str, Any]:
    """Return minimum and median by stage and of whole rounds of one form, and the verdict against the target.

    The target is for CPU tensors. Below a million values the target for a million applies, because fixed costs weigh
    more there.
    """
    totals = [sum(one[stage] for stage in STAGES) for one in timed]
    cpu = statistics.median(one[CPU] for one in timed)
    targets = THC_TARGETS_MS if (options.codec, options.device) == ("thc", "cpu") else {}
    target = targets[form] * max(1.0, options.values / 1e6) if targets else None
    by_stage = {stage: [one[stage] for one in timed] for stage in STAGES}
    stages = {name: {"min_ms": min(of), "median_ms": statistics.median(of)} for name, of in by_stage.items()}
    whole = (min(totals), statistics.median(totals), cpu, target, target is None or cpu <= target)
    return dict(zip(SUMMARY, (form, len(timed), stages, *whole), strict=True))


def text(rows: Rows) -> str:
    """Return the times of the forms, side by side."""
    heads = "".join(f"{row['form'] + ' min ms':>16}{'median ms':>12}" for row in rows)
    lines = [f"{'stage':<14}{heads}"]
    lines += [_line(stage, [row["stages"][stage] for row in rows]) for stage in STAGES]
    lines.append(_line("total", rows))
    for row in rows:
        verdict = "" if row["target_ms"] is None else f", target {row['target_ms']:.1f} ms: "
        verdict += "" if row["target_ms"] is None else "holds" if row["holds"] else "does not hold"
        cpu = f"{row['cpu_median_ms']:.2f} ms of CPU time"
        lines.append(f"{row['values']} values on one core, {row['form']}: {cpu}{verdict}")
    if len(rows) > 1:
        native, other = (row["cpu_median_ms" if row["device"] == "cpu" else "median_ms"] for row in rows)
        lines.append(f"torch / native: {other / native:.1f}")
    return "\n".join(lines)


def make_codec(name: str, block: int | None) -> GradientCodec:
    """Return one worker's codec, in a job of its own."""
    if name == "vote":
        return VoteCodec()
    if name == "ef-sign":
        return EfSignCodec(workers=1)
    if name == "ssdm":
        return SsdmCodec(job=1, worker=0)
    if name == "sum32":
        return Sum32Codec(workers=1)
    if name == "thc-wide":
        return wide_codec(workers=1, job=1, worker=0)
    return ThcCodec(solve(DEFAULT_BITS, PUBLISHED_GRANULARITY, PUBLISHED_P), job=1, worker=0, block=block)


def _line(name: str, times: Rows) -> str:
    return f"{name:<14}" + "".join(f"{one['min_ms']:>16.2f}{one['median_ms']:>12.2f}" for one in times)


def _pin_to_one_core() -> bool:
    """Keep this process on the core of its set that is named last; False where the system cannot."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return True
