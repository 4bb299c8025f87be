# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ACP-SGD against the plain reference of its equations: `python -m sumwire.lowrank.check [--json]`.

Four workers train 20 steps in float64, as threads that sum exactly and as processes over gloo on loopback; parameters
and errors are compared after every step.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as dist
from nativelib import programs
from numpy.typing import NDArray
from torch import Tensor, nn

from sumwire.job.job import Residual
from sumwire.lowrank.fusion import Phase
from sumwire.lowrank.matrices import MatrixState, draw_factor
from sumwire.lowrank.sync import AcpSgd
from sumwire.training.ddp import Reduce
from sumwire.training.reductions import Threads

WORKERS: Final = 4
STEPS: Final = 20
TARGET: Final = 1e-9
RANK: Final = 3
SEED: Final = 7
RATE: Final = 0.2
# Square, tall, wide, thinner than the rank, a convolution, and two that travel whole.
SHAPES: Final = ((8, 8), (30, 5), (8,), (4, 50), (9, 2), (6, 3, 3, 3), ())
# Has no gradient in every third step; twice as wide as the rank, so that its error alone still has full rank.
IDLE: Final = 5
_PATIENCE_S: Final = 60

Array = NDArray[np.float64]
# By step, the flat parameters and the flat errors.
History = list[tuple[Array, Array]]


class ReferenceMatrix:
    """One matrix of the reference: the common factors, and every worker's error."""

    def __init__(self, p: Array, q: Array, workers: int) -> None:
        self.p = p
        self.q = q
        self.errors = [np.zeros((len(p), len(q))) for _ in range(workers)]

    def step(self, number: int, gradients: Sequence[Array]) -> Array:
        """Return the gradient that all workers apply in step ``number``, from their gradients, shape (n, m) each."""
        workers = len(gradients)
        inputs = [gradient + error for gradient, error in zip(gradients, self.errors, strict=True)]
        if number % 2 == 0:
            self.q = np.linalg.qr(self.q)[0]
            sent = [matrix @ self.q for matrix in inputs]
            local = [p @ self.q.T for p in sent]
            self.p = np.sum(sent, axis=0) / workers
        else:
            self.p = np.linalg.qr(self.p)[0]
            sent = [matrix.T @ self.p for matrix in inputs]
            local = [self.p @ q.T for q in sent]
            self.q = np.sum(sent, axis=0) / workers
        self.errors = [matrix - own for matrix, own in zip(inputs, local, strict=True)]
        return self.p @ self.q.T


class Reference:
    """The equations of ACP-SGD for all workers in one process, in numpy and float64. It shares no code with AcpSgd.

    ``factors`` has (P, Q) for each matrix and None for each parameter that is sent whole.
    """

    def __init__(self, factors: Sequence[tuple[Array, Array] | None], workers: int) -> None:
        self.matrices = [None if pair is None else ReferenceMatrix(*pair, workers) for pair in factors]
        self.steps = 0

    def step(self, gradients: Sequence[Sequence[Array]]) -> list[Array]:
        """Return the gradients that all workers apply, from gradients by worker and parameter, each of its shape."""
        outputs = []
        for number, matrix in enumerate(self.matrices):
            own = [worker[number] for worker in gradients]
            if matrix is None:
                outputs.append(np.mean(own, axis=0))
            else:
                flat = [gradient.reshape(len(matrix.p), -1) for gradient in own]
                outputs.append(matrix.step(self.steps, flat).reshape(own[0].shape))
        self.steps += 1
        return outputs


def targets(worker: int, step: int) -> list[Array]:
    """Return, by parameter, the point where this worker's loss in that step is zero. The loss is half the squared
    distance to it."""
    return [np.random.default_rng([worker, step, number]).normal(size=shape) for number, shape in enumerate(SHAPES)]


def is_idle(number: int, step: int) -> bool:
    """Return whether the parameter has no gradient in the step."""
    return number == IDLE and step % 3 == 2


def by_reference() -> list[History]:
    """Return each worker's history by the equations."""
    pairs = [_drawn(number, shape) if len(shape) > 1 else None for number, shape in enumerate(SHAPES)]
    reference = Reference(pairs, WORKERS)
    parameters = [np.ones(shape) for shape in SHAPES]
    histories: list[History] = [[] for _ in range(WORKERS)]
    for step in range(STEPS):
        gradients = [
            [
                np.zeros(x.shape) if is_idle(number, step) else x - target
                for number, (x, target) in enumerate(zip(parameters, targets(worker, step), strict=True))
            ]
            for worker in range(WORKERS)
        ]
        parameters = [x - RATE * mean for x, mean in zip(parameters, reference.step(gradients), strict=True)]
        for worker, history in enumerate(histories):
            errors = [matrix.errors[worker] for matrix in reference.matrices if matrix is not None]
            history.append((_flat(parameters), _flat(errors)))
    return histories


def _drawn(number: int, shape: tuple[int, ...]) -> tuple[Array, Array]:
    rows, columns = shape[0], int(np.prod(shape[1:]))
    rank = min(RANK, rows, columns)
    p = draw_factor(SEED, number, Phase.P, (rows, rank))
    return p, draw_factor(SEED, number, Phase.Q, (columns, rank))


def train(worker: int, reduce: Reduce) -> History:
    """Return one worker's history by AcpSgd, in several buffers."""
    model = nn.ParameterList([nn.Parameter(torch.ones(shape, dtype=torch.float64, device="cpu")) for shape in SHAPES])
    inner = torch.optim.SGD(model.parameters(), lr=RATE)
    optimizer = AcpSgd(model, inner, reduce, rank=RANK, seed=SEED, threshold_bytes=2000, min_compression=0.0)
    history: History = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = torch.zeros((), dtype=torch.float64, device="cpu")
        for number, (x, target) in enumerate(zip(model, targets(worker, step), strict=True)):
            if not is_idle(number, step):
                loss = loss + (x - torch.as_tensor(target, device="cpu")).square().sum() / 2
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        errors = [state.error.numpy() for state in optimizer.states if isinstance(state, MatrixState)]
        history.append((_flat([x.detach().numpy() for x in model]), _flat(errors)))
    optimizer.close()
    return history


def in_lock_step() -> list[History]:
    """Return each worker's history, as threads of this process."""
    threads = Threads(WORKERS)

    def work(worker: int) -> History:
        end = threads.of(worker)
        try:
            return train(worker, lambda x, _: (end.mean(x), lambda: torch.zeros_like(x)))
        except BaseException:
            threads.abort()
            raise

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, range(WORKERS)))


def over_gloo() -> list[History]:
    """Train the workers as processes in a gloo group on loopback, and return each one's history."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed", "sumwire.lowrank.sync"])
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(WORKERS, context) as pool:
        store = str(Path(folder) / "store")
        return list(pool.map(partial(_rank, store), range(WORKERS), timeout=_PATIENCE_S))


def _rank(store: str, rank: int) -> History:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    patience = timedelta(seconds=_PATIENCE_S)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORKERS, timeout=patience)
    try:
        return train(rank, _all_reduce)
    finally:
        dist.destroy_process_group()


def _all_reduce(x: Tensor, number: int) -> tuple[Tensor, Residual]:
    total = x.clone()
    dist.all_reduce(total)
    return total / WORKERS, lambda: torch.zeros_like(x)


def difference(histories: Sequence[History], expected: Sequence[History]) -> float:
    """Return the largest difference of any worker, step and value."""
    return max(
        float(np.abs(a - b).max())
        for own, other in zip(histories, expected, strict=True)
        for mine, theirs in zip(own, other, strict=True)
        for a, b in zip(mine, theirs, strict=True)
    )


def replicas_equal(histories: Sequence[History]) -> bool:
    """Return whether all workers' parameters have equal bits in every step."""
    first = histories[0]
    return all(np.array_equal(a[0], b[0]) for own in histories for a, b in zip(own, first, strict=True))


def check() -> dict[str, Any]:
    """Return the differences and whether the target is met, ready for JSON."""
    expected = by_reference()
    found = {"lock_step": in_lock_step(), "gloo": over_gloo()}
    differences = {name: difference(histories, expected) for name, histories in found.items()}
    equal = all(replicas_equal(histories) for histories in found.values())
    largest = max(differences.values())
    return {
        "workers": WORKERS,
        "steps": STEPS,
        "largest_difference": largest,
        **{f"largest_difference_{name}": value for name, value in differences.items()},
        "replicas_equal": equal,
        "target": TARGET,
        "holds": equal and largest <= TARGET,
    }


def _flat(arrays: Sequence[Array]) -> Array:
    return np.concatenate([array.reshape(-1) for array in arrays])


def main() -> int:
    """Print what `check` finds. Returns 0 if the target is met, else 1."""
    programs.close_environment()
    parser = argparse.ArgumentParser(prog="python -m sumwire.lowrank.check", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    # The matrices are small: threads would only wait for each other.
    torch.set_num_threads(1)
    found = check()
    lines = [f"{name}: {value}" for name, value in found.items()]
    sys.stdout.write((json.dumps(found) if options.json else "\n".join(lines)) + "\n")
    return 0 if found["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
