# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How long a codec takes on one core: `make bench-codec`.

One worker's whole round, error feedback included, stage by stage, with the native kernels and with torch in turn; no
network, the sums are made beforehand. Stages are in wall-clock time. The target is for the median round in CPU time
of the one thread, which other work on the machine changes less.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire.codec import kernels
from sumwire.codec.base import GradientCodec, staged
from sumwire.codec.feedback import ErrorFeedback
from sumwire.codec.oracles import sum_words
from sumwire.codec.sign import EfSignCodec, SsdmCodec, VoteCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tables import PUBLISHED_GRANULARITY, solve
from sumwire.codec.thc import BLOCK_VALUES, ThcCodec
from sumwire.codec.thc_wide import wide_codec
from sumwire.native import SWITCH
from sumwire_protocol.tables import DEFAULT_BITS, DEFAULT_P

from sumwire_lab.bench.benchmark import BenchCommand, BenchContext
from sumwire_lab.errors import OptionError
from sumwire_lab.options.bench_options import CodecBenchOptions

STAGES: Final = ("feedback add", "begin", "encode", "decode", "residual")
CPU: Final = "cpu"
"""Key of a round's CPU time beside its stages."""
NATIVE: Final = "native"
TORCH: Final = "torch"
_T = TypeVar("_T")
Timed = list[dict[str, float]]
"""By round: milliseconds of every stage, and of CPU time."""


def available_forms(codec: GradientCodec, device: str = "cpu") -> tuple[str, ...]:
    """Forms that can take tensors of a device, the one in use first: native, torch. Native kernels are the processor's:
    of a GPU's tensors, the copies both ways are part of the round."""
    fits = device == "cpu" or codec.staged
    return (NATIVE, TORCH) if fits and kernels.kernels(torch.zeros(1)) is not None else (TORCH,)


def time_rounds(codec: GradientCodec, values: int, rounds: int, warmup: int, device: str = "cpu") -> dict[str, Timed]:
    """By form: milliseconds of every stage, and of CPU time, of each round after the first `warmup` ones."""
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
    return sum_words(codec.table, [words]) if isinstance(codec, ThcCodec) else words


# CPU milliseconds per million values, by form; other codecs have no target.
THC_TARGETS_MS: Final = {NATIVE: 2.0, TORCH: 40.0}


@dataclass(frozen=True)
class CodecCase:
    """One codec at one size; all forms that this machine has."""

    codec: str
    values: int
    device: str

    @property
    def label(self) -> str:
        return f"{self.codec}, {self.values:,} values, {self.device}"


@dataclass(frozen=True)
class CodecTime:
    """Minimum and median by stage and of whole rounds of one form, and the verdict against the target.

    Below a million values the target is that of a million, because fixed costs weigh more there.
    """

    form: str
    rounds: int
    stages: Mapping[str, Mapping[str, float]]
    min_ms: float
    median_ms: float
    cpu_median_ms: float
    target_ms: float | None
    holds: bool

    @classmethod
    def of(cls, timed: Timed, form: str, case: CodecCase) -> CodecTime:
        """Out of the rounds of one form. Targets are for tensors of a processor."""
        totals = [sum(one[stage] for stage in STAGES) for one in timed]
        cpu = statistics.median(one[CPU] for one in timed)
        targets = THC_TARGETS_MS if (case.codec, case.device) == ("thc", "cpu") else {}
        target = targets[form] * max(1.0, case.values / 1e6) if targets else None
        by_stage = {stage: [one[stage] for one in timed] for stage in STAGES}
        return cls(
            form=form,
            rounds=len(timed),
            stages={
                stage: {"min_ms": min(times), "median_ms": statistics.median(times)}
                for stage, times in by_stage.items()
            },
            min_ms=min(totals),
            median_ms=statistics.median(totals),
            cpu_median_ms=cpu,
            target_ms=target,
            holds=target is None or cpu <= target,
        )


class CodecCommand(BenchCommand[CodecBenchOptions, CodecCase, CodecTime]):
    """One row per form: native first if it is there, then torch."""

    name: ClassVar = "bench-codec"
    needs_network = False

    def __init__(self, options: CodecBenchOptions) -> None:
        super().__init__(options)
        self._block = (BLOCK_VALUES if options.block is None else options.block) or None
        self._pinned = False

    def plan(self) -> list[CodecCase]:
        """See BenchCommand."""
        return [CodecCase(self.options.codec, self.options.values, self.options.device)]

    def measure(self, case: CodecCase, context: BenchContext) -> list[CodecTime]:
        """See Benchmark. This process stays on one core and one thread afterwards. Raises OptionError without the
        device."""
        if case.device == "cuda" and not torch.cuda.is_available():
            raise OptionError("device=cuda: torch finds none here: take a torch with CUDA and a GPU, or leave it out")
        self._pinned = _pin_to_one_core()
        torch.set_num_threads(1)
        codec = make_codec(case.codec, self._block)
        timed = time_rounds(codec, case.values, self.options.rounds, self.options.warmup, case.device)
        return [CodecTime.of(rounds, form, case) for form, rounds in timed.items()]

    def record(self, rows: Sequence[CodecTime]) -> dict[str, Any]:
        """The row of the form in use, and all rows in `forms`."""
        return {
            "codec": self.options.codec,
            "values": self.options.values,
            "device": self.options.device,
            "block": self._block,
            "threads": torch.get_num_threads(),
            "pinned_to_one_core": self._pinned,
            "torch": torch.__version__,
            **asdict(rows[0]),
            "forms": {row.form: asdict(row) for row in rows},
        }

    def text(self, rows: Sequence[CodecTime]) -> str:
        """The forms side by side."""
        heads = "".join(f"{row.form + ' min ms':>16}{'median ms':>12}" for row in rows)
        lines = [f"{'stage':<14}{heads}"]
        for stage in STAGES:
            lines.append(_line(stage, [(row.stages[stage]["min_ms"], row.stages[stage]["median_ms"]) for row in rows]))
        lines.append(_line("total", [(row.min_ms, row.median_ms) for row in rows]))
        for row in rows:
            verdict = "" if row.target_ms is None else f", target {row.target_ms:.1f} ms: "
            verdict += "" if row.target_ms is None else "holds" if row.holds else "does not hold"
            values = self.options.values
            lines.append(f"{values} values on one core, {row.form}: {row.cpu_median_ms:.2f} ms of CPU time{verdict}")
        if len(rows) > 1:
            native, other = ((row.cpu_median_ms if self.options.device == "cpu" else row.median_ms) for row in rows)
            lines.append(f"torch / native: {other / native:.1f}")
        return "\n".join(lines)

    def holds(self, rows: Sequence[CodecTime]) -> bool:
        """Whether every form meets its target."""
        return all(row.holds for row in rows)


def make_codec(name: str, block: int | None) -> GradientCodec:
    """One worker's codec, in a job of its own."""
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
    return ThcCodec(solve(DEFAULT_BITS, PUBLISHED_GRANULARITY, DEFAULT_P), job=1, worker=0, block=block)


def _line(name: str, times: Sequence[tuple[float, float]]) -> str:
    return f"{name:<14}" + "".join(f"{least:>16.2f}{middle:>12.2f}" for least, middle in times)


def _pin_to_one_core() -> bool:
    """Keep this process on the core of its set that is named last; False where the system cannot."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return True
