# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains with signs alone, known to be bad: each row about accuracy must tell it from a good training.

A value is sent as its sign, of one size for all of a worker's: an eighth of the root mean square. What that leaves out
of a gradient stays left out, as there is no error feedback. Adam makes up for the size, and learns text by such signs;
so where the task's optimizer is Adam, signs are drawn: without bias, of the largest magnitude.
"""

# No annotations from the future: DDP compares those of a hook with the types themselves.
from collections.abc import Sequence
from typing import Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.optim.lr_scheduler import LambdaLR

from sumwire_lab.bench import thc_variants
from sumwire_lab.options.recipes import BASELINE, TASKS, parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.training import workload
from sumwire_lab.training.trainer import make_optimizer
from sumwire_lab.training.worker import total_steps

NAME: Final = "signs alone, no error feedback"
WORKERS: Final = 4
SHARE: Final = 1 / 8


def signs(gradient: Tensor) -> Tensor:
    """Return what is left of a worker's gradient of any shape, or of some workers' in rows."""
    return gradient.sign() * gradient.square().mean(dim=-1, keepdim=True).sqrt() * SHARE


def drawn_signs(gradient: Tensor) -> Tensor:
    """Return what is left where a value is sent as a random sign, whose mean is the value."""
    size = gradient.abs().amax(dim=-1, keepdim=True)
    return torch.where(torch.rand_like(gradient) * 2 - 1 < gradient / size, size, -size)


def hook(_: object, bucket: GradBucket) -> Future[Tensor]:
    """DDP's hook: the mean of the ranks' signs, over the default process group."""
    left = signs(bucket.buffer()).div_(dist.get_world_size())
    # Not asynchronously: at a rank's end torch aborts where a thread of gloo still has a callback in Python.
    dist.all_reduce(left)
    summed: Future[Tensor] = Future()
    summed.set_result(left)
    return summed


def accuracy(train: TrainOptions, workers: int = WORKERS) -> float:
    """Return the test accuracy at the end of a run's training."""
    return by_step(train, workers)[-1]


def by_step(train: TrainOptions, workers: int = WORKERS) -> Sequence[float]:
    """Return the test accuracy after each step of a run's training; each training is done once a process."""
    key = repr((train, workers))
    if key not in _DONE:
        _DONE[key] = _trained(train, workers)
    return _DONE[key]


_DONE: Final[dict[str, Sequence[float]]] = {}


def _trained(train: TrainOptions, workers: int) -> list[float]:
    samples, network = workload.samples(train), workload.network(train)
    optimizer = make_optimizer(parse(BASELINE), network, train)
    steps = total_steps(train, len(samples.train_y), workers)
    schedule = LambdaLR(optimizer, lambda step: workload.learning_rate_factor(step, steps))
    left, found = drawn_signs if TASKS[train.task].adam else signs, []
    for step in range(steps):
        batches = thc_variants.batches(samples, workers, train.batch, train.seed, step)
        gradients = thc_variants.gradients(network, samples, batches)
        thc_variants.apply(network, optimizer, left(gradients).mean(dim=0))
        schedule.step()
        found.append(workload.score(network, samples).accuracy)
    return found
