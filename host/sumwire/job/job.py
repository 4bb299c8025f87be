# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker's part in one job: the transport, the order of its operations and the way out, used by all ways in."""

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
from sumwire_protocol import constants as p4
from torch import Tensor

from sumwire.codec.base import GradientCodec
from sumwire.codec.feedback import ErrorFeedback
from sumwire.codec.sign import SignCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tables import ThcTable
from sumwire.codec.thc import BLOCK_VALUES, ThcCodec
from sumwire.config import OP_NAMES, JobConfig
from sumwire.errors import ClosedError, ConfigError, DeadlineError, FallbackError, RecreateError, SumOverflowError
from sumwire.job.fallback import Fallback, Standing
from sumwire.job.greeting import Greeting
from sumwire.job.operations import CodecOperation, Max32, Operation, SignMerge, Sum32, Tagging, Vote, require
from sumwire.transport.catchup.kept_results import KEPT_CHUNKS
from sumwire.transport.delivery import Delivery
from sumwire.transport.options import ExchangeOptions, TransportOptions
from sumwire.transport.rtt import RttEstimator
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport

_LOG: Final = logging.getLogger("sumwire")
_BUCKETS: Final = 1 << 16

# Gives what a worker's share of an aggregate left out of its tensor. Called once at most, before the tensor changes.
Residual = Callable[[], Tensor]


class Job:
    """One worker of one job, from its first operation to :meth:`close`. Also a context manager.

    All workers make the same calls with the same lengths in the same order. One thread at a time works; others
    wait. Each call needs its ops in the job file, and all need max32. `block` is the length of THC's rotation (see
    ThcCodec), equal on all workers.

    Seconds: ``deadline_s`` without any new result end an operation with DeadlineError, ``join_s`` the same for the
    first packets, while other workers may still be starting. ``rtt`` sets the retransmission timeout's limits.
    ``delivery``: how much of a tensor may be missing, and how it travels; without it all of it arrives, by plain
    resends in a window of half the slots.

    With ``fallback`` "auto" and torch.distributed initialised, the job makes a gloo group of its own (a collective
    call), and an operation without answer is finished by that group's collectives, as are all after it
    (see :mod:`sumwire.job.fallback`). With "never", or without torch.distributed, DeadlineError reaches the caller.

    With a quorum below the workers, on one switch, the others go on without a slow worker. It gets the results that it
    missed from the switch, or from other workers, who keep the latest while their job is open: all end with the same.
    What it had to give to sums that it was left out of is in its residual. Where it sees that it is behind
    (:meth:`results_ahead`), it may spare itself the computing and :meth:`follow`. ``kept_chunks``: results that each
    worker keeps for the others, up to 1 KiB each. One that falls behind by more ends with StaleRunError.

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
        delivery: Delivery | None = None,
        kept_chunks: int = KEPT_CHUNKS,
    ) -> None:
        _check(config, deadline_s, join_s)
        self.config = config
        self.stats = JobStats()
        self.feedback = ErrorFeedback()
        self._join_s = join_s
        self._thc = _thc_codec(config, block)
        self._sum32 = Sum32Codec(workers=config.workers, clamp=config.quorum < config.workers)
        self._sign = SignCodec()
        self._greeting = Greeting(
            config, {"block": block, "delivery": None if delivery is None else delivery.settings()}
        )
        self._greeted = False
        self._lock = threading.Lock()
        self._closers: list[Callable[[], None]] = []
        self._closed = False
        self._broken: RecreateError | None = None
        self._completed = 0
        # Result of the latest operation, for a worker that missed its last packets. Never given to callers.
        self._last: Tensor | None = None
        self._standing: Standing | None = None
        self._transport = Transport(
            config, TransportOptions(deadline_s, delivery, kept_chunks), rtt=rtt, stats=self.stats
        )
        # What sums are divided by whoever is in them, if anything.
        self._divide_by = config.workers if delivery is not None and delivery.divisor == "workers" else None
        self._fallback: Fallback | None = None
        if fallback == "auto" and Fallback.available():
            self._fallback = Fallback(config.workers, peer_timeout_s)

    @property
    def workers(self) -> int:
        """Workers of the job."""
        return self.config.workers

    @property
    def fallen_back(self) -> bool:
        """Whether operations now go by the process group."""
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

    def reduce(self, x: Tensor, bucket: int = 0, *, tag: Tagging | None = None) -> tuple[Tensor, Residual]:
        """THC: mean of the workers' flat tensors, and a function that gives what this worker's share of it left out.

        Both float32 of x's length; the mean has equal bits on all workers and must not be changed. The residual is
        work that is done only when asked for, and needs x as it was. ``bucket`` (its low 16 bits) travels with the
        packets, to notice workers that reduce different things. ``tag``: see :meth:`reduce_with`.
        Raises NonFiniteError before anything is sent; else the errors of :mod:`sumwire.errors`.
        """
        if self._thc is None:
            require(self.config, ("thc",), "to reduce gradients with THC")
        assert self._thc is not None
        return self.reduce_with(self._thc, x, bucket, tag=tag)

    def reduce_with(
        self, codec: GradientCodec, x: Tensor, bucket: int = 0, *, tag: Tagging | None = None
    ) -> tuple[Tensor, Residual]:
        """The same with any codec whose ops the job has. ``tag`` maps the magnitudes of the tensor's chunks, float32
        (chunks,), to the IPv4 TOS bytes of their packets, uint8 (chunks,)."""
        kept: list[CodecOperation] = []

        def residual() -> Tensor:
            return kept[0].residual() if kept else torch.zeros_like(result)

        def make(sequence: int) -> Operation:
            operation = CodecOperation(codec, x, sequence=sequence, bucket=bucket % _BUCKETS, stats=self.stats)
            kept.append(operation.with_options(tag, self._divide_by))
            return kept[0]

        result = self._run(make, ((OP_NAMES[codec.info.op],), x.numel()), x.to(torch.float32))
        return result, residual

    def results_ahead(self) -> bool:
        """Whether the other workers are in an operation that this worker has not begun, and finish it without it: its
        next, or a later one. Never so with a quorum of all workers. To be asked between operations."""
        with self._lock:
            self._check_usable()
            if self._standing is not None:
                return False
            self._transport.drain()
            first = self._transport.next_sequence + (0 if self._greeted else self._greeting.chunks)
            return self._transport.others_reached(first)

    def follow(self, values: int, bucket: int = 0, *, codec: GradientCodec | None = None) -> Tensor:
        """The mean of an operation that the other workers do without this one, which sends nothing: what
        :meth:`reduce` (or with ``codec``, :meth:`reduce_with`) of ``values`` values gives them, with equal bits.

        Only after :meth:`results_ahead` has said True: else nobody may be doing it, and it ends with DeadlineError.
        Raises ConfigError with a quorum of all workers.
        """
        config = self.config
        if config.quorum == config.workers:
            rule = f"must be below {config.workers}, the workers: no sum is made without this one"
            raise ConfigError("quorum", config.quorum, rule, where=f"job {config.name}")
        if codec is None:
            require(config, ("thc",), "to follow a reduction with THC")
            assert self._thc is not None
            codec = self._thc
        chosen, nothing = codec, torch.zeros(values)

        def make(sequence: int) -> Operation:
            operation = CodecOperation(chosen, nothing, sequence=sequence, bucket=bucket % _BUCKETS, stats=self.stats)
            return operation.with_options(None, self._divide_by, contribute=False)

        return self._run(make, ((OP_NAMES[chosen.info.op],), values), nothing)

    def mean(self, x: Tensor, bucket: int = 0) -> Tensor:
        """Mean in full precision of the workers' flat tensors, float32 (float64 if x is), by SUM32.

        Error bound: :mod:`sumwire.codec.sum32`. Equal bits on all workers.
        """
        return self.reduce_with(self._sum32, x, bucket)[0]

    def max32(self, values: NDArray[np.uint32], bucket: int = 0) -> NDArray[np.uint32]:
        """Largest of the workers' uint32 values of shape (length,), in every place."""
        return self._collective(Max32(values, bucket % _BUCKETS)).numpy().astype(np.uint32)

    def sum32(self, lanes: NDArray[np.int32], bucket: int = 0) -> NDArray[np.int32]:
        """Exact sum of the workers' int32 values of shape (length,).

        Raises SumOverflowError, on all workers alike, where a partial or whole sum leaves int32; the job goes on.
        """
        sums = self._collective(Sum32(lanes, bucket % _BUCKETS)).numpy()
        if len(lanes) and sums[-1]:
            raise SumOverflowError(f"job {self.config.name}: a sum of {self.workers} workers leaves int32")
        return sums[: len(lanes)]

    def merged_signs(self, x: Tensor, bucket: int = 0) -> Tensor:
        """In every place +1 or -1: the sign of one worker's value there, drawn with equal probabilities. Zero is plus.

        Flat tensors; float32 (float64 if x is). After a fall-back, the mean of the workers' signs, which is what
        merged signs are on average.
        """
        return self.reduce_with(self._sign, x, bucket)[0]

    def sign_merge(self, plus: Tensor, bucket: int = 0) -> Tensor:
        """In every place the sign of one worker, drawn with equal probabilities: bool of shape (length,), CPU or not.

        Its mean is the share of plus among the workers. Equal on all workers.
        """
        return self._run(
            lambda sequence: SignMerge(plus, bucket % _BUCKETS, job=self.config.job, sequence=sequence),
            (SignMerge.ops, len(plus)),
            plus,
        ).to(plus.device, torch.bool)

    def vote(self, plus: Tensor, bucket: int = 0) -> Tensor:
        """Majority of the workers' signs, bool of shape (length,); a tie is plus."""
        return self._collective(Vote(plus, bucket % _BUCKETS)).to(plus.device, torch.bool)

    def _collective(self, operation: Operation) -> Tensor:
        return self._run(lambda _: operation, (operation.ops, operation.values), operation.like())

    def _run(self, make: Callable[[int], Operation], needs: tuple[tuple[str, ...], int], empty: Tensor) -> Tensor:
        """One operation: ``make(sequence)`` is called with the lock held. ``needs``: its ops and its length; without
        length the result is ``empty``."""
        ops, length = needs
        require(self.config, ops, "for this operation")
        with self._lock:
            self._check_usable()
            if length == 0:
                # Not an operation: it needs no other worker, so it must not move the count that they compare.
                return empty
            began = time.monotonic()
            operation = make(self._completed)
            try:
                result = self._carry_out(operation)
            except RecreateError as error:
                self._broken = error
                raise
            finally:
                self.stats.operation_s += time.monotonic() - began
            self._completed += 1
            if self._fallback is not None:
                self._last = result
            self.stats.operations += 1
            self.stats.values += operation.values
            return result

    def _check_usable(self) -> None:
        if self._closed:
            raise ClosedError(f"job {self.config.name} is closed")
        if self._broken is not None:
            raise self._broken

    def _carry_out(self, operation: Operation) -> Tensor:
        if self._standing is not None:
            return self._ordinary(operation)
        try:
            if not self._greeted:
                self._greet()
            return operation.through_switch(self._transport, self.config, self.stats)
        except DeadlineError as error:
            if self._fallback is None:
                raise
            return self._fall_back(operation, error)

    def _greet(self) -> None:
        options = ExchangeOptions(waits_for_workers=True, deadline_s=self._join_s)
        results = self._transport.exchange(p4.OP_MAX32, self._greeting.payload(), options=options)
        self._greeting.check(results.words, results.contributors)
        self._greeted = True

    def _fall_back(self, operation: Operation, reason: DeadlineError) -> Tensor:
        """Finish this operation without the switch, together with all other workers."""
        standing = self._stand(closing=False, like=operation.like())
        _LOG.warning("job %s falls back to the ordinary all-reduce for good: %s", self.config.name, reason)
        self.stats.fallbacks += 1
        if self._completed < standing.last:
            assert self._last is not None
            return operation.take(self._last)
        return self._ordinary(operation)

    def _stand(self, *, closing: bool, like: Tensor | None = None) -> Standing:
        """Agree with all workers where the job stands; the operation that some miss is in ``_last`` afterwards."""
        assert self._fallback is not None
        standing = self._fallback.agree(self._completed, closing=closing)
        if standing.uneven:
            behind = self._completed < standing.last
            own = like if behind else self._last
            assert own is not None
            self._last = self._fallback.hand_out(standing, own.cpu())
        self._standing = standing
        return standing

    def _ordinary(self, operation: Operation) -> Tensor:
        assert self._fallback is not None and self._standing is not None
        if any(self._standing.closing):
            gone = [rank for rank, closing in enumerate(self._standing.closing) if closing]
            raise FallbackError(f"operation {self._completed} cannot be finished: ranks {gone} have closed the job")
        self.stats.fallback_operations += 1
        return operation.ordinary(self._fallback)


def _thc_codec(config: JobConfig, block: int | None) -> ThcCodec | None:
    if config.thc is None:
        return None
    table = ThcTable(config.thc.table, config.thc.bits, config.thc.granularity, config.thc.p)
    return ThcCodec(table, job=config.job, worker=config.worker, block=block)


def _check(config: JobConfig, deadline_s: float, join_s: float) -> None:
    where = f"job {config.name}"
    require(config, ("max32",), "with which workers greet each other")
    if config.quorum != config.workers and len(config.seats) != config.workers:
        rule = f"must be {config.workers}, all workers: in a tree of switches, one left out could not catch up"
        raise ConfigError("quorum", config.quorum, rule, where=where)
    for name, seconds in (("deadline_s", deadline_s), ("join_s", join_s)):
        if not seconds > 0:
            raise ConfigError(name, seconds, "must be above 0 seconds", where=where)
