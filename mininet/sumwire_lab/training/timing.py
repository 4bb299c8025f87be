# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures a step's communication: its time in DDP's hook, buckets held until the backward pass has ended, bytes on a
link."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
import torch.distributed as dist
from sumwire.wire.packets import HEADER_BYTES, LOWER_HEADER_BYTES
from torch._C._distributed_c10d import GradBucket

from sumwire_lab.system.counters import LinkBytes

Hook = Callable[[Any, GradBucket], "torch.futures.Future[torch.Tensor]"]


@dataclass
class HookTimer:
    """Wraps a DDP communication hook and times the communication of each step.

    Communication begins when the step's first bucket is handed over, and ends when the last of its futures is done.
    DDP's `backward` returns only after that, so both times are known when the step ends.
    """

    inner: Hook
    inner_state: Any
    keep: bool = False
    """Whether to copy the step's gradients and results, which are then compared with the true mean."""
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    results: dict[int, torch.Tensor] = field(default_factory=dict)
    _began: float | None = None
    _ended: float = 0.0
    _tensors: list[dict[str, Any]] = field(default_factory=list)

    def begin_step(self, keep: bool) -> None:
        """Discard the times of the previous step."""
        self.keep = keep
        self._began = None
        self.gradients.clear()
        self.results.clear()

    def seconds(self) -> float:
        """Return the communication time of the step; 0 if no bucket was handed over."""
        return 0.0 if self._began is None else self._ended - self._began

    def take_tensors(self) -> list[dict[str, Any]]:
        """Return records of the buckets completed since the last call: number, values, time of hand-over by the
        machine's clock, and seconds from then to the result."""
        taken, self._tensors = self._tensors, []
        return taken

    def hand_over(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        handed_over = time.perf_counter()
        if self._began is None:
            self._began = handed_over
        index = bucket.index()
        if self.keep:
            self.gradients[index] = bucket.buffer().clone()
        return self.inner(self.inner_state, bucket).then(lambda done: self._done(index, handed_over, done))

    def _done(self, index: int, handed_over: float, future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
        result = future.value()
        self._ended = time.perf_counter()
        seconds = self._ended - handed_over
        self._tensors.append({"bucket": index, "values": result.numel(), "at_s": handed_over, "seconds": seconds})
        if self.keep:
            self.results[index] = result.clone()
        return result


def aggregate_error(gradients: dict[int, torch.Tensor], results: dict[int, torch.Tensor], workers: int) -> float:
    """Return the NMSE of an aggregated gradient: |result - mean|^2 / |mean|^2 over all buckets of a step.

    The true mean comes from an ordinary all-reduce of the gradients, outside all measured times. Collective: every
    worker calls it at the same step.
    """
    error = energy = 0.0
    for index in sorted(gradients):
        mean = gradients[index].clone()
        dist.all_reduce(mean)
        mean /= workers
        error += float((results[index] - mean).double().square().sum())
        energy += float(mean.double().square().sum())
    return error / energy if energy > 0 else 0.0


BucketFuture = torch.futures.Future[torch.Tensor]


class LateHook:
    """A hook that keeps a step's buckets until the last one has come, and then hands all over in the same order."""

    def __init__(self, inner: Callable[[GradBucket], BucketFuture]) -> None:
        self._inner = inner
        self._waiting: list[tuple[GradBucket, BucketFuture]] = []

    def hand_over(self, bucket: GradBucket) -> BucketFuture:
        """Return a future of the bucket's result, which comes only after the last bucket has been handed over."""
        future: BucketFuture = torch.futures.Future()
        self._waiting.append((bucket, future))
        if bucket.is_last():
            waiting, self._waiting = self._waiting, []
            for kept, later in waiting:
                self._inner(kept).then(lambda done, later=later: _pass_on(done, later))  # type: ignore[misc]
        return future


def _pass_on(done: BucketFuture, later: BucketFuture) -> None:
    try:
        later.set_result(done.value())
    except Exception as error:  # noqa: BLE001 - the error belongs to whoever waits for the bucket
        later.set_exception(error)  # type: ignore[arg-type]


# Ethernet, IPv4 and TCP with time stamps, and what an Ethernet packet of 1500 bytes then has room for.
TCP_HEADER_BYTES: Final = 14 + 20 + 32
TCP_SEGMENT_BYTES: Final = 1500 - 20 - 32
_COUNTS: Final = tuple(f"{what}_{way}" for way in ("sent", "received") for what in ("packets", "messages", "bytes"))


@dataclass(frozen=True)
class PacketBytes:
    """Bytes in one direction: of whole packets, and of their headers."""

    total: int
    headers: int


def job_counts(stats: Mapping[str, Any]) -> dict[str, int]:
    """Return what a job has sent and received, from its statistics; zeros for a system without a job."""
    return {name: int(stats.get(name, 0)) for name in _COUNTS}


def on_wire(used: LinkBytes, before: Mapping[str, int], after: Mapping[str, int]) -> tuple[PacketBytes, PacketBytes]:
    """Return the bytes and packets that a link carried up and down. `used`: by the interface's counters; `before`,
    `after`: results of `job_counts`."""
    job = {name: after[name] - before[name] for name in _COUNTS}
    up = _carried(used.tx, used.tx_packets, job["packets_sent"], job["messages_sent"], job["bytes_sent"])
    down = _carried(used.rx, used.rx_packets, job["packets_received"], job["messages_received"], job["bytes_received"])
    return up, down


def _carried(counted: int, pieces: int, packets: int, messages: int, job_bytes: int) -> PacketBytes:
    """`counted` bytes in so many pieces, packets or trains. `messages` of them are a job's, and hold `packets`, which
    have `job_bytes` with all their headers. The rest is TCP."""
    others = max(pieces - messages, 0)
    in_trains = job_bytes - LOWER_HEADER_BYTES * (packets - messages)
    payload = max(counted - in_trains - TCP_HEADER_BYTES * others, 0)
    segments = max(others, -(-payload // TCP_SEGMENT_BYTES))
    headers = (LOWER_HEADER_BYTES + HEADER_BYTES) * packets + TCP_HEADER_BYTES * segments
    return PacketBytes(job_bytes + payload + TCP_HEADER_BYTES * segments, headers)
