# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains: packets of one flow that cross an interface as one frame (Linux: GSO, GRO)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 65535
LONGEST_S = 0.0005  # that a train occupies its link, so that an urgent packet behind it does not wait longer
UNKNOWN_MBIT = 1000.0  # of an interface that does not tell its speed
_SPEED = "/sys/class/net/{}/speed"


@dataclass(frozen=True)
class TrainSpec:
    """Which trains the native engine's ports take and send.

    ``link_mbit``: rate of the links behind the ports, where it is lower than that of the interfaces. ``allowed``: False
    for an interface that is better off without them; packets then come and go one by one, and finished.
    """

    link_mbit: float | None = None
    allowed: bool = True


DEFAULT_TRAINS = TrainSpec()


def train_bytes(mbit: float) -> int:
    """The longest train that a link of this rate carries in :data:`LONGEST_S`, at most 64 KB."""
    return min(MOST_BYTES, int(mbit * 1e6 / 8 * LONGEST_S))


def speed_mbit(interface: str) -> float:
    """What an interface says of its speed. A queueing discipline on it may be slower."""
    told = known_mbit(interface)
    return UNKNOWN_MBIT if told is None else told


def known_mbit(interface: str, link_mbit: float | None = None) -> float | None:
    """The rate of an interface's link: ``link_mbit``, or what it says of its speed; None if it says nothing."""
    if link_mbit is not None:
        return link_mbit
    with suppress(OSError, ValueError):  # down, or of a kind without a speed
        told = float(Path(_SPEED.format(interface)).read_text())
        if told > 0:
            return told
    return None
