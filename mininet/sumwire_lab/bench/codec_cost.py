# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of every codec on a host: milliseconds per million values to encode and decode."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, TypeVar

import torch
from sumwire.lowrank.fusion import Item
from sumwire.lowrank.matrices import MatrixState
from torch import Tensor

from sumwire_lab.bench.benchmark import Chart, PageTable, Presentation, Row, Rows, Series, Suite
from sumwire_lab.bench.codec_error import ACP_RANK, CODECS, TOP_SHARE, make_codec
from sumwire_lab.bench.codec_time import CPU, TORCH, time_rounds
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.study.study import Study

VALUES: Final = (100_000, 1_000_000, 10_000_000)
QUICK_VALUES: Final = (100_000, 1_000_000)
ROUNDS: Final = 15
QUICK_ROUNDS: Final = 4
_WARM_UP: Final = 2
_ENCODE: Final = ("feedback add", "begin", "encode")
_DECODE: Final = ("decode", "residual")
# Systems that a codec of ours is compared with.
_OTHERS: Final = ("fp16", "top-k")
# Codecs whose other form is numpy's.
_NUMPY: Final = ("sum32", "naive4")
_T = TypeVar("_T")


HOW: Final = (
    "One worker's whole round in one thread, without a network: error feedback if the system has it, encode, "
    "decode, and what is kept for later rounds. The form native is compiled C; torch gives bit-equal results "
    "in PyTorch, numpy in numpy. The columns encode and decode are medians in wall-clock time. CPU time is that "
    "of the one thread, which other load on the machine affects less. acp is one square matrix at rank 4, top-k "
    "keeps 1 %, fp16 converts to float16 and back. All times are divided by the millions of values."
)


@dataclass(frozen=True)
class CodecCost:
    """One codec and size on one device, in all forms that it has."""

    codec: str
    values: int
    device: str
    rounds: int


def study(options: BenchOptions) -> Study:
    """Return the study: one worker's round in one thread, without a network."""
    sizes, rounds = (QUICK_VALUES, QUICK_ROUNDS) if options.quick else (VALUES, ROUNDS)
    names = (*CODECS, *OTHERS)
    cases = [CodecCost(name, size, device, rounds) for device in devices() for name in names for size in sizes]
    return Study("codec-cost", "what compression costs", cases, measure)


def measure(case: CodecCost) -> list[dict[str, Any]]:
    """Return a row for each form, native (compiled C), torch or numpy, with medians in milliseconds per million values.
    `cpu_ms`: CPU time of the thread for encode and decode together."""
    with _one_thread():
        if case.codec in CODECS:
            return _codec_rows(case)
        return [_row(case, TORCH, OTHERS[case.codec](case))]


def left_out(_: BenchOptions) -> list[str]:
    """Return a note if this machine has no GPU."""
    return [] if torch.cuda.is_available() else ["GPU: this machine has none that PyTorch can use."]


def present(rows: Rows) -> Presentation:
    """Present a table and a chart for each device."""
    found = list(dict.fromkeys(row["device"] for row in rows))
    return Presentation(
        tables=tuple(_table(device, rows) for device in found),
        charts=tuple(_chart(device, rows) for device in found),
        behind=tuple(sentence for device in found for sentence in _behind(device, rows)),
    )


CODEC_COST: Final = Suite(
    "codec-cost",
    "What compression costs",
    "How long does a host compute to compress a gradient and to restore the sum?",
    HOW,
    study,
    present,
    left_out,
)


def devices() -> tuple[str, ...]:
    """Return the devices of this machine on which codecs can run."""
    return ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


Spent = Mapping[str, float]


def _codec_rows(case: CodecCost) -> list[dict[str, Any]]:
    codec = make_codec(case.codec, 0, 1)
    timed = time_rounds(codec, case.values, case.rounds, _WARM_UP, case.device)
    if case.codec in _NUMPY:
        timed = {"numpy" if form == TORCH else form: rounds for form, rounds in timed.items()}
    return [_row(case, form, [_stages(one) for one in rounds]) for form, rounds in timed.items()]


def _stages(spent: Spent) -> Spent:
    encode, decode = (sum(spent[stage] for stage in stages) for stages in (_ENCODE, _DECODE))
    return {"encode": encode, "decode": decode, CPU: spent[CPU]}


def _row(case: CodecCost, form: str, rounds: Sequence[Spent]) -> dict[str, Any]:
    encode, decode, cpu = (
        median(one[what] for one in rounds) * 1e6 / case.values for what in ("encode", "decode", CPU)
    )
    about = {"codec": case.codec, "form": form, "device": case.device, "values": case.values}
    return {**about, "encode_ms": encode, "decode_ms": decode, "cpu_ms": cpu}


def _timed(case: CodecCost, encode: Callable[[int], _T], decode: Callable[[_T], object]) -> list[Spent]:
    """Milliseconds of each round after the warm-up. `encode` gets the round's number."""
    rounds: list[Spent] = []
    for number in range(_WARM_UP + case.rounds):
        clocks = [_clocks(case.device)]
        sent = encode(number)
        clocks.append(_clocks(case.device))
        decode(sent)
        clocks.append(_clocks(case.device))
        (began, cpu_began), (between, _), (ended, cpu_ended) = clocks
        rounds.append(
            {
                "encode": 1e3 * (between - began),
                "decode": 1e3 * (ended - between),
                CPU: 1e3 * (cpu_ended - cpu_began),
            }
        )
    return rounds[_WARM_UP:]


def _clocks(device: str) -> tuple[float, float]:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter(), time.thread_time()


def _gradient(case: CodecCost) -> Tensor:
    return torch.randn(case.values, generator=torch.Generator().manual_seed(7)).to(case.device)


def _acp(case: CodecCost) -> list[Spent]:
    """ACP-SGD with the largest square matrix that has at most so many values."""
    side = int(case.values**0.5)
    gradient = _gradient(case)[: side * side].view(side, side)
    parameter = torch.empty_like(gradient)
    state = MatrixState(Item((side, side), ACP_RANK, 4), parameter, seed=1, number=0)

    def decode(sent: Tensor) -> None:
        state.restore(sent, torch.zeros_like(sent), parameter)
        state.commit()

    return _timed(case, lambda step: state.compress(gradient, step), decode)


def _fp16(case: CodecCost) -> list[Spent]:
    gradient = _gradient(case)
    return _timed(case, lambda _: gradient.half(), lambda sent: sent.float())


def _top(case: CodecCost) -> list[Spent]:
    """Top-k with error feedback, as in `sumwire.systems.baselines`."""
    gradient, memory = _gradient(case), torch.zeros(case.values, device=case.device)
    result = torch.empty_like(memory)
    count = max(1, int(TOP_SHARE * case.values))

    def encode(_: int) -> tuple[Tensor, Tensor]:
        memory.add_(gradient)
        places = memory.abs().topk(count).indices
        return places.int(), memory[places]

    def decode(sent: tuple[Tensor, Tensor]) -> None:
        places = sent[0].long()
        memory[places] = 0.0
        result.zero_().index_add_(0, places, sent[1])

    return _timed(case, encode, decode)


OTHERS: Final[Mapping[str, Callable[[CodecCost], list[Spent]]]] = {"acp": _acp, "fp16": _fp16, "top-k": _top}
"""Systems without a codec of the library."""


def _table(device: str, rows: Rows) -> PageTable:
    here = [row for row in rows if row["device"] == device]
    largest = max(row["values"] for row in here)
    head = ("codec", "form", "encode, ms", "decode, ms", "both, ms of CPU time")
    cells = tuple(
        (row["codec"], row["form"], f"{row['encode_ms']:.2f}", f"{row['decode_ms']:.2f}", f"{row['cpu_ms']:.2f}")
        for row in here
        if row["values"] == largest
    )
    return PageTable(f"Milliseconds a million values, tensors of {largest:,} values, {device}", head, cells)


def _cost(row: Row) -> float:
    """CPU time, which other load on the machine affects least; for a GPU the wall-clock time."""
    return float(row["cpu_ms"] if row["device"] == "cpu" else row["encode_ms"] + row["decode_ms"])


def _chart(device: str, rows: Rows) -> Chart:
    """Cost over size, for the form of each codec that is in use (the first one)."""
    lines: dict[str, dict[int, float]] = {}
    for row in rows:
        if row["device"] == device:
            lines.setdefault(row["codec"], {}).setdefault(row["values"], _cost(row))
    series = tuple(
        Series(name, tuple((float(values), cost) for values, cost in sorted(line.items())))
        for name, line in lines.items()
    )
    title = f"Cost over the tensor's size, {device}"
    y_label = f"encode + decode, ms{' of CPU time' if device == 'cpu' else ''} a million values"
    return Chart(title, "values in the tensor", y_label, series, log_x=True, log_y=True)


def _behind(device: str, rows: Rows) -> list[str]:
    """Sentences on codecs that cost more than fp16 or top-k at the largest size."""
    here = [row for row in rows if row["device"] == device]
    largest = max(row["values"] for row in here)
    cost: dict[str, float] = {}
    for row in here:
        if row["values"] == largest:
            cost.setdefault(row["codec"], _cost(row))
    sentences = []
    for other in (name for name in _OTHERS if name in cost):
        dearer = [f"{name} ({cost[name]:.1f})" for name in cost if name not in _OTHERS and cost[name] > cost[other]]
        if dearer:
            words = f"{', '.join(dearer)} than {other} ({cost[other]:.1f})"
            sentences.append(f"Compression on the {device} takes more milliseconds a million values by {words}.")
    return sentences
