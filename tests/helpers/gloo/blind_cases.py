# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks of the tests of blind jobs do. Each function runs on every rank and returns plain data."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import sumwire
import torch
from helpers.gloo.control_cases import text_of
from helpers.gloo.ddp_cases import open_job
from helpers.logs import logged
from numpy.typing import NDArray
from sumwire.blind.masks import Masks
from sumwire.job.job import Job
from torch import Tensor

# Bits are compared with those of another job: neither may fall back on a busy machine.
PATIENCE_S = 20.0


def tensor(rank: int, step: int, length: int) -> Tensor:
    """Gradients that differ between the workers, and whose norms jump in step 3."""
    drawn = torch.randn(length, generator=torch.Generator().manual_seed(97 * step + rank))
    return drawn * (40.0 if step == 3 and rank == 1 else 1 + step / 50)


def _bits(x: Tensor) -> bytes:
    return x.detach().numpy().tobytes()


def _mean(job: Job, codec: str, x: Tensor, bucket: int) -> tuple[bytes, bytes]:
    chosen = job._sum32 if codec == "sum32" else job._thc_for("")
    mean, residual = job.reduce_with(chosen, x, bucket)
    return _bits(mean), _bits(residual())


def means(rank: int, mapping: dict[str, Any], lengths: list[int], steps: int) -> dict[str, Any]:
    """Bits of all means and residuals, by THC and SUM32, of every length in every step."""
    found = []
    with logged() as lines, open_job(rank, mapping, one_trip=False, silence_s=PATIENCE_S) as job:
        for step in range(steps):
            for bucket, length in enumerate(lengths):
                x = tensor(rank, step, length)
                found += [_mean(job, codec, x, bucket) for codec in ("thc", "sum32")]
        return {"found": found, "stats": job.stats.as_dict(), "lines": lines}


def not_finite(rank: int, mapping: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    x = tensor(rank, 0, 5000)
    if rank == 2:
        x[1234] = torch.nan
    with open_job(rank, mapping, silence_s=PATIENCE_S) as job:
        return [_mean(job, codec, x, 0) for codec in ("thc", "sum32")]


def other_operations(rank: int, mapping: dict[str, Any]) -> list[bytes]:
    """Bits of what is no mean."""
    drawn = np.random.default_rng(rank)
    found: list[NDArray[Any]] = []
    with open_job(rank, mapping, silence_s=PATIENCE_S) as job:
        extremes = drawn.integers(0, 1 << 32, 300, np.uint32)
        found += [job.max32(extremes), job.min32(extremes)]
        found += [job.sum32(drawn.integers(-(2**29), 2**29, 1000).astype(np.int32))]
        found += [job.vote(torch.from_numpy(drawn.integers(0, 2, 5000) > 0)).numpy()]
        found += [job.mean(tensor(rank, 0, 700).double()).numpy(), job.mean(torch.zeros(0)).numpy()]
        found += [np.array([job.all_finite(rank != 1)])]
        try:
            job.sum32(np.full(3, 2**30, np.int32))
        except sumwire.SumOverflowError as error:
            found += [np.frombuffer(text_of(error).encode(), np.uint8)]
    return [each.tobytes() for each in found]


def one_mean(rank: int, mapping: dict[str, Any], codec: str, length: int) -> tuple[bytes, bytes]:
    with open_job(rank, mapping, silence_s=PATIENCE_S) as job:
        return _mean(job, codec, tensor(rank, 0, length), 0)


def error_of_means(rank: int, mapping: dict[str, Any], codec: str) -> str:
    """The error of three means."""
    try:
        with open_job(rank, mapping) as job:
            for step in range(3):
                _mean(job, codec, tensor(rank, step, 1500), 0)
    except sumwire.SumwireError as error:
        return text_of(error)
    return ""


def jumping_means(rank: int, mapping: dict[str, Any], codec: str, length: int, factor: float) -> list[Any]:
    """Means of one length, of which worker 1's last tensor is multiplied by ``factor``. Returns the payload that this
    worker has masked in the last of them, by its chunk's number."""
    hide, hidden = Masks.hide, list[Any]()

    def kept(self: Masks, sequence: int, payload: NDArray[np.uint8]) -> None:
        hidden.extend((sequence + k, row.tobytes()) for k, row in enumerate(payload))
        hide(self, sequence, payload)

    with open_job(rank, mapping, silence_s=PATIENCE_S) as job, patch.object(Masks, "hide", kept):
        for step in range(4):
            hidden.clear()
            drawn = torch.randn(length, generator=torch.Generator().manual_seed(97 * step + rank))
            _mean(job, codec, drawn * (factor if (rank, step) == (1, 3) else 1.0), 0)
    return hidden


def refusals(rank: int, mapping: dict[str, Any], options: dict[str, Any]) -> list[str]:
    """The errors of what a blind job cannot do; the first one ends it if the job itself cannot be."""
    try:
        job = open_job(rank, mapping, **options)
    except sumwire.SumwireError as error:
        return [text_of(error)]
    found = []
    with job:
        signs, x = torch.ones(10, dtype=torch.bool), torch.ones(10)
        calls: list[Callable[[], object]] = [
            lambda: job.sign_merge(signs),
            lambda: job.merged_signs(x),
            lambda: job.reduce(x, tag=lambda norms: np.zeros(len(norms), np.uint8)),
        ]
        for call in calls:
            try:
                call()
            except sumwire.SumwireError as error:
                found.append(text_of(error))
        assert float(job.mean(x)[0]) == 1.0, "the job stays usable"
    return found


def until_one_leaves(rank: int, mapping: dict[str, Any], leaver: int, killed: bool) -> str:
    """One rank ends after two operations; the error of the others."""
    try:
        with open_job(rank, mapping) as job:
            for step in range(4):
                if step == 2 and rank == leaver:
                    if killed:
                        os.kill(os.getpid(), signal.SIGKILL)
                    job.close(agree=False)
                    return ""
                job.reduce(tensor(rank, step, 5000))
    except sumwire.SumwireError as error:
        return text_of(error)
    return "no error"


def until_returned(rank: int, mapping: dict[str, Any], after: int) -> list[tuple[bytes, bytes]]:
    """Means until ``after`` have been made since the return to the switch; those of equal input."""
    found = []
    with open_job(rank, mapping) as job:
        while not job.stats.returns or after:
            after -= job.stats.returns > 0
            found.append(_mean(job, "sum32", tensor(rank, 0, 2000), 0))
    return found
