# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reference of ACP-SGD: its equations for all workers in one process, in numpy and float64.

It has no groups, hooks, reductions or checks, and shares no code with the library. It is given the drawn factors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class ReferenceMatrix:
    """One matrix: the common factors, and an error for every worker."""

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
    """All parameters. ``factors`` has (P, Q) for each matrix and None for each parameter that is sent whole."""

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
