# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a job asks of the way its tensors travel: how much may be missing, and how gently it sends."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final, Literal, get_args

from sumwire.errors import ConfigError

Divisor = Literal["contributors", "workers"]
_DIVISORS: Final = get_args(Divisor)


@dataclass(frozen=True)
class Delivery:
    """Alike on all workers of a job; the first packets compare it.

    ``loss_bound``: share of a tensor's contributions that may be missing from its sums, in [0, 1). Results never are,
    so all workers get the same. It holds for THC's data; norms and other ops are always complete.
    ``divisor``: what a sum is divided by. "contributors" are those in it: the mean of what arrived, whose expectation
    is right whatever is missing. "workers" takes missing ones for zeros, as the papers' data path does; for comparison.
    ``congestion``: a window that follows marks and round trips, see :mod:`sumwire.transport.congestion`.
    ``probes``: a chunk without a result is asked about before it is sent again.
    Raises ConfigError.
    """

    loss_bound: float = 0.0
    divisor: Divisor = "contributors"
    congestion: bool = True
    probes: bool = True

    def __post_init__(self) -> None:
        bound = self.loss_bound
        # A bool is an int; NaN fails the comparison.
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not 0 <= bound < 1:
            raise ConfigError("loss_bound", bound, "must be a share in [0, 1)", where="delivery")
        if self.divisor not in _DIVISORS:
            raise ConfigError("divisor", self.divisor, f"must be one of {', '.join(_DIVISORS)}", where="delivery")
        for name in ("congestion", "probes"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(name, getattr(self, name), "must be true or false", where="delivery")

    def settings(self) -> dict[str, object]:
        """As JSON values, for the comparison of workers."""
        return {**asdict(self), "loss_bound": float(self.loss_bound)}
