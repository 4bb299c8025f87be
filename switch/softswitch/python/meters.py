# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Meters of the Python engine: two token buckets, the larger rate first, as in bmv2."""

from __future__ import annotations

from softswitch.runtime.entries import MeterRates

_US = 1e6
RED, YELLOW, GREEN = 2, 1, 0


class _Bucket:
    def __init__(self, rate: float, burst: int, colour: int) -> None:
        self.rate, self.burst, self.colour = rate / _US, burst, colour
        self.tokens, self.last = burst, 0


class Meters:
    """One array. Unconfigured meters are green."""

    def __init__(self, counts_bytes: bool) -> None:
        self._counts_bytes = counts_bytes
        self._buckets: dict[int, tuple[int, tuple[_Bucket, _Bucket]]] = {}

    def set(self, index: int, rates: MeterRates | None, now_us: int) -> None:
        if rates is None:
            self._buckets.pop(index, None)
            return
        peak = _Bucket(rates.peak, rates.peak_burst, RED)
        committed = _Bucket(rates.committed, rates.committed_burst, YELLOW)
        self._buckets[index] = now_us, (peak, committed)

    def execute(self, index: int, size: int, now_us: int) -> int:
        """The colour of a packet of ``size`` bytes."""
        found = self._buckets.get(index)
        if found is None:
            return GREEN
        since, buckets = found
        wanted = size if self._counts_bytes else 1
        for bucket in buckets:
            earned = int((now_us - since) * bucket.rate)
            bucket.tokens = min(bucket.tokens + earned - bucket.last, bucket.burst)
            bucket.last = earned
            if bucket.tokens < wanted:
                return bucket.colour
            bucket.tokens -= wanted
        return GREEN
