# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules for jobs, results and codecs: what a job must have, what a blind job cannot do, which codecs a job can use, and
what a reduction does with NaN and infinity.

A result has the same bits on all workers, so each worker checks its own copy, and all come to the same conclusion. The
switch uses the job's table and number of workers, so a codec that the caller passes must be made for these.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Final, Literal

import torch
from torch import Tensor

from sumwire.codec.tables import ThcTable
from sumwire.codec.tensors import all_finite
from sumwire.codec.thc import ThcCodec
from sumwire.config import JobConfig
from sumwire.errors import ConfigError, NonFiniteError, UsageError
from sumwire.job.operations import require
from sumwire.numeric import is_number
from sumwire.transport.options import Delivery

NonFinite = Literal["propagate", "raise"]
CHOICES: Final = ("propagate", "raise")


def result_check(nonfinite: NonFinite) -> Callable[[Tensor, int], Tensor]:
    """Return the function that takes the result of a reduction and its bucket, and returns the result.

    With "raise" it raises NonFiniteError for a result with NaN or infinity. Raises UsageError for any other choice.
    """
    if nonfinite not in CHOICES:
        raise UsageError(f"nonfinite = {nonfinite!r}: must be one of {', '.join(map(repr, CHOICES))}")
    return refuse_nonfinite if nonfinite == "raise" else _pass


def refuse_unless(finite: bool) -> None:
    """Raise NonFiniteError if ``finite``, the workers' common finding about their values, is False."""
    if not finite:
        refuse_nonfinite(torch.tensor([torch.nan], device="cpu"), 0)


def _pass(result: Tensor, bucket: int) -> Tensor:
    return result


def refuse_nonfinite(result: Tensor, bucket: int) -> Tensor:
    """Return the result of a reduction. Raises NonFiniteError if it has NaN or infinity."""
    if not all_finite(result):
        raise NonFiniteError(
            f"bucket {bucket}: the gradients of some worker hold NaN or infinity: must be finite; "
            'lower the learning rate or the loss scale, or set nonfinite="propagate" and let GradScaler skip such steps'
        )
    return result


def thc_codec(config: JobConfig, block: int | None) -> ThcCodec | None:
    """Return the codec of a job's table; None for a job without THC. ``block``: the length of a rotation."""
    if config.thc is None:
        return None
    return ThcCodec(ThcTable.of(config.thc), job=config.job, worker=config.worker, block=block)


def check_job(config: JobConfig, **times: float) -> None:
    """Raise ConfigError for a job without max32, a quorum in a tree of switches, or a time that is not above 0."""
    where = f"job {config.name}"
    require(config, ("max32",), "with which workers greet each other")
    if config.quorum != config.workers and len(config.seats) != config.workers:
        rule = f"must be {config.workers}, all workers: in a tree of switches, one left out could not catch up"
        raise ConfigError("quorum", config.quorum, rule, where=where)
    for name, seconds in times.items():
        if not (is_number(seconds) or seconds == math.inf) or seconds <= 0:
            rule = "must be a number of seconds above 0"
            raise ConfigError(name, seconds, rule, where=where, cure=f"leave {name} out for the default")


def check_blind(config: JobConfig, delivery: Delivery | None, *, grouped: bool) -> None:
    """Raise ConfigError if a job cannot be blind. ``config``: the run's. ``grouped``: the job has a process group."""
    if not config.blind:
        return
    where = f"job {config.name}"
    if config.workers < 2:
        raise ConfigError("workers", config.workers, "must be 2 or more: one worker's sum is its own", where=where)
    if "sum32" not in config.ops:
        raise ConfigError("ops", config.ops, "must have sum32, which sums what is masked", where=where)
    if config.quorum != config.workers:
        rule = f"must be {config.workers}, all workers: masks only cancel in the sum of all of them"
        raise ConfigError("quorum", config.quorum, rule, where=where)
    if delivery is not None and delivery.loss_bound:
        rule = "must be 0 in a blind job: masks only cancel in the sum of all workers"
        raise ConfigError("loss_bound", delivery.loss_bound, rule, where=where)
    if not grouped:
        rule = "must be false without a process group, in which workers agree on keys"
        raise ConfigError("blind", True, rule, where=where, cure="call torch.distributed.init_process_group first")
    if importlib.util.find_spec("cryptography") is None:
        rule = "must be false without the package cryptography"
        raise ConfigError("blind", True, rule, where=where, cure="pip install 'sumwire[blind]' on every worker")
