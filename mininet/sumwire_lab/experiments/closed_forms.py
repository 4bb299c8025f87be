# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the papers' formulas without a network: Marsit's compensation, matching rates, THC's best table."""

from __future__ import annotations

import threading
from math import pi
from statistics import NormalDist
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire.multihop.schedule import ring
from sumwire.multihop.sign_hops import CascadeHopper, Draws, SimulatedSigns, lockstep
from sumwire.training.optim import Marsit
from sumwire.training.reductions import Threads

IDENTITY_WORKERS: Final = 4
IDENTITY_VALUES: Final = 257
ROUNDS: Final = 150
_LEARNING_RATE: Final = 0.1
_GLOBAL_LR: Final = 0.01
_JOIN_SECONDS: Final = 60.0
CASES: Final = tuple((momentum, every) for momentum in (0.0, 0.9) for every in (None, 10))
"""Momentum of the local SGD, and the period of rounds in full precision."""


def largest_deviation() -> float:
    """Return the largest deviation of all cases, rounds and values."""
    return max(deviation(momentum, every) for momentum, every in CASES)


def deviation(momentum: float, every: int | None) -> float:
    """Return the largest |x - mean(c) - y| of any round. c: compensations; y: SGD on the mean gradient."""
    generator = torch.Generator().manual_seed(1)
    gradients = torch.randn(ROUNDS, IDENTITY_WORKERS, IDENTITY_VALUES, generator=generator, dtype=torch.float64)
    start = torch.randn(IDENTITY_VALUES, generator=generator, dtype=torch.float64)
    threads = Threads(IDENTITY_WORKERS)
    paths = torch.zeros(IDENTITY_WORKERS, ROUNDS, IDENTITY_VALUES, dtype=torch.float64)
    kept = torch.zeros_like(paths)

    def work(worker: int) -> None:
        try:
            walk(worker)
        except BaseException:
            threads.abort()
            raise

    def walk(worker: int) -> None:
        x = torch.nn.Parameter(start.clone())
        local = torch.optim.SGD([x], lr=_LEARNING_RATE, momentum=momentum)
        optimizer = Marsit(
            local, threads.of(worker), rule="published", global_lr=_GLOBAL_LR, full_precision_every=every
        )
        for round_ in range(ROUNDS):
            x.grad = gradients[round_, worker].clone()
            optimizer.step()
            paths[worker, round_] = x.detach()
            if optimizer.compensation is not None:
                kept[worker, round_] = optimizer.compensation

    members = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in range(IDENTITY_WORKERS)]
    for member in members:
        member.start()
    for member in members:
        member.join(_JOIN_SECONDS)
    return float((paths[0] - kept.mean(dim=0) - _uncompressed(start, gradients, momentum)).abs().max())


def _uncompressed(start: torch.Tensor, gradients: torch.Tensor, momentum: float) -> torch.Tensor:
    """SGD on the mean gradients: x after every round."""
    x = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.SGD([x], lr=_LEARNING_RATE, momentum=momentum)
    path = []
    for gradient in gradients.mean(dim=1):
        x.grad = gradient.clone()
        optimizer.step()
        path.append(x.detach().clone())
    return torch.stack(path)


MATCHING_VALUES: Final = 1 << 17
MATCHING_EXPECTED: Final = {2: 0.75, 4: 0.67, 8: 0.62, 16: 0.58}
"""Matching rates of Marsit by number of workers."""
CASCADING_RATE: Final = 0.50


def matching_rates(workers: int, *, values: int = MATCHING_VALUES, seed: int = 1) -> dict[str, float]:
    """Return the matching rates of Marsit in a ring, in a torus of two rows, and of cascading compression with SSDM."""
    given = np.random.default_rng(seed).standard_normal((workers, values)).astype(np.float32)
    wanted = given.mean(axis=0) >= 0
    packed = np.packbits(given >= 0, axis=1)
    found = {
        "ring": np.unpackbits(SimulatedSigns(workers, seed=seed).sign_merge(packed)),
        "torus": np.unpackbits(SimulatedSigns(workers, 2, seed=seed).sign_merge(packed)),
        "cascading": _cascading(given, seed) >= 0,
    }
    return {name: float(np.mean(signs == wanted)) for name, signs in found.items()}


def _cascading(given: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    workers, values = given.shape
    hoppers = [
        CascadeHopper(own.copy(), Draws(seed, rank), stochastic=True, length=values) for rank, own in enumerate(given)
    ]
    lockstep(hoppers, [ring(workers, rank, values // 8) for rank in range(workers)])
    return hoppers[0].values


_NODES = 12


def least_errors(bits: int, p: float, most: int) -> dict[int, float]:
    """Return the least mean squared rounding error of a table with 2**bits indices, for each granularity 1..most."""
    return {granularity: _least_error(2**bits, granularity, p) for granularity in range(1, most + 1)}


def _least_error(indices: int, granularity: int, p: float) -> float:
    """Cheapest path from the lowest to the highest grid point with at most `indices` points on it.

    A further level never makes the error larger, so paths with fewer points need no care of their own.
    """
    edge = NormalDist().inv_cdf(1 - p / 2)
    points = np.linspace(-edge, edge, granularity + 1)
    reach = np.append(0.0, np.full(granularity, np.inf))
    for _ in range(indices - 1):
        after = reach.copy()
        for start in range(granularity):
            after[start + 1 :] = np.minimum(after[start + 1 :], reach[start] + _errors(points, start))
        reach = after
    return float(reach[-1])


def _errors(points: NDArray[np.float64], start: int) -> NDArray[np.float64]:
    """Error of the coordinates between point `start` and each later one, rounded at random to one of the two."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    low, high = points[start], points[start + 1 :, None]
    x = low + (high - low) * (nodes + 1) / 2
    density = np.exp(-(x**2) / 2) / (2 * pi) ** 0.5
    errors: NDArray[np.float64] = ((high - x) * (x - low) * density) @ weights * (high - low)[:, 0] / 2
    return errors
