# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker's part in one job: the transport, the order of its operations, and the fall-back.

All entry points (all_reduce, the DDP hook, the optimizer wrappers) use a :class:`Job`.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Final, NoReturn, Self, SupportsIndex

import numpy as np
import torch
from commonlib import log_context
from torch import Tensor
from torch._C._autograd import _profiler_enabled

from sumwire.checkpoint import Content, Place, Saved, refuse_pickling
from sumwire.codec.base import GradientCodec
from sumwire.codec.feedback import ErrorFeedback
from sumwire.codec.sign import SignCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tensors import Recycler
from sumwire.codec.thc import BLOCK_VALUES, ThcCodec
from sumwire.config import OP_NAMES, JobConfig
from sumwire.errors import ConfigError, RetryError
from sumwire.job.codec_operation import CodecOperation, CodecOptions, Tagging, check_fit, mean_by
from sumwire.job.collectives import Collectives
from sumwire.job.control import Change
from sumwire.job.fallback import COMPARED, GroupMean
from sumwire.job.gloo import Ranks, taking_part
from sumwire.job.group_session import open_session
from sumwire.job.metrics import close_unused, opened, serve
from sumwire.job.one_trip import CarriedScales
from sumwire.job.operations import BUCKETS, Asked, Operation, Signature, check_ops
from sumwire.job.rules import NonFinite, check_blind, check_job, refuse_nonfinite, result_check, thc_codec
from sumwire.job.session import (
    FallbackOption,
    SessionOptions,
    check_through,
    is_grouped,
    run_of,
    say_failed,
    say_opened,
)
from sumwire.job.tuning import (
    SIZES,
    Selection,
    Through,
    TuningTable,
    check_sizes,
    let_pass,
    measured,
    save_table,
    timed_by,
)
from sumwire.lifecycle import Lifecycle
from sumwire.logs import by_environment
from sumwire.trace import operation as span_of_operation
from sumwire.trace import start as start_trace
from sumwire.trace import use_profiler
from sumwire.transport.kept_results import KEPT_CHUNKS
from sumwire.transport.options import SILENCE_S, Delivery
from sumwire.transport.retransmission import RttEstimator
from sumwire.transport.stats import JobStats

_LOG: Final = logging.getLogger("sumwire")
_MICRO: Final = 1e6

# Gives what a mean lacks of this worker's tensor. To be called at most once, before the tensor changes.
Residual = Callable[[], Tensor]


class Job(Collectives, Saved):
    """One worker of one job, from its first operation to :meth:`close`. Also a context manager.

    All workers make the same calls, with the same lengths, in the same order. One thread works at a time; others wait.
    Every call needs its ops in the job file, and all calls need max32. ``block``: the length of THC's rotation (see
    ThcCodec), equal on all workers.

    With torch.distributed initialised the job makes two gloo groups and a control thread of its own. Making and closing
    it are then collective calls, in the same order on all ranks. If a rank cannot make its job, or its process ends,
    the others get PeerLostError with the reason. Operations wait for slow or stopped workers as long as the process
    group does. If the switch is lost, all workers agree to go on with the group's collectives, and to return when all
    of them see the switch again (:mod:`sumwire.job.coordination`).

    ``fallback``: with "auto" a switch that does not answer at the start is an error on all workers, since something is
    set up wrongly; with "always" training begins without it. With "never" a lost switch is always an error.

    Without a process group, ``deadline_s`` is after how many seconds without any new result an operation ends with
    DeadlineError, and ``join_s`` the same for the greeting, while other workers may still be starting. ``silence_s``:
    the switch counts as lost after so many seconds without an answer.

    ``workers``: how many of the job's workers take part, if the job file allows a range. With a process group it is the
    number of ranks. ``rtt``: the estimator of the retransmission timeout. ``delivery``: the loss bound, congestion
    control and probes; without it tensors arrive complete, by plain retransmission in a window of half the slots.

    With a quorum below the number of workers (on one switch only), the other workers do not wait for a straggler. It
    gets the results that it missed from the switch, or from other workers, which keep the latest ones; so all workers
    apply the same sums. If a sum closed without this worker, its contribution is in the residual. A straggler
    (:meth:`results_ahead`) can :meth:`follow` instead of computing a gradient. ``kept_chunks``: results that each
    worker keeps for the others, up to 1 KiB each; of long packets an eighth. A worker that falls behind by more ends
    with StaleRunError.

    ``nonfinite``: where some worker's tensor has NaN or infinity, all workers get NaN ("propagate"), or the same
    NonFiniteError after the operation ("raise"), and the job stays usable.

    ``one_trip``: small tensors are encoded with the norms of the last one of their bucket and length, and need one
    round trip; False asks for the norms every time. ``through``: means go through the "switch", or by the "group"; with
    "auto" each goes by whichever was measured to be faster for its size (:meth:`tune`), and without a measurement
    through the switch. Both must be equal on all workers.

    ``blind_key``: for a blind job, a secret that all workers already share. It protects their key exchange against
    anyone who can change the process group's packets.

    ``metrics``: "[ADDRESS:]PORT" at which metrics are served over HTTP until the job closes. None takes it from
    SUMWIRE_METRICS, and serves none if that is not set (:mod:`sumwire.job.metrics`).

    ``trace``: a file for the spans of this process's operations, written when the job closes. None takes it from
    SUMWIRE_TRACE, and writes none if that is not set (:mod:`sumwire.trace`). "{worker}" in it is the worker.

    ``ranks``: the ranks that are the job's workers, where they are not all ranks of the default process group
    (:class:`sumwire.job.gloo.Ranks`). "The process group" above then means these ranks.

    After a RecreateError, RefusedError or MismatchError the job is unusable and raises that error again, and after
    KeyboardInterrupt or any foreign exception InterruptedJobError.
    """

    def __init__(
        self,
        config: JobConfig,
        *,
        deadline_s: float = 10.0,
        join_s: float = 30.0,
        block: int | None = BLOCK_VALUES,
        fallback: FallbackOption = "auto",
        workers: int | None = None,
        rtt: RttEstimator | None = None,
        delivery: Delivery | None = None,
        kept_chunks: int = KEPT_CHUNKS,
        nonfinite: NonFinite = "propagate",
        one_trip: bool = True,
        through: Through = "auto",
        silence_s: float = SILENCE_S,
        blind_key: bytes | None = None,
        ranks: Ranks | None = None,
        metrics: str | None = None,
        trace: str | None = None,
    ) -> None:
        by_environment()
        self._grouped = is_grouped(ranks)
        with taking_part(config.name, ranks):
            check_job(config, deadline_s=deadline_s, join_s=join_s, silence_s=silence_s)
            result_check(nonfinite)
            self.config = config = run_of(config, workers, fallback, ranks)
            check_through(config, through, grouped=self._grouped)
            check_blind(config, delivery, grouped=self._grouped)
            self._thc = thc_codec(config, block)
            self._sum32 = Sum32Codec(workers=config.workers, clamp=config.quorum < config.workers)
            exposition = opened(config, metrics)
            tracing = start_trace(trace, config.name, config.worker)
        use_profiler(_profiler_enabled, torch.profiler.record_function)
        self._raises = nonfinite == "raise"
        self.stats = JobStats()
        self.feedback = ErrorFeedback()
        self._sign = SignCodec()
        self._here = log_context.opened(config.job, config.worker)
        self._completed = 0
        # Number of the first operation, which earlier processes have reached. Codecs draw random bits by the number.
        self._first = 0
        # The number to divide every sum by; None for its contributors.
        self._divide_by = config.workers if delivery is not None and delivery.divisor == "workers" else None
        self._memory = Recycler()
        delivered = None if delivery is None else delivery.settings()
        settings = {"block": block, "delivery": delivered, "one_trip": one_trip}
        options = SessionOptions(
            settings, deadline_s, join_s, fallback, delivery, kept_chunks, rtt, through, silence_s, blind_key, ranks
        )
        try:
            self._session = open_session(config, options, self.stats)
        except BaseException:
            close_unused(exposition)
            if tracing is not None:
                tracing()
            raise
        self._life = Lifecycle(
            f"job {config.name}",
            "Job(config)",
            doing=lambda: f"operation {self._sequence}",
            give_up=self._session.give_up,
            broke=partial(say_failed, config),
        )
        # Whether every sum has all contributions.
        self._complete = config.quorum == config.workers and (delivery is None or not delivery.loss_bound)
        # In a blind job a worker that left its values out of the first of two sums would be known by their difference.
        self._carried = CarriedScales() if one_trip and config.quorum == config.workers and not config.blind else None
        self._session.on_change(self._forget_scales)
        self._exposition = exposition
        say_opened(config, grouped=self._grouped)
        if tracing is not None:
            self.on_close(tracing)
        if exposition is not None:
            self.on_close(serve(exposition, config, self.stats, self._session.window, lambda: self.fallen_back))

    @property
    def workers(self) -> int:
        """Number of workers of this run."""
        return self.config.workers

    @property
    def grouped(self) -> bool:
        """Whether the job has a process group."""
        return self._grouped

    @property
    def summands(self) -> int:
        """Number of tensors that a mean is over: one from each worker."""
        return self.config.workers

    @property
    def fallen_back(self) -> bool:
        """Return whether operations now use the process group instead of the switch."""
        return self._session.fallen_back

    @property
    def metrics(self) -> str | None:
        """The address where the job's metrics are served, as ADDRESS:PORT; None if they are not."""
        return None if self._exposition is None else str(self._exposition.endpoint)

    def on_change(self, callback: Callable[[Change], None]) -> None:
        """Call ``callback(change)`` after every fall-back and every return to the network.

        The control thread calls it: it must be quick, and make no operation. Its exceptions are logged.
        """
        self._session.on_change(callback)

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """``with job.pause():`` declares this worker silent on purpose, e.g. because it evaluates: others wait for it
        without warnings. Has no effect without a process group."""
        self._life.check_process()
        return self._session.pause()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(agree=error is None)

    def on_close(self, closer: Callable[[], None]) -> None:
        """Register a function that :meth:`close` calls first, for example to end a thread that uses the job. The last
        registered is called first."""
        self._life.on_close(closer)

    @property
    def _sequence(self) -> int:
        """Number of the next operation, counted over all processes that have gone on from a state."""
        return self._first + self._completed

    def place(self) -> Place:
        return Place.here(Place(self.config.worker, self.workers))

    def kept(self) -> Content:
        """Return the number of operations made, the residuals of ``feedback``, and the scales of small tensors."""
        with self._life.between_calls():
            scales = [] if self._carried is None else self._carried.kept()
            rest = {"operations": self._sequence, "scales": scales}
            return Content({"feedback": self.feedback.kept().residuals}, rest)

    def restore(self, content: Content, /) -> None:
        with self._life.between_calls():
            self.feedback.restore(Content(content.residuals["feedback"]))
            self._first = content.rest["operations"] - self._completed
            if self._carried is not None:
                self._carried.restore(content.rest.get("scales", []))

    def _forget_scales(self, change: Change) -> None:
        if self._carried is not None and change.kind == "fallback":
            self._carried.clear()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_pickling(self, "a socket")

    def close(self, *, agree: bool = True) -> None:
        """End this worker's part; closing twice is allowed.

        With a process group it waits until the other workers close or fail, so that a worker without the last result
        still gets it. ``agree=False``, used when an exception ends the run, does not wait: an operation under way in
        another thread ends with ClosedError, and other workers' operations with PeerLostError. In a forked child
        nothing happens.
        """
        if not agree:
            self.give_up()
        self._life.close(partial(self._end, agree=agree))

    def _end(self, *, agree: bool) -> None:
        self._session.close(None if agree and self._life.broken is None else self._life.why)
        log_context.closed(self._here)

    def give_up(self) -> None:
        """End operations with ClosedError: those under way in other threads, and all later ones. Call :meth:`close`
        afterwards."""
        self._life.give_up()

    def reduce(
        self,
        x: Tensor,
        bucket: int = 0,
        *,
        tag: Tagging | None = None,
        given: str = "",
        into: Tensor | None = None,
        total: bool = False,
    ) -> tuple[Tensor, Residual]:
        """Return the mean of the workers' flat tensors by THC, and a function that returns this worker's residual.

        Both are float32 of x's length. The mean has equal bits on all workers and must not be changed. The residual is
        the part of x that the mean lacks. It is only computed when the function is called, and needs x unchanged.
        ``bucket``: a number equal on all workers. Calls that differ in it, in length or in order end with OrderError.
        ``tag``, ``given``, ``into``, ``total``: see :meth:`reduce_with`. Raises the errors of :mod:`sumwire.errors`.
        """
        thc = self._thc_for("to reduce gradients with THC")
        return self.reduce_with(thc, x, bucket, tag=tag, given=given, into=into, total=total)

    def reduce_with(
        self,
        codec: GradientCodec,
        x: Tensor,
        bucket: int = 0,
        *,
        tag: Tagging | None = None,
        given: str = "",
        into: Tensor | None = None,
        total: bool = False,
    ) -> tuple[Tensor, Residual]:
        """Like :meth:`reduce`, with ``codec`` instead of THC. The job must have the codec's ops, and a THC codec the
        job's table; otherwise ConfigError is raised.

        ``tag``: maps the magnitudes of the tensor's chunks, float32 (chunks,), to the IPv4 TOS bytes of their packets,
        uint8 (chunks,). ``given``: a text that must be equal on all workers, which describes how the caller uses the
        mean. ``into``: a contiguous float32 CPU tensor, which may be x itself. Where that saves time the mean is
        written there, once all of it has arrived, and ``into`` is returned; if it is x, there is no residual.
        ``total``: the mean times the workers instead of the mean. All workers must pass the same.
        """
        # "raise" leaves the caller's tensor as it was. What is masked is not kept in the op's words.
        target = into if self._complete and not self._raises and not self.config.blind else None
        options = CodecOptions(
            tag=tag,
            divide_by=self._divide_by,
            carried=self._carried,
            into=target,
            multiply_by=self.workers if total else 1,
        )
        choice = self._session.choice
        by_group = choice.through != "switch" and choice.by_group(codec.info.name, x)
        kept: list[CodecOperation | GroupMean] = []

        def residual() -> Tensor:
            return kept[0].residual() if kept else torch.zeros_like(result)

        def make(sequence: int) -> Operation:
            if by_group:
                check_fit(self.config, codec, tagged=tag is not None)
                group = GroupMean(codec.info.name, x, bucket % BUCKETS, self._memory, into=target, total=total)
                kept.append(group)
            else:
                kept.append(self._codec_operation(codec, x, bucket, sequence, options))
            return kept[0]

        what = GroupMean.instead_of(codec.info.name) if by_group else mean_by(codec.info.name)
        asked = Asked((OP_NAMES[codec.info.op],), what, x.numel(), bucket, given, by_group=by_group)
        result = self._run(make, asked, x.to(torch.float32))
        if self._raises:
            refuse_nonfinite(result, bucket)
        return result, residual

    def results_ahead(self) -> bool:
        """Return True if the other workers have finished chunks of an operation that this worker has not started. They
        will complete it without this worker's contribution.

        Call it between operations. Only possible with a quorum below the number of workers.
        """
        with self._life.between_calls():
            self._life.check()
            return self._session.results_ahead()

    def follow(self, values: int, bucket: int = 0, *, codec: GradientCodec | None = None) -> Tensor:
        """Return the mean of an operation that the other workers do without this one. This worker sends nothing.

        It takes the place of :meth:`reduce` (with ``codec``, of :meth:`reduce_with`) for a tensor of ``values`` values,
        and returns the same bits as on the other workers. Call it after :meth:`results_ahead` has returned True.
        Otherwise there may be no such operation, and the call ends with DeadlineError. Raises ConfigError with a quorum
        of all workers.
        """
        config = self.config
        if config.quorum == config.workers:
            rule = f"must be below {config.workers}, the workers: no sum is made without this one"
            raise ConfigError("quorum", config.quorum, rule, where=f"job {config.name}")
        chosen = codec if codec is not None else self._thc_for("to follow a reduction with THC")
        nothing = torch.zeros(values, dtype=torch.float32, device="cpu")
        options = CodecOptions(divide_by=self._divide_by, contribute=False)

        def make(sequence: int) -> Operation:
            return self._codec_operation(chosen, nothing, bucket, sequence, options)

        asked = Asked((OP_NAMES[chosen.info.op],), mean_by(chosen.info.name), values, bucket, contribute=False)
        result = self._run(make, asked, nothing)
        return refuse_nonfinite(result, bucket) if self._raises else result

    def mean(self, x: Tensor, bucket: int = 0) -> Tensor:
        """Return the mean of the workers' flat tensors in full precision, by SUM32: float32, or float64 if x is.

        Equal bits on all workers. Error bound: :mod:`sumwire.codec.sum32`.
        """
        return self.reduce_with(self._sum32, x, bucket)[0]

    def merged_signs(self, x: Tensor, bucket: int = 0, *, given: str = "", into: Tensor | None = None) -> Tensor:
        """Return +1 or -1 for every value: one worker's sign, drawn with equal probabilities. Zero is plus.

        Flat tensors; the result is float32, or float64 if x is. After a fall-back it is the mean of the workers' signs,
        which is the expectation of merged signs. ``given``, ``into``: see :meth:`reduce_with`.
        """
        return self.reduce_with(self._sign, x, bucket, given=given, into=into)[0]

    def tune(self, sizes: Sequence[int] = SIZES) -> TuningTable:
        """Measure for each size whether the switch or the process group is faster, and use the faster one from now on.

        A collective call of some seconds, with equal ``sizes`` on all workers. The table is kept on this machine for
        later jobs with these aggregators and so many workers. Raises ConfigError without a process group or with a
        quorum below the workers, UsageError for sizes that do not rise and if the table cannot be kept, and RetryError
        if the switch was lost meanwhile.
        """
        check_sizes(sizes)
        check_through(self.config, "group", grouped=self._grouped)
        codecs: dict[str, GradientCodec] = {"sum32": self._sum32} if "sum32" in self.config.ops else {}
        if self._thc is not None:
            codecs["thc"] = self._thc
        fallbacks, before = self.stats.fallbacks, self._session.choice
        try:
            ways = {name: timed_by(partial(self._in_place, codec), self._choose) for name, codec in codecs.items()}
            if ways:
                let_pass(next(iter(ways.values())), COMPARED)
            table = measured(ways, self._slowest, sizes)
        finally:
            self._session.choice = before
        if self.fallen_back or self.stats.fallbacks > fallbacks:
            raise RetryError(f"job {self.config.name}: the switch was lost while it was measured; call tune again")
        self._session.choice = Selection("auto", table)
        save_table(self.config, table)
        return table

    def _in_place(self, codec: GradientCodec, x: Tensor) -> None:
        # A sum: for a mean the group would take another pass.
        self.reduce_with(codec, x, into=x, total=True)

    def _choose(self, through: Through) -> None:
        self._session.choice = Selection(through)

    def _slowest(self, seconds: float) -> float:
        """The largest of the workers' times, equal on all."""
        return float(self.max32(np.array([seconds * _MICRO], np.uint32))[0]) / _MICRO

    def _codec_operation(
        self, codec: GradientCodec, x: Tensor, bucket: int, sequence: int, options: CodecOptions
    ) -> CodecOperation:
        check_fit(self.config, codec, tagged=options.tag is not None)
        return CodecOperation(codec, x, sequence=sequence, bucket=bucket % BUCKETS, stats=self.stats, options=options)

    def _run(self, make: Callable[[int], Operation], asked: Asked, empty: Tensor) -> Tensor:
        """Carry out one operation. ``make(sequence)`` creates it, with the lock held, unless its length is 0: then the
        result is ``empty``."""
        check_ops(self.config, asked.ops)
        with self._life as life:
            began = time.monotonic()
            whole = asked.length > 0 or asked.by_group
            sequence = self._sequence
            call = Signature(sequence, asked.what, asked.length, asked.bucket % BUCKETS, asked.given)
            try:
                with span_of_operation(call.what, call.number, call.values, call.bucket):
                    operation = make(sequence) if whole else asked.nothing(empty)
                    operation.tag = call.tag
                    life.begun = True
                    result = self._session.carry_out(operation, call)
            finally:
                self.stats.operation_s += time.monotonic() - began
            self._completed += 1
            self.stats.operations += 1
            self.stats.values += operation.values
            return result

    def _thc_for(self, what: str) -> ThcCodec:
        if self._thc is None:
            raise ConfigError("ops", self.config.ops, f"must have thc {what}", where=f"job {self.config.name}")
        return self._thc
