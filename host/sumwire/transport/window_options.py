# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a window does beyond plain retransmission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Turn:
    """Which chunks this worker flushes first: those whose sequence number is ``rank`` modulo ``workers``."""

    rank: int = 0
    workers: int = 1


def turn_of(seats: Sequence[int], seat: int) -> Turn:
    """The turn of the worker at ``seat``, among the workers at the ``seats`` of its switch."""
    return Turn(sorted(seats).index(seat), len(seats))


@dataclass(frozen=True)
class WindowOptions:
    """The default is a window for a quorum of all workers, which only retransmits.

    ``adaptive_retries``: a retry need not be a retransmission: :mod:`sumwire.transport.retries` chooses. Such retries
    cost little, so timers are shorter.
    ``probes``: a retry may be a PROBE, which asks the switch about the chunk.
    ``early_closing``: slots may close without this worker (:mod:`sumwire.transport.early_closing`). Needs
    ``adaptive_retries``.
    ``quorum_below_workers``: slots may close without some worker in every exchange, from the first one on.
    ``paths``: paths between leaf and root. With more than one, results arrive out of order without any loss.
    ``kept_results``: how many of the latest results other workers keep; None if no limit is known.
    ``workers``: of the job.
    """

    adaptive_retries: bool = False
    probes: bool = False
    early_closing: bool = False
    quorum_below_workers: bool = False
    paths: int = 1
    turn: Turn = field(default_factory=Turn)
    kept_results: int | None = None
    workers: int = 1
