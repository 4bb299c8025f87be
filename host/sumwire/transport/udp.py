# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The UDP transport: exchanges of chunks with the switch, one after another, whole or part by part.

The transport knows planes and words, but no tensors. One thread uses it at a time. Packets are processed in arrays, of
as many as one system call moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.errors import ConfigError, InterruptedJobError, PlaintextError, UsageError
from sumwire.lifecycle import Lifecycle
from sumwire.transport.buffers import Buffers, Pool, Results
from sumwire.transport.congestion import WindowLimit
from sumwire.transport.connection import Connection, say_hello
from sumwire.transport.exchange import Exchange, Guard
from sumwire.transport.link import Link, opening_error
from sumwire.transport.options import PLAIN, Alone, ExchangeOptions, TransportOptions, WindowOptions, turn_of
from sumwire.transport.recovery import CatchUp
from sumwire.transport.recovery_service import recovery_port
from sumwire.transport.retransmission import Budget, RttEstimator, allowance
from sumwire.transport.stats import JobStats
from sumwire.transport.switch_answers import SwitchState
from sumwire.transport.window import Window
from sumwire.wire.packets import OP_WORDS, WORD_BYTES, place_of

if TYPE_CHECKING:
    from sumwire.blind.masks import Masks
    from sumwire.blind.sums import SumCheck


class Transport:
    """One worker's transport in a job: its socket, its window, and one exchange at a time. Also a context manager.

    Where slots may close without this worker, it keeps results for other workers and asks them for those that it lost.
    It does both at a second UDP port (:mod:`sumwire.transport.recovery_service`). ``rtt``: the estimator of the
    retransmission timeout. ``clock``: a monotonic clock, in seconds. ``masks``: those of a blind job's run, from its
    greeting on. In a blind job every exchange except those of the handshake uses SUM32, and is masked. Raises
    AddressError if this worker's address cannot be used here, JobBusyError if a port is taken, UsageError on a system
    that is not Linux. Every method raises ForkError in a forked child.
    """

    def __init__(
        self,
        config: JobConfig,
        options: TransportOptions | None = None,
        *,
        rtt: RttEstimator | None = None,
        stats: JobStats | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        options = options or TransportOptions()
        self.stats = stats if stats is not None else JobStats()
        self._config = config
        self._options = options
        self._clock = clock
        self._life = Lifecycle(f"job {config.job}", "Job(config)")
        self._timeout_policy = options.timeout_policy or Alone(options.deadline_s)
        self._up, self._down, self._kept = Pool(), Pool(), Pool()
        self._exchange: Exchange | None = None
        self.masks: Masks | None = None
        self._token = p4.TOKEN_NONE
        self.link = Link(config, self.stats, reads_marks=_follows_marks(options))
        try:
            self.catch_up = CatchUp(config, options.kept_chunks) if _closes_early(config, options) else None
        except OSError as error:
            self.link.close()
            raise opening_error(config, recovery_port(config.own_address), error) from error
        except ConfigError:
            self.link.close()
            raise
        if self.catch_up is not None:
            self.link.watch(self.catch_up.recovery.fileno())
        self.window = Window(
            config.slots,
            rtt or RttEstimator(),
            job=config.job,
            options=_window_options(config, options, self.catch_up),
            limit=_limit(config, options),
        )
        self._connection = Connection(
            config, self.stats, self.link, self.window, self.catch_up, clock, options.silence_s
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the sockets; closing twice is allowed. Does nothing in a forked child, which has none of them."""
        self._life.close(self._close_sockets)

    def _close_sockets(self) -> None:
        self.link.close()
        if self.catch_up is not None:
            self.catch_up.close()

    @property
    def silence_s(self) -> float:
        """See TransportOptions."""
        return self._options.silence_s

    @property
    def next_sequence(self) -> int:
        """Sequence number of the next exchange's first chunk. Between two exchanges it is equal on all workers."""
        return self.window.base + self.window.chunks

    def rebase(self, first_round: int) -> None:
        """Number the next exchange's chunks from the first chunk of this round. Raises UsageError during an
        exchange."""
        self._check_free()
        self.window.restart(first_round * self._config.slots)

    def enter_run(self, token: int) -> None:
        """Put this run's token into the packets of later exchanges. TOKEN_NONE means no run."""
        self._token = token
        if self.catch_up is not None:
            self.catch_up.enter_run(token)

    def restart(self) -> None:
        """Drop the present exchange, if there is one, and leave the run, so that a handshake (:meth:`rebase`) can
        begin."""
        if self._exchange is not None:
            self._exchange.close()
        self.masks = None
        self.enter_run(p4.TOKEN_NONE)
        self.window.restart(self.next_sequence)

    def hello(self, timeout_s: float) -> SwitchState | None:
        """Ask the switch for the state of slot 0, between exchanges. None if it does not answer in time.

        Raises RefusedError if the switch refuses the question, for example because the job is not installed.
        """
        self._check_free()
        return say_hello(self._connection, timeout_s)

    @property
    def newest_round(self) -> int | None:
        """The last round that this transport has used; None before its first exchange."""
        sequence = self.next_sequence
        return place_of(sequence - 1, self._config.slots)[1] if sequence else None

    def exchange(
        self, op: int, payload: NDArray[np.uint8], bucket: int = 0, options: ExchangeOptions = PLAIN
    ) -> Results:
        """Send one payload per chunk and wait for all results.

        ``payload``: uint8 (chunks, up words of the op, 128). ``bucket`` is in every packet, so that workers that reduce
        different tensors are noticed. Raises DeadlineError, StaleRunError, OrderError.
        """
        try:
            return self.start(op, payload, bucket, options).finish()
        except BaseException:
            # Also KeyboardInterrupt, while the exchange starts.
            if self._exchange is not None:
                self._exchange.close()
            raise

    def start(self, op: int, payload: NDArray[np.uint8], bucket: int = 0, options: ExchangeOptions = PLAIN) -> Exchange:
        """Like :meth:`exchange`, but return once the first window is sent. Call :meth:`finish` for the results."""
        if op not in OP_WORDS:
            raise UsageError(f"op {op}: must be one of {sorted(OP_WORDS)}")
        if payload.dtype != np.uint8 or payload.ndim != 3 or payload.shape[1:] != (OP_WORDS[op][0], WORD_BYTES):
            raise UsageError(f"payload {payload.dtype}{payload.shape}: need uint8(chunks, {OP_WORDS[op][0]}, 128)")
        # A pool of its own, since the caller may keep the results.
        exchange = self._open(op, len(payload), bucket, options, down=Pool())
        exchange.payload[:] = payload
        exchange.ready(len(payload))
        return exchange

    def finish(self) -> Results:
        """Call :meth:`Exchange.finish` of the present exchange. Raises UsageError if there is none."""
        if self._exchange is None or self._exchange.closed:
            raise UsageError("no exchange was started: call start before finish")
        return self._exchange.finish()

    def open(self, op: int, chunks: int, bucket: int = 0, options: ExchangeOptions = PLAIN) -> Exchange:
        """Return an exchange of ``chunks`` chunks whose payload is filled in parts. Its results are only valid until
        the next exchange.

        Raises UsageError while another exchange is open.
        """
        return self._open(op, chunks, bucket, options, down=self._down)

    def keep_results(self) -> None:
        """Keep the results of the latest exchange valid. They become invalid with the first exchange after the next
        call of this method."""
        self._down, self._kept = self._kept, self._down
        # Now, in a job's first operation, and not in its second, which is likely to be as large.
        self._down.take(self._kept.size)

    def drain(self) -> None:
        """Between exchanges: process the results that have arrived for exchanges which this worker has not begun."""
        catch_up, link, drained = self.catch_up, self.link, 0
        # Bounded, since more may arrive all the time.
        while catch_up is not None and drained < catch_up.kept.capacity and (count := link.receive()):
            drained += count
            ahead = catch_up.ahead.put(self.next_sequence, link.records[:count], link.received, link.sizes[:count])
            self.window.counters.duplicates += count - int(np.count_nonzero(ahead))

    def others_reached(self, sequence: int) -> bool:
        """Return True if a whole quorum of other workers has finished this chunk of the job, or a later one."""
        return self.catch_up is not None and self.catch_up.ahead.reaches(sequence)

    def _open(self, op: int, chunks: int, bucket: int, options: ExchangeOptions, *, down: Pool) -> Exchange:
        self._check_free()
        if self.window.open_chunks:
            raise InterruptedJobError(
                f"job {self._config.job}: an exchange was interrupted, by Ctrl-C or an error: "
                f"{self.window.open_chunks} chunks have no result; close the job and make a new one: Job(config)"
            )
        if not options.contribute and not self.window.options.adaptive_retries:
            raise UsageError("an exchange that contributes nothing: needs a delivery, or a quorum below the workers")
        hide = self._hiding(op, bucket) if self._config.blind else None
        check = None if hide is None or options.checked is None else self._check_of(chunks, options)
        # Behind the caller's come those of the check.
        asked, chunks = chunks, chunks + (0 if check is None else check.room)
        began = self._clock()
        if self.catch_up is not None:
            self.drain()
        first = self.window.base + self.window.chunks
        complete = 0 if self.window.options.early_closing else self._config.workers
        buffers = Buffers(
            self._config,
            op,
            chunks,
            bucket=bucket,
            first_sequence=first,
            up=self._up,
            down=down,
            tos=options.tos,
            token=self._token,
            complete=complete,
            # Masked elements leave the range at random.
            ignored=0 if hide is None else p4.FLAG_OVERFLOW,
        )
        self.link.load(buffers.packets, buffers.tos, first % self._config.slots)
        self._connection.pace.begin()
        budget = self._budget(chunks, first, options.bounded_from)
        self.window.begin(chunks, began, filled=0, budget=budget, options=options)
        timeout_policy = options.timeout_policy or self._timeout_policy
        guard = None if hide is None else Guard(asked, hide, check, self._config.job)
        self._exchange = Exchange(self._connection, buffers, timeout_policy, options.next_run, guard)
        if self.catch_up is not None:
            self._exchange.take_ahead()
        self.stats.exchange_s += self._clock() - began
        return self._exchange

    @property
    def secrets(self) -> Masks:
        """The masks of a blind job's run. Raises PlaintextError outside such a run."""
        if self.masks is None:
            raise PlaintextError(
                f"job {self._config.job}: no masks: the workers have not greeted; make a new job on all workers"
            )
        return self.masks

    def _check_of(self, chunks: int, options: ExchangeOptions) -> SumCheck:
        # Imported here, since what it needs is there in blind jobs alone.
        from sumwire.blind.sums import SumCheck

        config, signed = self._config, options.checked == "signed"
        return SumCheck(
            self.secrets, self.next_sequence, chunks, worker=config.worker, workers=config.workers, signed=signed
        )

    def _hiding(self, op: int, bucket: int) -> Callable[[int, NDArray[np.uint8]], None] | None:
        """What masks the payload of a blind job's exchange before it is sent; None for a greeting, which tells nothing
        of values. Raises PlaintextError, UsageError."""
        if bucket >= p4.BUCKET_OPENS_RUN:
            return None
        if op != p4.OP_SUM32:
            raise UsageError(f"op {op}: a blind job masks sums of SUM32 alone: use that")
        return self.secrets.hide

    def _check_free(self) -> None:
        """Raises UsageError while an exchange is under way, ForkError in a forked child, ClosedError after the end."""
        self._life.check()
        if self._exchange is not None and not self._exchange.closed:
            raise UsageError("an exchange is under way: finish it first")

    def _budget(self, chunks: int, first: int, bounded_from: int | None) -> Budget | None:
        """Contributions that this worker may leave out of a tensor; None if the tensor must be complete."""
        config, bound = self._config, _loss_bound(self._options)
        # A slot that one contribution closes cannot close without one.
        if not bound or bounded_from is None or self._connection.closing_contributions < 2:
            return None
        bounded = chunks - bounded_from
        return Budget(allowance(bound, bounded, config.workers, worker=config.worker, sequence=first), bounded_from)


def _loss_bound(options: TransportOptions) -> float:
    return options.delivery.loss_bound if options.delivery is not None else 0.0


def _closes_early(config: JobConfig, options: TransportOptions) -> bool:
    """Whether a slot may close without this worker."""
    return config.quorum < config.workers or _loss_bound(options) > 0


def _window_options(config: JobConfig, options: TransportOptions, catch_up: CatchUp | None) -> WindowOptions:
    delivery, quorum_below_workers = options.delivery, config.quorum < config.workers
    return WindowOptions(
        adaptive_retries=delivery is not None or quorum_below_workers,
        probes=delivery is None or delivery.probes,
        early_closing=_closes_early(config, options),
        quorum_below_workers=quorum_below_workers,
        paths=config.paths,
        turn=turn_of(list(config.seats), config.seat),
        kept_results=None if catch_up is None else catch_up.kept.capacity,
        workers=config.workers,
    )


def _limit(config: JobConfig, options: TransportOptions) -> WindowLimit | None:
    return WindowLimit(config.slots // 2) if _follows_marks(options) else None


def _follows_marks(options: TransportOptions) -> bool:
    return options.delivery is not None and options.delivery.congestion
