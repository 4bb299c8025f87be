# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A window on a clock that the test moves: what it sends, and results that it hears."""

from __future__ import annotations

import numpy as np
from sumwire.transport.retransmission import RttEstimator, SendKind
from sumwire.transport.window import NOTHING, Window


def window(slots: int) -> Window:
    rtt = RttEstimator(initial_s=0.2, min_s=0.03, max_s=1.0)
    return Window(slots, rtt, job=1)


def drain(w: Window, now: float, most: int = 7) -> list[int]:
    chunks: list[int] = []
    while (outgoing := w.take(now, most)) is not None:
        assert 0 < len(outgoing.chunks) <= most
        chunks += outgoing.chunks.tolist()
    return chunks


def hear(w: Window, places: list[tuple[int, int]], now: float) -> list[int]:
    """Results that come together; the chunks they complete, or NOTHING for each."""
    slots, rounds = np.array(places, np.int64).reshape(-1, 2).T
    chunks = w.find(slots, rounds)
    w.complete(chunks[chunks != NOTHING], now)
    found: list[int] = chunks.tolist()
    return found


def answer(w: Window, chunk: int, now: float) -> int:
    return hear(w, [w.place(chunk)], now)[0]


def taken(w: Window, now: float) -> list[tuple[SendKind, list[int]]]:
    """What is sent now, in order."""
    out: list[tuple[SendKind, list[int]]] = []
    while (outgoing := w.take(now, 7)) is not None:
        out.append((outgoing.kind, outgoing.chunks.tolist()))
    return out
