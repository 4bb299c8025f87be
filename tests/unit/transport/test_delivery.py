# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Bounded loss over real sockets, with the golden switch on loopback: what may be missing, and what may not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from golden import model
from numpy.typing import NDArray
from sumwire import _p4 as p4
from sumwire.delivery import Delivery
from sumwire.errors import ConfigError
from sumwire.transport import Results, Transport
from unit.transport.udp_bridge import TABLE, Bridge, Impairment, configs, golden_switch, job_mapping, run_workers

WORKERS = 4


def planes(seed: int, chunks: int) -> NDArray[np.uint8]:
    """Index planes of every worker, (workers, chunks, 4, 128)."""
    return np.random.default_rng(seed).integers(0, 256, (WORKERS, chunks, 4, 128), dtype=np.uint8)


def assert_right(results: Results, up: NDArray[np.uint8]) -> None:
    """Every sum is that of the contributors it names."""
    table = np.array(TABLE)
    for chunk, words in enumerate(results.words):
        inside = [w for w in range(WORKERS) if int(results.contributors[chunk]) >> w & 1]
        total = np.sum([table[model.from_planes(up[w, chunk].tobytes())] for w in inside], axis=0)
        assert words.tobytes() == model.to_planes(total, 8)
        assert results.counts[chunk] == len(inside)
        assert bool(results.flags[chunk] & p4.FLAG_MISSING) is (len(inside) < WORKERS)


def transfer(
    delivery: Delivery | None, up: NDArray[np.uint8], *, slots: int = 16, bounded: bool = True, **bridge: Any
) -> tuple[list[Results], list[Any]]:
    """One tensor through the golden switch; all workers' results and counters."""
    mapping = job_mapping(WORKERS, slots)

    def work(worker: int) -> tuple[Results, Any]:
        with Transport(configs(mapping)[worker], delivery=delivery) as transport:
            return transport.exchange(p4.OP_THC, up[worker], bounded=bounded), transport.stats

    with Bridge(mapping, golden_switch(mapping), **bridge):
        outcomes = run_workers(work, WORKERS)
    return [results for results, _ in outcomes], [stats for _, stats in outcomes]


def assert_alike(results: list[Results]) -> None:
    for other in results[1:]:
        assert (other.words == results[0].words).all()
        assert (other.counts == results[0].counts).all()


@pytest.mark.parametrize("bound", [-0.01, 1.0, 1.5, math.nan, math.inf, "0.1", True, None])
def test_loss_bound_outside_its_range_is_refused(bound: Any) -> None:
    with pytest.raises(ConfigError, match=r"delivery: loss_bound = .*: must be a share in \[0, 1\)"):
        Delivery(loss_bound=bound)


def test_other_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="divisor = 'n': must be one of contributors, workers"):
        Delivery(divisor="n")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="probes = 1: must be true or false"):
        Delivery(probes=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_p_0_equals_a_reliable_transfer_bit_for_bit(seed: int) -> None:
    up = planes(seed, 120)
    weather = Impairment(seed, drop=0.05, duplicate=0.02, reorder=0.02)
    plain, _ = transfer(None, up, impairment=weather)
    careful, stats = transfer(Delivery(), up, impairment=weather)
    assert_alike(plain + careful)
    for results in careful:
        assert_right(results, up)
        assert (results.counts == WORKERS).all()
    assert all(one.missing == one.left_out == one.flushed == 0 for one in stats)
    assert sum(one.probes for one in stats) > 0
    assert sum(one.informs for one in stats) > 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("bound", [0.005, 0.03, 0.2])
def test_missing_share_stays_below_the_bound_and_replicas_equal(bound: float, seed: int) -> None:
    up = planes(seed, 150)
    results, stats = transfer(Delivery(loss_bound=bound), up, slots=512, impairment=Impairment(seed, drop=0.04))
    assert_alike(results)
    for one in results:
        assert_right(one, up)
    missing = int((WORKERS - results[0].counts.astype(int)).sum())
    assert missing <= math.floor(bound * 150 * WORKERS)
    assert [one.missing for one in stats] == [missing] * WORKERS
    assert sum(one.left_out for one in stats) == missing
    if bound >= 0.03:
        assert missing > 0


def test_an_exchange_that_is_not_bounded_is_complete() -> None:
    up = planes(1, 60)
    results, _ = transfer(Delivery(loss_bound=0.5), up, bounded=False, impairment=Impairment(1, drop=0.05))
    for one in results:
        assert (one.counts == WORKERS).all()
