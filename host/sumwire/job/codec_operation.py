# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends a tensor through a codec: the codec's preliminary exchange, then payload up and results down, part by part.

Example (THC): the workers first agree on the largest norm of every block, in MAX32 chunks. With these norms each worker
encodes its tensor, part by part, while packets of earlier parts travel.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import JUMBO, ONE_TRIP_CHUNKS
from torch import Tensor

from sumwire import trace
from sumwire.codec.base import CodecRound, GradientCodec, staged
from sumwire.codec.errors import CodecError
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.thc import ThcCodec
from sumwire.codec.thc_wide import WideThcCodec
from sumwire.config import JobConfig
from sumwire.errors import ConfigError, RecreateError, UsageError
from sumwire.job.gloo import Fallback
from sumwire.job.one_trip import CarriedScales, OneTrip, carried_for
from sumwire.job.operations import (
    ALL,
    OWN_PACKETS,
    CachedResult,
    HandedOut,
    JumboPayload,
    Operation,
    Payload,
    Step,
    carry,
    from_words,
    part_chunks,
    payload_of,
    tag_in_one_trip,
    to_words,
    told_by_all,
    unmaskable,
)
from sumwire.transport.buffers import TOS_PRIORITY, Results, protected
from sumwire.transport.exchange import Exchange
from sumwire.transport.options import ExchangeOptions
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport

# Ops that a loss bound applies to: sums are divided by their contributors, and error feedback keeps what is missing.
_AGAIN: Final = "start all workers again"
_BOUNDED_OPS: Final = frozenset({p4.OP_THC, p4.OP_JUMBO})

# Maps magnitudes of chunks, float32 (chunks,), to TOS bytes, uint8 (chunks,).
Tagging = Callable[[NDArray[np.float32]], NDArray[np.uint8]]


@dataclass(frozen=True)
class CodecOptions:
    """Options of an operation through a codec.

    ``tag``: computes the packets' TOS bytes from the magnitudes of their chunks. ``divide_by``: divide every sum by
    this number instead of its number of contributors. ``contribute=False``: send nothing; the tensor only gives the
    length. ``carried``: scales of the job's earlier operations, with which small tensors need one round trip; None with
    a quorum below the workers. ``into``: memory for the result, written once all of it has arrived; may be the
    operation's own tensor. Only for sums that lack no contributions. ``multiply_by``: the result is the mean times this
    number.
    """

    tag: Tagging | None = None
    divide_by: int | None = None
    contribute: bool = True
    carried: CarriedScales | None = None
    into: Tensor | None = None
    multiply_by: int = 1


class CodecOperation(Operation):
    """The operation that computes the mean of the workers' flat tensors with a codec.

    ``sequence``: number of the operation in the job, which seeds the codec's random numbers.
    """

    def __init__(
        self, codec: GradientCodec, x: Tensor, *, sequence: int, bucket: int, stats: JobStats, options: CodecOptions
    ) -> None:
        began = time.monotonic()
        # Where the result is to be.
        self._device = x.device
        with trace.now.prepare:
            x = staged(codec, x)
            self._round: CodecRound = codec.begin(x, sequence, bucket)
        stats.encode_s += time.monotonic() - began
        if options.divide_by is not None:
            self._round.divide_by(options.divide_by)
        if options.multiply_by != 1:
            self._round.multiply_by(options.multiply_by)
        if options.into is not None:
            self._round.write_to(options.into)
        self._codec = codec
        self._x = x
        # Where a whole exchange made the tensor that was written into, which the caller may change.
        self._results: Results | None = None
        self.values = x.numel()
        self._bucket = bucket
        self._options = options
        # Chunks whose sum contains this worker's contribution; None for all of them.
        self._included: NDArray[np.bool_] | None = None
        # The result is that of an ordinary all-reduce.
        self._ordinary = False
        self._contributors = ALL
        # Known once the network is asked.
        self._config: JobConfig | None = None
        # How the chunks travel, once the switch is asked.
        self._payload: Payload
        # The result was handed out, and this worker had no part in it.
        self._left_out = False

    def residual(self) -> Tensor:
        """Return this worker's compression error plus its contributions to chunks whose sums lack them: shape
        (length,). Call it once the result is there."""
        return self._left().to(self._device)

    def _left(self) -> Tensor:
        if self._ordinary:
            return self._codec.left_by_ordinary(self._x)
        if self._left_out:
            return self._codec.left_unsent(self._x)
        with trace.now.residual:
            return self._round.residual(self._included)

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        """Carry the operation out through the switch, as the module describes."""
        return self._summed(transport, config, stats).to(self._device)

    def _summed(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        self._config = config
        round_, info, options = self._round, self._codec.info, self._options
        # Nearly all jobs take each op's own packets.
        special = config.blind or JUMBO.name in config.ops
        payload = self._payload = payload_of(info.op, round_.chunks, config) if special else OWN_PACKETS[info.op]
        own = round_.preliminary()
        tos = None if options.tag is None else _checked_tos(options.tag(round_.magnitudes()), round_.chunks)
        carried = None
        if options.carried is not None and round_.chunks <= ONE_TRIP_CHUNKS:
            carried = carried_for(
                options.carried, self._codec, self._x, self._bucket, scales=len(own), workers=config.workers
            )
        agreed = None
        if carried is not None and (scales := carried.scales) is not None:
            trip = OneTrip(config, info.op, carried.form, scales, own, tos, bounded=info.op in _BOUNDED_OPS)
            agreed = self._in_one_trip(trip, transport, stats)
        if agreed is None:
            agreed = self._ask(transport, config, own, tos)
        if carried is not None:
            carried.learn(agreed)
        if round_.decoded:
            return round_.result
        if isinstance(payload, JumboPayload):
            payload.from_lanes = round_.use_lanes()
        bounded = ExchangeOptions(
            bounded_from=0 if info.op in _BOUNDED_OPS else None,
            tos=None if tos is None else _most_urgent(tos, payload),
            contribute=options.contribute,
            checked=payload.checked,
        )
        with transport.open(payload.op, -(-round_.chunks // payload.chunks), self.tag, bounded) as exchange:
            grain = math.lcm(round_.grain, payload.chunks)
            step = part_chunks(round_.chunks, info.chunk_values, grain) // payload.chunks
            encode, decode = self._steps(exchange, agreed, config)
            carry(exchange, encode, decode, step=step, stats=stats, at_end=options.into is not None)
            self._note_missing(exchange.results, config, payload)
        if options.into is not None:
            transport.keep_results()
            self._results = exchange.results
        return round_.result

    def _note_missing(self, results: Results, config: JobConfig, payload: Payload) -> None:
        """Note who is not in some of the tensor's results. ``payload``: how its chunks travelled."""
        if (results.counts != config.workers).any():
            contributors = payload.by_chunk(_contributors(results, config), self._round.chunks)
            self._included = _included(contributors, config)
            if (contributors != config.all_seats).any():
                self._contributors = torch.from_numpy(contributors.astype(np.int64))

    def kept(self, result: Tensor) -> CachedResult:
        """See Operation. The caller may change a result that was written into its own tensor, so that one is not
        cached."""
        results, into = self._results, result is self._options.into
        if into and results is not None:
            # Kept until the next operation: the caller's tensor must not live as long.
            words, payload, round_ = results.words, self._payload, self._round.without_tensor()
            counts = payload.by_chunk(results.counts, round_.chunks)
            return CachedResult(
                words.nbytes, lambda: round_.decode(payload.take(words)[: round_.chunks], counts), self._contributors
            )
        own = result.clone() if into else result
        return CachedResult(own.nbytes, lambda: own, self._contributors)

    def _ask(
        self, transport: Transport, config: JobConfig, own: NDArray[np.uint32], tos: NDArray[np.uint8] | None
    ) -> NDArray[np.uint32]:
        """The outcome of the codec's preliminary exchange; without one, this worker's own values."""
        op = self._codec.info.preliminary_op
        if op is None:
            return own
        if config.blind:
            told = told_by_all(transport, config, own, self.tag, ExchangeOptions(waits_for_workers=True))
            largest: NDArray[np.uint32] = told.max(axis=0)
            return largest
        words = to_words(own)
        # The norms of a tensor have the priority of its most urgent chunk, and are never dropped on purpose.
        first_tos = None if tos is None else np.full(len(words), protected(tos).max(), np.uint8)
        first = ExchangeOptions(waits_for_workers=True, tos=first_tos, contribute=self._options.contribute)
        with transport.open(op, len(words), self.tag, first) as exchange:
            exchange.payload[:] = words
            exchange.ready(len(words))
            return from_words(exchange.finish().words, len(own))

    def _in_one_trip(self, trip: OneTrip, transport: Transport, stats: JobStats) -> NDArray[np.uint32] | None:
        """The agreed scales; None if they must be asked for. The round has its result if the carried ones fit."""
        try:
            tag = tag_in_one_trip(self.tag, trip.carried.tobytes())
            agreed, results = trip.carry_out(transport, self._round, tag, stats)
        except CodecError as error:
            raise RecreateError(f"job {trip.config.job}: result that no sum can be: {error}; {_AGAIN}") from error
        if results is None:
            stats.repeated_operations += 1
            self._round.encode_again()
        else:
            stats.one_trip_operations += 1
            self._note_missing(results, trip.config, OWN_PACKETS[self._codec.info.op])
        return agreed

    def _steps(self, exchange: Exchange, agreed: NDArray[np.uint32], config: JobConfig) -> tuple[Step, Step]:
        """The functions that encode and decode the packets of a part. They raise RecreateError if the agreed values or
        the results are impossible."""
        round_, form = self._round, self._payload
        # A call for each part less, for nearly all jobs.
        plain, size = type(form) is Payload, form.chunks

        def encode(first: int, last: int) -> None:
            begin, end = first * size, min(last * size, round_.chunks)
            packets = exchange.payload[first:last]
            try:
                if plain:
                    round_.encode_into(agreed, begin, end, packets)
                else:
                    form.put(partial(round_.encode_into, agreed, begin, end), packets, end - begin)
            except CodecError as error:
                raise RecreateError(
                    f"job {config.job}: agreed on what no worker can mean: {error}; {_AGAIN}"
                ) from error
            outside = round_.outside
            if outside is not None:
                exchange.mark(first, outside[begin:end] * np.uint8(p4.FLAG_OVERFLOW))

        def decode(first: int, last: int) -> None:
            begin, end = first * size, min(last * size, round_.chunks)
            results = exchange.results
            words, counts, flags = results.words[first:last], results.counts[first:last], results.flags[first:last]
            if size > 1:
                counts, flags = (form.by_chunk(of, end - begin) for of in (counts, flags))
            try:
                words = words if plain else form.take(words)[: end - begin]
                round_.decode_into(begin, end, words, counts, flags & p4.FLAG_OVERFLOW != 0)
            except CodecError as error:
                raise RecreateError(f"job {config.job}: result that no sum can be: {error}; {_AGAIN}") from error

        return encode, decode

    def ordinary(self, fallback: Fallback) -> Tensor:
        self._ordinary = True
        mean = partial(fallback.mean, counts=self._options.contribute)
        result = self._codec.ordinary(self._x.detach().to("cpu", torch.float32), mean)
        if self._options.multiply_by != 1:
            result.mul_(self._options.multiply_by)
        return result.to(self._device)

    def like(self) -> Tensor:
        return self._x.detach().to("cpu", torch.float64 if self._x.dtype == torch.float64 else torch.float32)

    def take(self, handed_out: HandedOut, *, begun: bool) -> Tensor:
        # Others may have closed a sum before this worker had encoded all of it.
        self._left_out = not begun or not self._round.encoded
        config = self._config
        # Other switches have other seats.
        if config is not None and config.addresses[handed_out.worker].aggregator == config.aggregator:
            contributors = handed_out.contributors.numpy().astype(np.uint32)
            self._included = _included(contributors, config) if len(contributors) else None
        return handed_out.tensor.to(self._device)


def check_fit(config: JobConfig, codec: GradientCodec, *, tagged: bool = False) -> None:
    """Raise ConfigError for THC with another table or p than the job's, for sums of too few workers, and for a mean
    that a blind job cannot compute. ``tagged``: packets have priorities."""
    where = f"job {config.name}, a codec given"
    if isinstance(codec, ThcCodec) and config.thc is not None:
        own, jobs = (codec.table.values, codec.table.p), (config.thc.table, config.thc.p)
        if own != jobs:
            rule = f"must be the job's, {list(jobs[0])} with p = {jobs[1]:g}, by which the switch sums"
            raise ConfigError("thc.table", f"{list(own[0])} with p = {own[1]:g}", rule, where=where)
    if isinstance(codec, Sum32Codec | WideThcCodec) and codec.workers < config.workers:
        rule = f"must be {config.workers} or more, the job's: sums of more workers do not fit"
        raise ConfigError("workers", codec.workers, rule, where=where)
    if config.blind and not isinstance(codec, ThcCodec | Sum32Codec):
        raise unmaskable(config, f"the codec {codec.info.name}")
    if config.blind and tagged:
        raise unmaskable(config, "packets with priorities, which tell the magnitudes of their values")


@cache
def mean_by(codec: str) -> str:
    """Return how call descriptions name the operation. ``codec``: the codec's name."""
    return f"mean by {codec}"


def _checked_tos(tos: NDArray[np.uint8], chunks: int) -> NDArray[np.uint8]:
    if tos.dtype != np.uint8 or tos.shape != (chunks,):
        raise UsageError(f"tags: {tos.dtype} of shape {tos.shape}: need TOS bytes, uint8 ({chunks},)")
    return tos


_PRIORITY: Final = np.uint8(TOS_PRIORITY)


def _most_urgent(tos: NDArray[np.uint8], form: Payload) -> NDArray[np.uint8]:
    """The TOS bytes of packets: of their chunks' the highest priority, and the drop class that is lost last."""
    if form.chunks == 1:
        return tos
    starts = np.arange(0, len(tos), form.chunks)
    urgent: NDArray[np.uint8] = np.maximum.reduceat(tos & _PRIORITY, starts)
    return urgent | np.minimum.reduceat(tos & ~_PRIORITY, starts)


def _contributors(results: Results, config: JobConfig) -> NDArray[np.uint32]:
    """The seats in each chunk's sum: all of a whole one, also where the job was renewed at this worker's switch, which
    so forgot them, while the result was on its way down a tree."""
    return np.where(results.counts == config.workers, np.uint32(config.all_seats), results.contributors)


def _included(contributors: NDArray[np.uint32], config: JobConfig) -> NDArray[np.bool_] | None:
    """Chunks whose sum contains this worker's contribution, bool (chunks,); None for all of them."""
    included = (contributors >> np.uint32(config.seat) & np.uint32(1)).astype(np.bool_)
    return None if included.all() else included
