# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A small tensor in one round trip: it is encoded with carried scales, and its own scales travel beside it.

Carried scales (:mod:`sumwire.codec.scales`) come from the last operation on the same tensor, and are equal on all
workers. They are used only if the previous carried scales would have fitted the last operation. So a tensor whose norms
jump pays for a second payload at most once per jump.

Chunk 0 of the exchange is the scales' chunk, and the tensor's chunks follow. A worker whose own scales do not fit sends
zeros in place of these; its scales tell the others that the tensor is to be sent once more. With a loss bound
contributions to the tensor's chunks may be missing, to the scales' chunk never.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from torch import Tensor

from sumwire import trace
from sumwire.codec.base import CodecRound, GradientCodec
from sumwire.codec.scales import Scales
from sumwire.codec.tensors import not_finite
from sumwire.config import JobConfig
from sumwire.errors import PlaintextError
from sumwire.transport.buffers import Results, protected
from sumwire.transport.exchange import Exchange
from sumwire.transport.options import ExchangeOptions
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport

# Before the tensor's.
_SCALES_CHUNKS: Final = 1
# Tensors whose scales are kept, those that were last heard of first.
_KEYS_MOST: Final = 1024


class ScalesKey(NamedTuple):
    """Identifies one tensor of a job. ``blocks``: how many scales it has."""

    codec: str
    bucket: int
    length: int
    blocks: int


@dataclass(frozen=True)
class _ScalesEntry:
    scales: NDArray[np.uint32]
    trusted: bool


class CarriedScales:
    """The carried scales of a job. They change only by results that all workers have, so they are equal on all workers.
    A fall-back clears them, since workers may then differ by an operation."""

    def __init__(self) -> None:
        self._entries: dict[ScalesKey, _ScalesEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, key: ScalesKey) -> NDArray[np.uint32] | None:
        """Return the scales to encode the tensor with; None if the workers must first agree on them."""
        entry = self._entries.get(key)
        return entry.scales if entry is not None and entry.trusted else None

    def learn(self, key: ScalesKey, form: Scales, agreed: NDArray[np.uint32]) -> None:
        """Keep the scales on which the tensor's operation has agreed."""
        before = self._entries.pop(key, None)
        if not_finite(agreed).any():
            return
        trusted = before is None or form.fit(before.scales, agreed)
        self._entries[key] = _ScalesEntry(form.carried(agreed), trusted)
        if len(self._entries) > _KEYS_MOST:
            del self._entries[next(iter(self._entries))]

    def clear(self) -> None:
        """Forget all scales."""
        self._entries.clear()

    def kept(self) -> list[Any]:
        """Return the scales for a checkpoint, as plain values and tensors."""
        return [
            [*key, entry.trusted, torch.from_numpy(entry.scales.view(np.int32).copy())]
            for key, entry in self._entries.items()
        ]

    def restore(self, kept: Iterable[Any]) -> None:
        """Continue with the scales that :meth:`kept` returned."""
        self._entries = {
            ScalesKey(codec, bucket, length, blocks): _ScalesEntry(scales.numpy().view(np.uint32).copy(), trusted)
            for codec, bucket, length, blocks, trusted, scales in kept
        }


# Of such a result nothing is known for certain.
_DEGRADED: Final = p4.FLAG_MISSING | p4.FLAG_INCOMPLETE | p4.FLAG_TRIMMED


@dataclass(frozen=True)
class TensorScales:
    """One tensor's entry among a job's carried scales. ``form``: how its codec carries them."""

    kept: CarriedScales
    key: ScalesKey
    form: Scales

    @property
    def scales(self) -> NDArray[np.uint32] | None:
        """Return the scales to encode the tensor with; None if the workers must first agree on them."""
        return self.kept.of(self.key)

    def learn(self, agreed: NDArray[np.uint32]) -> None:
        """Keep the scales on which the tensor's operation has agreed."""
        self.kept.learn(self.key, self.form, agreed)


def carried_for(
    kept: CarriedScales, codec: GradientCodec, x: Tensor, bucket: int, *, scales: int, workers: int
) -> TensorScales | None:
    """Return the entry of a tensor of at most ONE_TRIP_CHUNKS chunks, with ``scales`` scales; None if it always takes
    two round trips."""
    form = codec.scales
    if form is None or scales > form.room(workers):
        return None
    # Fixed point with carried exponents would lose what float64 is there for.
    if x.dtype == torch.float64:
        return None
    return TensorScales(kept, ScalesKey(codec.info.name, bucket, len(x), scales), form)


@dataclass(frozen=True)
class OneTrip:
    """The exchange of one tensor in one round trip; never in a blind job. ``op``: the codec's. ``carried``: the scales
    to encode with. ``own``: this worker's own scales. ``tos``: the TOS bytes of the tensor's chunks. ``bounded``: a
    loss bound applies to these."""

    config: JobConfig
    op: int
    form: Scales
    carried: NDArray[np.uint32]
    own: NDArray[np.uint32]
    tos: NDArray[np.uint8] | None
    bounded: bool = False

    def __post_init__(self) -> None:
        if self.config.blind:
            # Masks cancel in sums. A sum without one worker, and one with it, would tell that worker's values.
            raise PlaintextError(
                f"job {self.config.job}: a blind job's tensor in a single round trip: its sum may be made twice, which "
                "would tell the values of one worker; make a new job on all workers"
            )

    def carry_out(
        self, transport: Transport, round_: CodecRound, tag: int, stats: JobStats
    ) -> tuple[NDArray[np.uint32] | None, Results | None]:
        """Make the exchange, and decode its results if the carried scales fit.

        Returns the agreed scales, or None if they did not arrive whole, and the tensor's results, or None if the
        carried scales do not fit. Raises CodecError for results that no sum can be.
        """
        tos = self.tos
        if tos is not None:
            tos = np.concatenate([[protected(tos).max()], tos]).astype(np.uint8)
        # Its round trips include the wait for slow workers.
        bounded_from = _SCALES_CHUNKS if self.bounded else None
        options = ExchangeOptions(waits_for_workers=True, bounded_from=bounded_from, tos=tos)
        with transport.open(self.op, _SCALES_CHUNKS + round_.chunks, tag, options) as exchange:
            began = time.monotonic()
            with trace.now.encode:
                self._encode(exchange, round_)
            stats.encode_s += time.monotonic() - began
            exchange.ready(exchange.chunks)
            while exchange.progress(block=True) < exchange.chunks:
                pass
            began = time.monotonic()
            agreed, results = self._agreed(exchange.results), None
            if agreed is not None and self.form.fit(self.carried, agreed):
                results = exchange.results.after(_SCALES_CHUNKS)
                with trace.now.decode:
                    self._decode(results, round_)
            exchange.discarded = results is None
            stats.decode_s += time.monotonic() - began
        return agreed, results

    def _encode(self, exchange: Exchange, round_: CodecRound) -> None:
        exchange.payload[0] = self.form.pack(self.own, self.config.worker, self.config.workers)
        if self.form.exceeded(self.carried, self.own):
            exchange.payload[_SCALES_CHUNKS:] = 0
        else:
            round_.encode_into(self.carried, 0, round_.chunks, exchange.payload[_SCALES_CHUNKS:])

    def _agreed(self, results: Results) -> NDArray[np.uint32] | None:
        whole = results.counts[0] == self.config.workers and not results.cuts[0] and not results.flags[0] & _DEGRADED
        return self.form.unpack(results.words[0], len(self.own), self.config.workers) if whole else None

    def _decode(self, results: Results, round_: CodecRound) -> None:
        overflows = results.flags & p4.FLAG_OVERFLOW != 0
        round_.decode_into(0, round_.chunks, results.words, results.counts, overflows)
