# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of index planes through a switch on loopback, and what their sums have to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from golden import model
from helpers.transport.udp_bridge import TABLE, Bridge, FrameSwitch, configs, golden_switch, run_workers
from numpy.typing import NDArray
from sumwire.transport.buffers import Results
from sumwire.transport.options import ExchangeOptions, TransportOptions
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport
from sumwire_protocol import constants as p4

_PLAIN = ExchangeOptions()


class Outcome(NamedTuple):
    """What a worker has of an exchange. ``limit``: chunks of its congestion window, or 0."""

    results: Results
    stats: JobStats
    limit: int


def planes(seed: int, chunks: int, workers: int) -> NDArray[np.uint8]:
    """Index planes of every worker, (workers, chunks, 4, 128)."""
    return np.random.default_rng(seed).integers(0, 256, (workers, chunks, 4, 128), dtype=np.uint8)


def exchanged(
    mapping: dict[str, Any],
    up: NDArray[np.uint8],
    switch: FrameSwitch | None = None,
    *,
    key: bytes | None = None,
    options: TransportOptions | None = None,
    exchange: ExchangeOptions = _PLAIN,
    bridge: type[Bridge] = Bridge,
    **bridged: Any,
) -> list[Outcome]:
    """One THC exchange of all workers through ``switch``, the golden one if there is none."""
    jobs = [replace(config, key=key) for config in configs(mapping)]

    def work(worker: int) -> Outcome:
        with Transport(jobs[worker], options) as transport:
            results = transport.exchange(p4.OP_THC, up[worker], options=exchange)
            limit = transport.window.limit
            return Outcome(results, transport.stats, 0 if limit is None else limit.chunks)

    with bridge(mapping, switch or golden_switch(mapping, key=key), **bridged):
        return run_workers(work, len(jobs))


def thc_sums(up: NDArray[np.uint8], contributors: Sequence[int] | None = None) -> list[bytes]:
    """Golden sum planes by chunk, of the workers in each chunk's bitmap, or of all."""
    table, workers = np.array(TABLE), range(len(up))
    bitmaps = [(1 << len(up)) - 1] * up.shape[1] if contributors is None else contributors
    inside = [[up[worker, chunk] for worker in workers if bitmap >> worker & 1] for chunk, bitmap in enumerate(bitmaps)]
    return [model.to_planes(sum(table[model.from_planes(one.tobytes())] for one in ups), 8) for ups in inside]


def assert_sums(results: Sequence[Results], up: NDArray[np.uint8], least: int | None = None) -> None:
    """All workers have the same, and every sum is that of the contributors that it names: at least so many, or all."""
    contributors = results[0].contributors.tolist()
    assert [words.tobytes() for words in results[0].words] == thc_sums(up, contributors)
    assert results[0].counts.tolist() == [bitmap.bit_count() for bitmap in contributors]
    assert all(bitmap.bit_count() >= (len(up) if least is None else least) for bitmap in contributors)
    for other in results[1:]:
        for name in ("words", "counts", "contributors"):
            assert np.array_equal(getattr(other, name), getattr(results[0], name)), name
