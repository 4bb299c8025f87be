# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs without a network: workers are threads of one process, and meet at a table."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from helpers.transport.udp_bridge import job_mapping
from numpy.typing import NDArray
from sumwire.codec.tables import solve
from sumwire.codec.thc import ThcCodec
from sumwire.config import JobConfig, parse_job
from sumwire.dlcp.lanes import Lanes
from sumwire.transport.stats import JobStats
from torch import Tensor

TIMEOUT_S = 20.0
# Values are sent as multiples of it, so that something is left for error feedback.
GRAIN = 0.25
CODEC = ThcCodec(solve(4, 30, 1 / 32), job=1, worker=0, block=1024)


def coarse(x: Tensor) -> Tensor:
    return (x / GRAIN).round() * GRAIN


@dataclass
class Table:
    """Where the workers' tensors meet, by (job, sequence). An operation closes with ``quorum`` workers."""

    quorum: int
    held: dict[tuple[int, int], list[Tensor]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    # What is to be waited for before an operation of a job is done.
    gates: dict[int, threading.Event] = field(default_factory=dict)

    def put(self, key: tuple[int, int], x: Tensor) -> None:
        with self.changed:
            if len(self.held.setdefault(key, [])) < self.quorum:
                self.held[key].append(x)
            self.changed.notify_all()

    def closed(self, key: tuple[int, int]) -> bool:
        return len(self.held.get(key, [])) >= self.quorum

    def mean(self, key: tuple[int, int]) -> Tensor:
        with self.changed:
            assert self.changed.wait_for(lambda: self.closed(key), TIMEOUT_S), f"nobody else came to {key}"
        if key[0] in self.gates:
            assert self.gates[key[0]].wait(TIMEOUT_S)
        return torch.stack(self.held[key]).mean(0)


class FakeJob:
    """What :class:`sumwire.dlcp.Lanes` needs of a job."""

    table: ClassVar[Table]
    made: ClassVar[list[FakeJob]]
    # Numbers of jobs that cannot be made.
    refused: ClassVar[frozenset[int]] = frozenset()

    def __init__(self, config: JobConfig, **options: Any) -> None:
        if config.job in self.refused:
            raise OSError(f"job {config.job}: address in use")
        self.config = config
        self.options = options
        self.stats = JobStats()
        self.fallen_back = False
        self.closed: bool | None = None
        self.given_up = False
        # (bucket, TOS bytes) of every operation.
        self.sent: list[tuple[int, NDArray[np.uint8]]] = []
        # Residuals are worked out once it is set.
        self.residuals = threading.Event()
        self.residuals.set()
        # Contributions that the next results lack.
        self.lost = 0
        self._sequence = 0
        self.made.append(self)

    @property
    def workers(self) -> int:
        return self.config.workers

    def reduce(
        self, x: Tensor, bucket: int = 0, *, tag: Callable[[NDArray[np.float32]], NDArray[np.uint8]] | None = None
    ) -> tuple[Tensor, Callable[[], Tensor]]:
        assert tag is not None
        self.sent.append((bucket, tag(CODEC.begin(x, self._sequence, bucket).magnitudes())))
        sent = coarse(x)
        self.table.put((self.config.job, self._sequence), sent)
        mean = self._result(x.numel())

        def residual() -> Tensor:
            assert self.residuals.wait(TIMEOUT_S)
            return x - sent

        return mean, residual

    def results_ahead(self) -> bool:
        return self.table.closed((self.config.job, self._sequence))

    def follow(self, values: int, bucket: int = 0) -> Tensor:
        return self._result(values)

    def on_close(self, closer: Callable[[], object]) -> None:
        """Lanes end their threads themselves."""

    def give_up(self) -> None:
        self.given_up = True

    def close(self, *, agree: bool = True) -> None:
        self.closed = agree

    def _result(self, values: int) -> Tensor:
        mean = self.table.mean((self.config.job, self._sequence))
        assert len(mean) == values
        self._sequence += 1
        self.stats.operations += 1
        self.stats.missing += self.lost
        return mean


MakeLanes = Callable[..., Lanes]


def lane_mapping(workers: int, lanes: int) -> dict[str, Any]:
    """The content of a job file: jobs 40, 41 ... with 16 slots each."""
    mapping = job_mapping(workers, 16, job=40)
    return mapping | {"format": 3, "lanes": [{"job": 40 + lane, "slots": 16} for lane in range(lanes)]}


def lane_config(worker: int, workers: int, lanes: int) -> JobConfig:
    """One worker's view of `lane_mapping`."""
    return parse_job(lane_mapping(workers, lanes), worker)
