# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Retransmission timeout from measured round trips (RFC 6298)."""

from __future__ import annotations

from typing import Final

# RFC 6298 section 2.
_ALPHA: Final = 1 / 8
_BETA: Final = 1 / 4
_K: Final = 4


class RttEstimator:
    """The smoothed round trip, its variation, and the timeout. All times are in seconds.

    The caller follows Karn's rule: only chunks that were sent once give a sample. Raises ValueError unless
    0 < min_s <= initial_s <= max_s.
    """

    def __init__(self, *, initial_s: float = 0.2, min_s: float = 0.03, max_s: float = 1.0) -> None:
        if not 0 < min_s <= initial_s <= max_s:
            raise ValueError(f"timeouts {min_s=}, {initial_s=}, {max_s=}: need 0 < min <= initial <= max")
        self._min_s = min_s
        self.max_s = max_s
        self._base_s = initial_s
        self.smoothed_s: float | None = None
        self.variation_s = 0.0
        self.timeout_s = initial_s

    def sample(self, round_trip_s: float) -> None:
        """Take in one measured round trip. It also ends a back-off."""
        if self.smoothed_s is None:
            self.smoothed_s = round_trip_s
            self.variation_s = round_trip_s / 2
        else:
            self.variation_s += _BETA * (abs(self.smoothed_s - round_trip_s) - self.variation_s)
            self.smoothed_s += _ALPHA * (round_trip_s - self.smoothed_s)
        self._base_s = min(max(self.smoothed_s + _K * self.variation_s, self._min_s), self.max_s)
        self.settle()

    def back_off(self) -> None:
        """Double the timeout after it has expired (RFC 6298, 5.5)."""
        self.timeout_s = min(self.timeout_s * 2, self.max_s)

    def settle(self) -> None:
        """End a back-off: the path answers again."""
        self.timeout_s = self._base_s
