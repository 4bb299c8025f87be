# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of a transport, of its window and of one exchange, as frozen objects; and the timeout policy, which decides
how long an exchange waits for other workers, and what happens when the switch does not answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from sumwire.errors import ConfigError, SwitchLostError
from sumwire.transport.kept_results import KEPT_CHUNKS

Divisor = Literal["contributors", "workers"]
_DIVISORS: Final = get_args(Divisor)


@dataclass(frozen=True)
class Delivery:
    """Options for missing contributions. They must be equal on all workers of a job; the handshake compares them
    (:mod:`sumwire.job.handshake`).

    ``loss_bound``: share of a tensor's contributions that may be missing from its sums, in [0, 1). It applies to THC
    data; norms and other ops are always complete. All workers get all results, and so the same sums. ``divisor``: what
    a sum is divided by. "contributors": the number of contributions in it, so that the mean is unbiased whatever is
    missing. "workers": all workers, so that missing contributions count as zeros, as in the papers' data path; for
    comparison. ``congestion``: limit the window by marks and round trips (:mod:`sumwire.transport.congestion`).
    ``probes``: ask the switch about a chunk before retransmitting it (:mod:`sumwire.transport.retransmission`). Raises
    ConfigError for values outside these.
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
        """Return the options as JSON values, for the comparison with other workers."""
        return {**asdict(self), "loss_bound": float(self.loss_bound)}


class DeadlinePassedError(Exception):
    """The deadline of :class:`Alone` has passed: the exchange finds out who is missing, and ends with DeadlineError."""


class TimeoutPolicy(Protocol):
    """Decides whether an exchange goes on waiting without a new result. An exception from a method ends the
    exchange."""

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        """Called twelve times in the transport's ``silence_s``, by default every 0.25 s.

        ``waited_s``: seconds without a new result. ``missing``: numbers of the workers that the oldest chunk's slot
        waits for, as far as this worker's switch knows; None if unknown.
        """

    def switch_lost(self, error: SwitchLostError) -> None:
        """Called when the switch does not answer. Returning means that the exchange waits on."""


class Alone:
    """The timeout policy of a worker that only knows about the others what the switch reports.

    After ``deadline_s`` seconds without a new result the exchange ends with DeadlineError. It ends at once with
    SwitchLostError if the switch does not answer.
    """

    def __init__(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        """Raise DeadlinePassedError after ``deadline_s``."""
        if waited_s >= self.deadline_s:
            raise DeadlinePassedError

    def switch_lost(self, error: SwitchLostError) -> None:
        """Raise the error: a worker alone has no fall-back."""
        raise error


@dataclass(frozen=True)
class Turn:
    """Which chunks this worker flushes first: those whose sequence number is ``rank`` modulo ``workers``."""

    rank: int = 0
    workers: int = 1


def turn_of(seats: Sequence[int], seat: int) -> Turn:
    """Return the turn of the worker at ``seat``, among the workers at the ``seats`` of its switch."""
    return Turn(sorted(seats).index(seat), len(seats))


@dataclass(frozen=True)
class WindowOptions:
    """Options of a window. The default is for a quorum of all workers, and only retransmits.

    ``adaptive_retries``: :mod:`sumwire.transport.retransmission` chooses the kind of each retry, which need not be a
    retransmission. Such retries cost little, so timers are shorter. ``probes``: a retry may be a PROBE, which asks the
    switch about the chunk. ``early_closing``: slots may close without this worker
    (:mod:`sumwire.transport.scheduling`). Needs ``adaptive_retries``. ``quorum_below_workers``: slots may close without
    some worker in every exchange, from the first one on. ``paths``: paths between leaf and root. With more than one,
    results arrive out of order without any loss. ``kept_results``: how many of the latest results other workers keep;
    None if no limit is known. ``workers``: the number in the job.
    """

    adaptive_retries: bool = False
    probes: bool = False
    early_closing: bool = False
    quorum_below_workers: bool = False
    paths: int = 1
    turn: Turn = field(default_factory=Turn)
    kept_results: int | None = None
    workers: int = 1


# Default of ``silence_s``.
SILENCE_S: Final = 3.0


@dataclass(frozen=True)
class TransportOptions:
    """Options of a transport. ``deadline_s``: seconds without any new result after which an exchange ends with
    DeadlineError.

    ``timeout_policy``: decides about exchanges that wait, instead of ``deadline_s`` (:mod:`sumwire.transport.options`).
    ``delivery``: loss bound, congestion control and probes; None for a complete transfer without the latter two.
    ``kept_chunks``: where slots may close without some worker, each worker keeps at least so many results for others.
    ``silence_s``: seconds without any answer after which the switch counts as lost; six HELLOs are sent in that time.
    """

    deadline_s: float = 10.0
    delivery: Delivery | None = None
    kept_chunks: int = KEPT_CHUNKS
    timeout_policy: TimeoutPolicy | None = None
    silence_s: float = SILENCE_S


@dataclass(frozen=True, eq=False)
class ExchangeOptions:
    """Options of one exchange. ``waits_for_workers``: this exchange opens an operation. Its round trips include the
    wait for slow workers, so they say nothing about the path.

    ``timeout_policy``: replaces the transport's. ``bounded_from``: contributions may be missing from the sums of this
    chunk and later ones, as many as the delivery's loss bound allows; None: from no sum. ``tos``: the IPv4 TOS byte of
    every chunk's packets, uint8 (chunks,); retransmissions have the same priority and are never dropped on purpose.
    ``contribute=False``: this worker sends nothing, and waits for the results of the others' contributions.
    ``next_run``: the exchange belongs to a greeting, and a slot in this round or a later one shows that another run has
    begun. ``checked``: in a blind job, the sums are checked; elements are int32 if "signed", else uint32, and no sum of
    them overflows.
    """

    waits_for_workers: bool = False
    timeout_policy: TimeoutPolicy | None = None
    bounded_from: int | None = None
    tos: NDArray[np.uint8] | None = None
    contribute: bool = True
    next_run: int | None = None
    checked: Literal["signed", "unsigned"] | None = None


PLAIN: Final = ExchangeOptions()
