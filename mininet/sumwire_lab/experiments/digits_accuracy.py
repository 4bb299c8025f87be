# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures accuracy on the digits, with several workers as threads of one process and without a network: Marsit,
ACP-SGD, SSDM, and the error of EF-signSGD.

The codecs are those of a job. SSDM's and EF-signSGD's packets are summed here in the way of a switch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from statistics import fmean
from typing import Any, Final

import numpy as np
import sumwire
import torch
from numpy.typing import NDArray
from sumwire.codec.sign import EfSignCodec, SsdmCodec
from sumwire.job.job import Residual
from sumwire.lowrank import AcpSgd
from sumwire.training.optim import GradientSync, Marsit
from sumwire.training.reductions import Threads, ThreadsEnd
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from sumwire_lab.errors import LabError
from sumwire_lab.training import digits_data, workload

WORKERS: Final = 4
BATCH: Final = 32
# A narrower network than the lab's, for many trainings; 85,002 parameters.
HIDDEN: Final = 256
EPOCHS: Final = 20
_JOIN_SECONDS: Final = 3600.0


def mlp() -> torch.nn.Module:
    """Return the lab's network of two hidden layers, but narrower."""
    return workload.mlp(HIDDEN)


Optimizing = Callable[[torch.nn.Module, ThreadsEnd], Optimizer]
"""From a worker's model and its end of the collective to its optimizer."""


@dataclass(frozen=True)
class Training:
    """One training, of the digits unless ``samples`` loads another task. ``optimizing`` returns a worker's optimizer.
    Learning rates are constant, or follow the lab's schedule if ``scheduled``. Workers draw from all samples, or each
    from its own shard by ``concentration`` (:func:`digits_data.shards`). ``steps`` takes the place of ``epochs``."""

    optimizing: Optimizing
    seed: int
    workers: int = WORKERS
    epochs: int = EPOCHS
    scheduled: bool = False
    network: Callable[[], torch.nn.Module] = mlp
    concentration: float | None = None
    samples: Callable[[], digits_data.Samples] = digits_data.load
    batch: int = BATCH
    steps: int | None = None

    def accuracy(self) -> float:
        """Return the share of test images that the trained network classifies correctly. Raises LabError if replicas
        differ."""
        return self.score().accuracy

    def score(self) -> workload.Score:
        """Return the trained network's score on the test samples. Raises LabError if replicas differ."""
        threads, scores = Threads(self.workers, self.seed), [(workload.Score(0.0, 0.0), "")] * self.workers
        samples = self.samples()

        def work(rank: int) -> None:
            try:
                scores[rank] = self._train(rank, samples, networks[rank], threads.of(rank))
            except BaseException:
                threads.abort()
                raise

        # Torch's seed is the process's: networks are made before the threads begin.
        networks = [self._network() for _ in range(self.workers)]
        members = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(self.workers)]
        for member in members:
            member.start()
        for member in members:
            member.join(_JOIN_SECONDS)
        if len(set(scores)) != 1 or not scores[0][1]:
            raise LabError(f"replicas differ at the end of a training: {scores}")
        return scores[0][0]

    def _network(self) -> torch.nn.Module:
        torch.manual_seed(self.seed)
        return self.network()

    def _train(
        self, rank: int, samples: digits_data.Samples, network: torch.nn.Module, end: ThreadsEnd
    ) -> tuple[workload.Score, str]:
        optimizer = self.optimizing(network, end)
        known = len(samples.train_y)
        steps = self.steps or self.epochs * digits_data.steps_per_epoch(known, self.workers, self.batch)
        schedule = LambdaLR(
            optimizer, lambda step: workload.learning_rate_factor(step, steps) if self.scheduled else 1.0
        )
        draw = self._drawer(samples, rank)
        for step in range(steps):
            chosen = draw(step)
            optimizer.zero_grad()
            loss = workload.loss(network, samples.train_x[chosen], samples.train_y[chosen])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        return workload.score(network, samples), workload.fingerprint(network)

    def _drawer(self, samples: digits_data.Samples, rank: int) -> Callable[[int], Tensor]:
        """From a step to the indices of this worker's batch."""
        known = len(samples.train_y)
        if self.concentration is None:
            return partial(
                digits_data.batch_indices, known, self.seed, rank=rank, workers=self.workers, batch=self.batch
            )
        shard = digits_data.shards(samples.train_y, self.workers, self.concentration, self.seed)[rank]
        generator = np.random.default_rng((self.seed, rank))
        return lambda step: torch.from_numpy(generator.choice(shard, self.batch))


Parameters = Iterable[torch.nn.Parameter]
INNER: Final[Mapping[str, Callable[[Parameters], Optimizer]]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.5),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=3e-3),
}
PERIODS: Final = (1, 20, 100, None)
_BEGIN: Final = "optimizer = sumwire.optim.Marsit("


def as_printed(readme: str) -> Optimizing:
    """Return the optimizer of README's example. Raises LabError if README has none."""
    lines = [line.removeprefix("optimizer = ") for line in readme.splitlines() if line.startswith(_BEGIN)]
    if len(lines) != 1:
        raise LabError(f"README has {len(lines)} lines that begin with {_BEGIN!r}")

    def made(network: torch.nn.Module, end: ThreadsEnd) -> Optimizer:
        names = {"sumwire": sumwire, "torch": torch, "model": network, "job": end}
        optimizer: Optimizer = eval(lines[0], names)
        return optimizer

    return made


def marsit(inner: str, every: int | None, **settings: Any) -> Optimizing:
    """Return Marsit around an optimizer of INNER."""
    return lambda network, end: Marsit(INNER[inner](network.parameters()), end, full_precision_every=every, **settings)


def ssgd(inner: str) -> Optimizing:
    """Return an optimizer of INNER on the mean gradient."""

    return lambda network, end: averaged(INNER[inner](network.parameters()), end)


def averaged(optimizer: Optimizer, end: ThreadsEnd) -> Optimizer:
    """Return the optimizer on the workers' mean gradient."""

    def mean(x: Tensor, number: int) -> tuple[Tensor, Callable[[], Tensor]]:
        return end.mean(x), lambda: torch.zeros_like(x)

    return GradientSync(optimizer, mean, error_feedback=False)


def accuracies(optimizing: Optimizing, seeds: Sequence[int], epochs: int = EPOCHS) -> list[float]:
    """Return the test accuracy, seed by seed."""
    return [Training(optimizing, seed, epochs=epochs).accuracy() for seed in seeds]


def by_period(inner: str, seeds: Sequence[int], epochs: int = EPOCHS) -> dict[str, float]:
    """Return the mean accuracy of S-SGD and of Marsit by K, for an optimizer of INNER."""
    found = {"S-SGD": fmean(accuracies(ssgd(inner), seeds, epochs))}
    for every in PERIODS:
        found[f"K = {every or 'never'}"] = fmean(accuracies(marsit(inner, every), seeds, epochs))
    return found


RANK: Final = 4
SSGD: Final = "S-SGD"
ACP: Final = f"rank {RANK}"
NO_FEEDBACK: Final = f"rank {RANK}, no error feedback"
NO_REUSE: Final = f"rank {RANK}, no reuse"
VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "rank 1": {"rank": 1},
    "rank 2": {"rank": 2},
    ACP: {"rank": RANK},
    "rank 8": {"rank": 8},
    NO_FEEDBACK: {"rank": RANK, "error_feedback": False},
    NO_REUSE: {"rank": RANK, "reuse": False},
}
WARM_UP: Final = "rank 1, learning rate with warm-up"
_ACP_LOCAL: Final = "momentum"


def acp(given: Mapping[str, Any]) -> Optimizing:
    """Return ACP-SGD with these settings; every matrix is compressed."""

    def made(network: torch.nn.Module, end: ThreadsEnd) -> Optimizer:
        def mean(x: Tensor, number: int) -> tuple[Tensor, Residual]:
            return end.mean(x), lambda: torch.zeros_like(x)

        return AcpSgd(network, INNER[_ACP_LOCAL](network.parameters()), mean, min_compression=0.0, **given)

    return made


def by_variant(seeds: Sequence[int], epochs: int = EPOCHS) -> dict[str, list[float]]:
    """Return test accuracies by variant, one for each seed; S-SGD is the first variant."""
    found = {SSGD: accuracies(ssgd(_ACP_LOCAL), seeds, epochs)}
    found |= {name: accuracies(acp(given), seeds, epochs) for name, given in VARIANTS.items()}
    found[WARM_UP] = [Training(acp({"rank": 1}), seed, epochs=epochs, scheduled=True).accuracy() for seed in seeds]
    return found


SSDM_RATE: Final = 0.03
SSDM_EPOCHS: Final = 40
ROUNDS: Final = 1000
VALUES: Final = 512
SCALES: Final = (1.0, 2.0, 4.0, 16.0)


def ssdm(*, momentum: float, rate: float = SSDM_RATE) -> Optimizing:
    """Return SGD on the mean of the workers' stochastic signs."""

    def made(network: torch.nn.Module, end: ThreadsEnd) -> Optimizer:
        codec, sequence = SsdmCodec(job=1, worker=end.worker, momentum=momentum), count()

        def reduce(x: Tensor, number: int) -> tuple[Tensor, Callable[[], Tensor]]:
            round_ = codec.begin(x, next(sequence), number)
            words = round_.encode(round_.preliminary())
            # Elements are integers below 2^30: their mean times the workers is exact in float64.
            elements, workers = torch.from_numpy(words.view(">u4").astype(np.float64)), end.workers
            sums = (end.mean(elements) * workers).round().numpy().astype(">u4").view(np.uint8)
            return round_.decode(sums, np.full(round_.chunks, workers)), round_.residual

        return GradientSync(torch.optim.SGD(network.parameters(), lr=rate), reduce)

    return made


def ef_sign_error(
    scales: tuple[float, ...] = SCALES, *, rounds: int = ROUNDS, values: int = VALUES, feedback: bool = True
) -> float:
    """Return the squared error of EF-signSGD's mean over the rounds, divided by the mean's square. Every worker keeps
    one gradient, and their scales differ. ``feedback``: with error feedback, as published."""
    generator = np.random.default_rng(1)
    gradients = [torch.from_numpy((scale * generator.standard_normal(values)).astype(np.float32)) for scale in scales]
    codec = EfSignCodec(workers=len(scales))
    residuals = [torch.zeros(values) for _ in scales]
    total = torch.zeros(values, dtype=torch.float64)
    for sequence in range(rounds):
        begun = [codec.begin(g + left, sequence, 0) for g, left in zip(gradients, residuals, strict=True)]
        agreed: NDArray[np.uint32] = np.max([round_.preliminary() for round_ in begun], axis=0)
        elements = [round_.encode(agreed).view(">u4").astype(np.int64) for round_ in begun]
        sums = np.sum(elements, axis=0).astype(">u4").view(np.uint8)
        total += begun[0].decode(sums, np.full(begun[0].chunks, len(scales)))
        if feedback:
            residuals = [round_.residual() for round_ in begun]
    mean = torch.stack(gradients).to(torch.float64).mean(0)
    return float((total / rounds - mean).square().sum() / mean.square().sum())
