# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker's part in one job: codec, transport, residuals and the way out, used by all ways in."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire import _p4 as p4
from sumwire.codec.errors import CodecError
from sumwire.codec.errors import NonFiniteError as CodecNonFiniteError
from sumwire.codec.errors import NormRangeError as CodecNormRangeError
from sumwire.codec.feedback import ErrorFeedback
from sumwire.codec.tables import ThcTable
from sumwire.codec.thc import BLOCK_VALUES, ThcCodec, ThcRound
from sumwire.config import JobConfig
from sumwire.errors import (
    ClosedError,
    ConfigError,
    DeadlineError,
    FallbackError,
    NonFiniteError,
    RecreateError,
)
from sumwire.fallback import Fallback, Standing
from sumwire.greeting import LANES, Greeting
from sumwire.rtt import RttEstimator
from sumwire.stats import JobStats
from sumwire.transport import Transport
from sumwire.wire import WORD_BYTES

_LOG: Final = logging.getLogger("sumwire")
_BUCKETS: Final = 1 << 16
_LANE: Final = np.dtype(">u4")


class Job:
    """One worker of one job, from its first all-reduce to :meth:`close`. Also a context manager.

    All workers make the same calls with the same lengths in the same order. One thread at a time reduces; others
    wait. `block` is the rotation's block (see ThcCodec), equal on all workers.

    Seconds: ``deadline_s`` without any new result end an operation with DeadlineError, ``join_s`` the same for the
    first packets, while other workers may still be starting. ``rtt`` sets the retransmission timeout's limits.

    With ``fallback`` "auto" and torch.distributed initialised, the job makes a gloo group of its own (a collective
    call), and an operation without answer is finished by the ordinary all-reduce, as are all after it
    (see :mod:`sumwire.fallback`). With "never", or without torch.distributed, DeadlineError reaches the caller.

    After a RecreateError the job is unusable and raises that error again.
    """

    def __init__(
        self,
        config: JobConfig,
        *,
        deadline_s: float = 10.0,
        join_s: float = 30.0,
        block: int | None = BLOCK_VALUES,
        fallback: Literal["auto", "never"] = "auto",
        peer_timeout_s: float = 120.0,
        rtt: RttEstimator | None = None,
    ) -> None:
        _check(config, deadline_s, join_s)
        assert config.thc is not None
        table = ThcTable(config.thc.table, config.thc.bits, config.thc.granularity, config.thc.p)
        self.config = config
        self.stats = JobStats()
        self.feedback = ErrorFeedback()
        self._join_s = join_s
        self._codec = ThcCodec(table, job=config.job, worker=config.worker, block=block)
        self._greeting = Greeting(config, {"block": block})
        self._greeted = False
        self._lock = threading.Lock()
        self._closers: list[Callable[[], None]] = []
        self._closed = False
        self._broken: RecreateError | None = None
        self._completed = 0
        # Result of the latest operation, for a worker that missed its last packets. Never given to callers.
        self._last: Tensor | None = None
        self._standing: Standing | None = None
        self._transport = Transport(config, deadline_s=deadline_s, rtt=rtt, stats=self.stats)
        self._fallback: Fallback | None = None
        if fallback == "auto" and Fallback.available():
            self._fallback = Fallback(config.workers, peer_timeout_s)

    @property
    def fallen_back(self) -> bool:
        """Whether operations now go by the ordinary all-reduce."""
        return self._standing is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(agree=error is None)

    def on_close(self, closer: Callable[[], None]) -> None:
        """Have ``closer`` called first when the job closes, e.g. to end a thread that uses it."""
        self._closers.append(closer)

    def close(self, *, agree: bool = True) -> None:
        """End this worker's part; closing twice is allowed.

        With a process group it waits for the other workers to close or to fail, so that one which missed the last
        result still gets it; ``agree=False``, used when an exception ends the run, does not wait.
        """
        for closer in self._closers:
            closer()
        self._closers.clear()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if agree and self._fallback and self._standing is None and self._broken is None:
                    self._stand(closing=True)
            except FallbackError as error:
                _LOG.warning("job %s: closed without the other workers: %s", self.config.name, error)
            finally:
                self._transport.close()

    def reduce(self, x: Tensor, bucket: int = 0) -> tuple[Tensor, Tensor]:
        """Mean of the workers' flat tensors, and what this worker's share of it left out.

        Both float32 of x's length; the mean has equal bits on all workers and must not be changed. ``bucket``
        (its low 16 bits) travels with the packets, to notice workers that reduce different things.
        Raises NonFiniteError before anything is sent; else the errors of :mod:`sumwire.errors`.
        """
        with self._lock:
            self._check_usable()
            if x.numel() == 0:
                # Not an operation: it needs no other worker, so it must not move the count that they compare.
                return x.to(torch.float32), x.to(torch.float32)
            began = time.monotonic()
            try:
                outcome = self._reduce(x, bucket % _BUCKETS)
            except RecreateError as error:
                self._broken = error
                raise
            self._completed += 1
            if self._fallback is not None:
                self._last = outcome[0]
            self.stats.operations += 1
            self.stats.values += x.numel()
            self.stats.operation_s += time.monotonic() - began
            return outcome

    def _check_usable(self) -> None:
        if self._closed:
            raise ClosedError(f"job {self.config.name} is closed")
        if self._broken is not None:
            raise self._broken

    def _reduce(self, x: Tensor, bucket: int) -> tuple[Tensor, Tensor]:
        round_ = self._begin(x, bucket)
        if self._standing is not None:
            return self._ordinary(x)
        try:
            return self._through_switch(round_, bucket)
        except DeadlineError as error:
            if self._fallback is None:
                raise
            return self._fall_back(x, round_, error)

    def _begin(self, x: Tensor, bucket: int) -> ThcRound:
        began = time.monotonic()
        try:
            round_ = self._codec.begin(x, self._completed, bucket)
        except (CodecNonFiniteError, CodecNormRangeError) as error:
            raise NonFiniteError(str(error)) from error
        self.stats.encode_s += time.monotonic() - began
        return round_

    def _through_switch(self, round_: ThcRound, bucket: int) -> tuple[Tensor, Tensor]:
        """Norms and rotation side by side, then indices up and sums down."""
        stats = self.stats
        if not self._greeted:
            self._greet()
        norms = round_.norms()
        self._transport.start(p4.OP_MAX32, _lanes(norms), bucket, waits_for_workers=True)
        began = time.monotonic()
        round_.rotate()
        stats.encode_s += time.monotonic() - began
        agreed = _from_lanes(self._transport.finish().words, len(norms))
        began = time.monotonic()
        planes = round_.encode(agreed)
        stats.encode_s += time.monotonic() - began
        results = self._transport.exchange(p4.OP_THC, planes, bucket)
        began = time.monotonic()
        try:
            mean = round_.decode(results.words, results.counts)
        except CodecError as error:
            raise RecreateError(f"job {self.config.job}: result that no sum can be: {error}") from error
        stats.decode_s += time.monotonic() - began
        began = time.monotonic()
        included = (results.contributors >> np.uint32(self.config.worker) & np.uint32(1)).astype(bool)
        residual = round_.residual(None if included.all() else included)
        stats.encode_s += time.monotonic() - began
        return mean, residual

    def _greet(self) -> None:
        self._transport.start(p4.OP_MAX32, self._greeting.payload(), waits_for_workers=True, deadline_s=self._join_s)
        self._greeting.check(self._transport.finish().words)
        self._greeted = True

    def _fall_back(self, x: Tensor, round_: ThcRound, reason: DeadlineError) -> tuple[Tensor, Tensor]:
        """Finish this operation without the switch, together with all other workers."""
        standing = self._stand(closing=False, like=x)
        _LOG.warning("job %s falls back to the ordinary all-reduce for good: %s", self.config.name, reason)
        self.stats.fallbacks += 1
        if self._completed < standing.last:
            assert self._last is not None
            # The sum was made, so all of this worker's indices are in it.
            return self._last.to(x.device), round_.residual()
        return self._ordinary(x)

    def _stand(self, *, closing: bool, like: Tensor | None = None) -> Standing:
        """Agree with all workers where the job stands; the operation that some miss is in ``_last`` afterwards."""
        assert self._fallback is not None
        standing = self._fallback.agree(self._completed, closing=closing)
        if standing.uneven:
            behind = self._completed < standing.last
            own = like if behind else self._last
            assert own is not None
            self._last = self._fallback.hand_out(standing, own.to("cpu", torch.float32))
        self._standing = standing
        return standing

    def _ordinary(self, x: Tensor) -> tuple[Tensor, Tensor]:
        assert self._fallback is not None and self._standing is not None
        if any(self._standing.closing):
            gone = [rank for rank, closing in enumerate(self._standing.closing) if closing]
            raise FallbackError(f"operation {self._completed} cannot be finished: ranks {gone} have closed the job")
        self.stats.fallback_operations += 1
        mean = self._fallback.mean(x.detach().to("cpu", torch.float32)).to(x.device)
        return mean, torch.zeros_like(mean)


def _check(config: JobConfig, deadline_s: float, join_s: float) -> None:
    where = f"job {config.name}"
    for op in ("thc", "max32"):
        if op not in config.ops:
            raise ConfigError("ops", config.ops, f"must have {op} to reduce gradients", where=where)
    if config.quorum != config.workers:
        rule = f"must be {config.workers}, all workers: a worker left out could not catch up yet"
        raise ConfigError("quorum", config.quorum, rule, where=where)
    for name, seconds in (("deadline_s", deadline_s), ("join_s", join_s)):
        if not seconds > 0:
            raise ConfigError(name, seconds, "must be above 0 seconds", where=where)


def _lanes(values: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """uint32 values as MAX32 words, shape (chunks, 1, 128), the last filled up with 0."""
    chunks = -(-len(values) // LANES)
    lanes = np.zeros(chunks * LANES, _LANE)
    lanes[: len(values)] = values
    return lanes.view(np.uint8).reshape(chunks, 1, WORD_BYTES)


def _from_lanes(words: NDArray[np.uint8], count: int) -> NDArray[np.uint32]:
    return words.reshape(-1).view(_LANE)[:count].astype(np.uint32)
