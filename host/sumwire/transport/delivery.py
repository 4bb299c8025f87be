# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The delivery of a job: its loss bound, its congestion control, and whether it probes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final, Literal, get_args

from sumwire.errors import ConfigError

Divisor = Literal["contributors", "workers"]
_DIVISORS: Final = get_args(Divisor)


@dataclass(frozen=True)
class Delivery:
    """Must be equal on all workers of a job; the greeting compares it (:mod:`sumwire.job.greeting`).

    ``loss_bound``: share of a tensor's contributions that may be missing from its sums, in [0, 1). It applies to THC
    data; norms and other ops are always complete. All workers get all results, and so the same sums.
    ``divisor``: what a sum is divided by. "contributors": the number of contributions in it, so that the mean is
    unbiased whatever is missing. "workers": all workers, so that missing contributions count as zeros, as in the
    papers' data path; for comparison.
    ``congestion``: limit the window by marks and round trips (:mod:`sumwire.transport.congestion`).
    ``probes``: ask the switch about a chunk before retransmitting it (:mod:`sumwire.transport.retries`).
    Raises ConfigError for values outside these.
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
        """The options as JSON values, for the comparison with other workers."""
        return {**asdict(self), "loss_bound": float(self.loss_bound)}
