# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Times one worker's whole round with a codec, stage by stage, with the native kernels and with torch in turn.

No network: the sums are made beforehand.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire.codec import kernels
from sumwire.codec.base import GradientCodec
from sumwire.codec.feedback import ErrorFeedback
from sumwire.codec.oracles import sum_words
from sumwire.codec.staging import staged
from sumwire.codec.thc import ThcCodec
from sumwire.native import SWITCH

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
