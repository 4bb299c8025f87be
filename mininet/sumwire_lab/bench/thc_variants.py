# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`bench-thc`: measures the gain of each part of THC, for several numbers of workers, with late workers and with loss.

The digits are trained with a variant of THC, all workers in one process, and each mean is compared with the true one. A
variant's sums follow the paper, not the codec's code, so that parts can be left out; a test compares the two. It also
measures the baselines that THC's authors compare it with: TernGrad, Top-k, Deep Gradient Compression.
"""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import torch
from sumwire.codec.rotation import hadamard_
from sumwire_protocol import tables
from sumwire_protocol.ops import THC
from torch import Tensor

from sumwire_lab.bench.benchmark import Bench, Row
from sumwire_lab.options.bench_options import GLOBAL, MINMAX, ThcOptions, Variant
from sumwire_lab.options.recipes import MOMENTUM
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.study.study import Column, Study
from sumwire_lab.training import digits_data, workload
from sumwire_lab.training.digits_data import Samples
from sumwire_lab.training.workload import learning_rate_factor

TERNGRAD: Final = "TernGrad"
TOP_K: Final = "Top-k 10 %"
DGC: Final = "DGC 0.1 %"


class Baseline(ABC):
    """A method to compare with. `momentum`: whether it includes the optimizer's momentum."""

    momentum: ClassVar = False

    @abstractmethod
    def mean(self, x: Tensor, step: int) -> Tensor:
        """Return the mean that the workers' gradients, a row each, become. The rest is kept here for the next step."""


class TernGradBaseline(Baseline):
    """TernGrad (Wen et al., NeurIPS 2017, arXiv 1705.07878): sends -s, 0 or s, without bias. s is a layer's largest
    magnitude of all workers, after clipping at 2.5 standard deviations. No error feedback."""

    CLIP: Final = 2.5

    def __init__(self, sizes: Sequence[int], draws: torch.Generator) -> None:
        self._sizes = list(sizes)
        self._draws = draws

    def mean(self, x: Tensor, step: int) -> Tensor:
        return torch.cat([self._layer(one) for one in torch.split(x, self._sizes, dim=1)], dim=1).mean(dim=0)

    def _layer(self, x: Tensor) -> Tensor:
        edge = self.CLIP * x.std(dim=1, keepdim=True, correction=0)
        clipped = x.clamp(-edge, edge)
        scale = clipped.abs().amax().clamp(min=1e-30)
        drawn = torch.rand(x.shape, generator=self._draws) < clipped.abs() / scale
        return clipped.sign() * drawn * scale


class SparseTopK(Baseline):
    """Top-k (Aji and Heafield, EMNLP 2017, arXiv 1704.05021): sends the largest values of each worker, and keeps the
    others."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._kept: Tensor | float = 0.0

    def mean(self, x: Tensor, step: int) -> Tensor:
        x = x + self._kept
        sent = largest(x, self._share)
        self._kept = x * ~sent
        return (x * sent).mean(dim=0)


class Dgc(Baseline):
    """Deep Gradient Compression (Lin et al., ICLR 2018, arXiv 1712.01887): Top-k of gradients to which each worker has
    added momentum. Where a value is sent, its kept part and its momentum restart at 0. The share falls to `share` by a
    factor of four per pass."""

    momentum: ClassVar = True

    def __init__(self, share: float, factor: float, steps_per_pass: int) -> None:
        self._share = share
        self._factor = factor
        self._pass = steps_per_pass
        self._speed: Tensor | float = 0.0
        self._kept: Tensor | float = 0.0

    def mean(self, x: Tensor, step: int) -> Tensor:
        speed = self._factor * self._speed + x
        total = self._kept + speed
        sent = largest(total, max(self._share, 0.25 ** (1 + step // self._pass)))
        self._speed, self._kept = speed * ~sent, total * ~sent
        return (total * sent).mean(dim=0)


def largest(x: Tensor, share: float) -> Tensor:
    """Return where each row has its largest magnitudes, at least one."""
    count = max(1, int(share * x.shape[1]))
    return torch.zeros_like(x, dtype=torch.bool).scatter_(1, x.abs().topk(count, dim=1).indices, value=True)


_CHUNK = THC.values


@dataclass(frozen=True)
class _Range:
    """What grid position 0 stands for, and the width of a grid cell, both by block."""

    low: Tensor
    cell: Tensor


class ThcSums:
    """The sums of one job. `draws` gives all random numbers."""

    def __init__(self, variant: Variant, workers: int, draws: torch.Generator) -> None:
        values = tables.made(variant.table, variant.bits, variant.p, workers, variant.granularity)
        self._variant = variant
        self._draws = draws
        self._granularity = values[-1]
        # Without the repeated ones.
        self._levels = torch.tensor(values[: values.index(values[-1]) + 1], dtype=torch.float32)
        self._threshold = tables.threshold(variant.p)

    def mean(self, x: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean of the workers' rows, and what the sum lacks of each row.

        `present` (workers, chunks): the chunks that are in the sum. A chunk that no worker has in the sum gives zeros.
        """
        workers, length = x.shape
        block = self._block(length)
        blocks = torch.nn.functional.pad(x, (0, -length % block)).view(workers, -1, block)
        signs = torch.randint(0, 2, blocks.shape[1:], generator=self._draws) * 2.0 - 1
        v = self._rotated(blocks, signs)
        span = self._span(blocks, v)
        q = self._rounded((v - span.low) / span.cell) * span.cell + span.low
        chunk = min(_CHUNK, block)
        counted = present[:, : blocks[0].numel() // chunk].repeat_interleave(chunk, dim=1).view_as(q)
        q = torch.where(counted, q, 0.0)
        mean = q.sum(dim=0) / counted.sum(dim=0).clamp(min=1)
        left = x - self._back(q, signs).reshape(workers, -1)[:, :length]
        return self._back(mean[None], signs).reshape(-1)[:length], left

    def chunks(self, length: int) -> int:
        """Return how many chunks a tensor has."""
        return max(1, math.ceil(length / self._block(length)) * self._block(length) // _CHUNK)

    def _block(self, length: int) -> int:
        return self._variant.block or max(_CHUNK, 1 << (length - 1).bit_length())

    def _rotated(self, blocks: Tensor, signs: Tensor) -> Tensor:
        if not self._variant.rotation:
            return blocks
        d = blocks.shape[-1]
        return hadamard_((blocks * signs).reshape(-1, d).contiguous()).view_as(blocks) / math.sqrt(d)

    def _back(self, v: Tensor, signs: Tensor) -> Tensor:
        if not self._variant.rotation:
            return v
        d = v.shape[-1]
        return hadamard_(v.reshape(-1, d).clone()).view_as(v) / math.sqrt(d) * signs

    def _span(self, blocks: Tensor, v: Tensor) -> _Range:
        """What the workers agree on: the largest norm, or the least and the largest value."""
        together = (0, 1, 2) if self._variant.norms == GLOBAL else (0, 2)
        if self._variant.range == MINMAX:
            low, high = v.amin(dim=together, keepdim=True), v.amax(dim=together, keepdim=True)
            return _Range(low, ((high - low) / self._granularity).clamp(min=1e-30))
        squares = blocks.square()
        norms = squares.sum(dim=(1, 2) if self._variant.norms == GLOBAL else 2, keepdim=True).sqrt()
        values = blocks[0].numel() if self._variant.norms == GLOBAL else blocks.shape[-1]
        edge = self._threshold * norms.amax(dim=0, keepdim=True) / math.sqrt(values)
        return _Range(-edge, (2 * edge / self._granularity).clamp(min=1e-30))

    def _rounded(self, position: Tensor) -> Tensor:
        """Clip a grid position, and round it at random to one of the two levels around it."""
        w = position.clamp(0, self._granularity).contiguous()
        lower = (torch.searchsorted(self._levels, w, right=True) - 1).clamp(max=len(self._levels) - 2)
        low, high = self._levels[lower], self._levels[lower + 1]
        up = torch.rand(w.shape, generator=self._draws) < (w - low) / (high - low)
        return torch.where(up, high, low)


def without(workers: int, chunks: int, left_out: int, loss: float, draws: np.random.Generator) -> Tensor:
    """Return which chunks of which workers are in the sum: all except those of late workers, and lost ones."""
    present = draws.random((workers, chunks)) >= loss
    present[draws.permutation(workers)[:left_out]] = False
    return torch.from_numpy(present)


LEARNING_RATE: Final = 0.1


@dataclass(frozen=True)
class VariantScore:
    """The result of a variant: accuracy and cross entropy on the test samples at the end. NMSE compares THC's mean with
    the mean of what the workers encoded, averaged over all steps."""

    accuracy: float
    bits: float
    nmse: float | None


def train_variant(
    case: Variant | str | None, workers: int, seed: int, options: ThcOptions, samples: Samples
) -> VariantScore:
    """Train with a variant, or a baseline by its name; None for the exact mean."""
    own = TrainOptions(hidden=options.hidden, seed=seed)
    network = workload.network(own)
    batch = options.samples // workers
    a_pass = digits_data.steps_per_epoch(len(samples.train_x), workers, batch)
    steps = options.epochs * a_pass
    draws = torch.Generator().manual_seed(seed)
    through: Baseline | _Thc | None = None
    if isinstance(case, Variant):
        through = _Thc(case, workers, options, draws)
    elif case is not None:
        through = _baseline(case, [one.numel() for one in network.parameters()], a_pass, draws)
    within = isinstance(through, Baseline) and through.momentum
    momentum = 0.0 if within else MOMENTUM
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=momentum, nesterov=not within)
    for step in range(steps):
        x = gradients(network, samples, batches(samples, workers, batch, seed, step))
        mean = x.mean(dim=0) if through is None else through.mean(x, step)
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * learning_rate_factor(step, steps)
        apply(network, optimizer, mean)
    score = workload.score(network, samples)
    return VariantScore(score.accuracy, score.bits, through.nmse if isinstance(through, _Thc) else None)


class _Thc:
    """A variant with its error feedback, and with what late workers and losses leave out."""

    def __init__(self, variant: Variant, workers: int, options: ThcOptions, draws: torch.Generator) -> None:
        self._sums = ThcSums(variant, workers, draws)
        self._feedback = variant.feedback
        self._options = options
        self._missing = np.random.default_rng(draws.initial_seed())
        self._kept: Tensor | float = 0.0
        self._errors: list[float] = []

    @property
    def nmse(self) -> float:
        return float(np.mean(self._errors))

    def mean(self, x: Tensor, step: int) -> Tensor:
        x = x + self._kept
        chunks = self._sums.chunks(x.shape[1])
        present = without(len(x), chunks, self._options.left_out, self._options.loss, self._missing)
        found, left = self._sums.mean(x, present)
        true = x.mean(dim=0)
        self._errors.append(float((found - true).square().sum() / true.square().sum()))
        self._kept = left if self._feedback else 0.0
        return found


def _baseline(name: str, sizes: list[int], steps_per_pass: int, draws: torch.Generator) -> Baseline:
    made: dict[str, Callable[[], Baseline]] = {
        TERNGRAD: lambda: TernGradBaseline(sizes, draws),
        TOP_K: lambda: SparseTopK(0.1),
        DGC: lambda: Dgc(0.001, MOMENTUM, steps_per_pass),
    }
    return made[name]()


def batches(samples: Samples, workers: int, batch: int, seed: int, step: int) -> list[Tensor]:
    """Return the numbers of the samples that each worker has in a step."""
    count = len(samples.train_x)
    return [
        digits_data.batch_indices(count, seed, step, rank=rank, workers=workers, batch=batch) for rank in range(workers)
    ]


def gradients(network: torch.nn.Module, samples: Samples, batches: list[Tensor]) -> Tensor:
    """Return every worker's gradient, a row each."""
    rows = []
    for chosen in batches:
        loss = workload.loss(network, samples.train_x[chosen], samples.train_y[chosen])
        rows.append(torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(network.parameters()))]))
    return torch.stack(rows)


def apply(network: torch.nn.Module, optimizer: torch.optim.Optimizer, gradient: Tensor) -> None:
    """Make the optimizer's step with a flat gradient of all parameters."""
    place = 0
    for parameter in network.parameters():
        parameter.grad = gradient[place : place + parameter.numel()].view_as(parameter).clone()
        place += parameter.numel()
    optimizer.step()


EXACT: Final = "exact mean"
BASELINES: Final = (TERNGRAD, TOP_K, DGC)


COLUMNS: Final = (
    Column("nmse", "mean over the seeds", form=".4f"),
    Column("accuracy", "mean over the seeds", form=".2%"),
    Column("accuracy_from", "the least of the seeds", form=".1%"),
    Column("accuracy_to", "the largest of the seeds", form=".1%"),
    Column("bits", "mean over the seeds", form=".3f"),
)


def bench(options: ThcOptions) -> Bench:
    """Measure the exact mean first, then the baselines, then each variant whose sums fit. A case has all seeds."""
    samples = digits_data.load()

    def measure(case: Row) -> dict[str, Any]:
        name = case["variant"]
        given = options.variants.get(name, None if name == EXACT else name)
        done = [train_variant(given, case["workers"], seed, options, samples) for seed in options.seeds]
        errors = [one.nmse for one in done if one.nmse is not None]
        accuracies = [one.accuracy for one in done]
        return {
            "nmse": None if not errors else statistics.mean(errors),
            "accuracy": statistics.mean(accuracies),
            "accuracy_from": min(accuracies),
            "accuracy_to": max(accuracies),
            "bits": statistics.mean(one.bits for one in done),
        }

    plain = (EXACT, *(BASELINES if options.baselines else ()))
    cases = [{"variant": name, "workers": workers} for workers in options.workers for name in plain]
    cases += [
        {"variant": name, "workers": workers}
        for workers in options.workers
        for name, variant in options.variants.items()
        if variant.fits(workers)
    ]
    study = Study(
        "bench-thc", "what each part of THC brings", cases, measure, COLUMNS, lines=("variant", "workers"), stops=True
    )
    return Bench(study, lambda rows: {"options": options, "rows": rows}, needs_network=False)
