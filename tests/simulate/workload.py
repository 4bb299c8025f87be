# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What each worker gives to a step, and what the result must be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire.job.job import Job

from simulate.schedule import Schedule, Step

_CHUNK: Final = 1024
# Chunks of a packet of 8192 values.
_LONG: Final = 8


@dataclass
class Got:
    """What a worker has got from one step. ``residual``: of a gradient, what the mean lacks of the worker's own."""

    result: NDArray[Any]
    residual: NDArray[np.float32] | None = None
    followed: bool = False
    fell_back: bool = False


def given(seed: int, run: int, number: int, worker: int, step: Step) -> NDArray[Any]:
    """A worker's values for a step of one run of the job."""
    rng = np.random.default_rng((seed, run, number, worker))
    if step.op in ("max32", "min32"):
        return rng.integers(0, 2**32, step.values, np.uint32)
    if step.op == "sum32":
        return rng.integers(-(2**27), 2**27, step.values, np.int32)
    if step.op in ("vote", "sign_merge"):
        return rng.integers(0, 2, step.values).astype(np.bool_)
    return (rng.standard_normal(step.values) * 10.0 ** rng.integers(-3, 3)).astype(np.float32)


def exchanged(seed: int, run: int, number: int, step: Step, block: int) -> NDArray[np.bool_]:
    """Which values of a step workers 0 and 1 have exchanged: whole blocks where a block is encoded as one."""
    unit = block if step.op == "reduce" else 1
    drawn = np.random.default_rng((seed, run, number, 77)).integers(0, 2, -(-step.values // unit)) != 0
    return np.repeat(drawn, unit)[: step.values]


def carry_out(job: Job, step: Step, values: NDArray[Any]) -> Got:
    """The call itself."""
    fell_back = job.fallen_back
    if step.op == "reduce":
        if job.config.quorum < job.workers and job.results_ahead():
            mean = job.follow(step.values, step.bucket)
            return Got(mean.numpy().copy(), values, followed=True)
        mean, residual = job.reduce(torch.from_numpy(values), step.bucket)
        return Got(mean.numpy().copy(), residual().numpy().copy(), fell_back=fell_back)
    if step.op in ("max32", "min32", "sum32"):
        return Got(np.array(getattr(job, step.op)(values, step.bucket)), fell_back=fell_back)
    result = getattr(job, step.op)(torch.from_numpy(values), step.bucket)
    return Got(result.numpy().copy(), fell_back=fell_back)


def wrong(schedule: Schedule, step: Step, inputs: list[NDArray[Any]], got: dict[int, Got]) -> str:
    """What is wrong with the results of one step, by worker; "" if nothing."""
    workers = sorted(got)
    first = got[workers[0]].result
    for worker in workers[1:]:
        if got[worker].result.tobytes() != first.tobytes():
            return f"the results of workers {workers[0]} and {worker} differ"
    if step.op == "reduce":
        return _wrong_mean(schedule, first, inputs, got)
    stacked = np.stack(inputs)
    if step.op == "mean":
        right = stacked.astype(np.float64).mean(0)
        if not np.allclose(first, right, rtol=1e-4, atol=float(np.abs(stacked).max()) * 1e-4):
            return f"the mean is wrong by {np.abs(first - right).max()}"
        return ""
    if step.op == "sign_merge":
        mixed = stacked.any(0) & ~stacked.all(0)
        return "" if (mixed | (first == stacked[0])).all() else "a sign is no worker's"
    right = {
        "max32": lambda: stacked.max(0),
        "min32": lambda: stacked.min(0),
        "sum32": lambda: stacked.sum(0, dtype=np.int64),
        "vote": lambda: 2 * stacked.sum(0) >= len(inputs),
    }[step.op]()
    return "" if np.array_equal(first, right) else f"{step.op} is not the workers'"


def _wrong_mean(schedule: Schedule, mean: NDArray[Any], inputs: list[NDArray[Any]], got: dict[int, Got]) -> str:
    """What the workers gave is in the mean or in their residuals. A chunk's sum may lack some of them."""
    workers, terms = schedule.workers, schedule.terms
    if len(got) < workers or terms.cuts:
        return ""
    taken = np.zeros(len(mean))
    for worker, one in got.items():
        taken += inputs[worker].astype(np.float64) - (0.0 if one.residual is None else one.residual)
    scale = max(float(np.abs(np.stack(inputs)).max()), 1e-30)
    missing, chunks = 0, math.ceil(len(mean) / _CHUNK)
    # What is missing is missing with its packet.
    size = _LONG if terms.long_packets and chunks >= _LONG else 1
    least = 1 if schedule.loss_bound or terms.degrade else min(terms.quorum, workers)
    for chunk in range(chunks):
        part = slice(chunk * _CHUNK, (chunk + 1) * _CHUNK)
        for count in range(workers, least - 1, -1):
            if np.allclose(taken[part], count * mean[part].astype(np.float64), rtol=0, atol=scale * workers * 2e-5):
                missing += workers - count if chunk % size == 0 else 0
                break
        else:
            off = np.abs(taken[part] - workers * mean[part]).max()
            return f"chunk {chunk}: means and residuals do not add up to what was given: off by {off} of {scale}"
    bound = schedule.loss_bound
    packets = math.ceil(chunks / size)
    if bound and terms.quorum == workers and not terms.degrade and missing > math.floor(bound * packets * workers):
        return f"{missing} contributions of {packets} packets are missing, the bound is {bound}"
    return ""
