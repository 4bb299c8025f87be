# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Verdicts of `make verify-dlcp`, each from numbers on both sides of its target."""

from __future__ import annotations

import pytest
from sumwire_lab.experiments.overload import Overload
from sumwire_lab.experiments.spines import Failover, Spread
from sumwire_lab.verify import dlcp


def verdicts(rows: list[dlcp.Check]) -> list[bool | None]:
    return [row.holds for row in rows]


def overload(dropped: list[int], received: list[int]) -> Overload:
    return Overload([100, 100, 100, 100], dropped, [0, 0, 0, 0], received, 0)


def test_overload_holds() -> None:
    rows = dlcp.overload_checks(overload([0, 0, 2, 38], [100, 100, 98, 62]))
    assert verdicts(rows) == [True, True, True]


def test_overload_in_other_classes_fails() -> None:
    rows = dlcp.overload_checks(overload([0, 0, 3, 37], [100, 100, 97, 63]))
    assert verdicts(rows) == [False, True, True]


def test_a_large_packet_lost_fails() -> None:
    rows = dlcp.overload_checks(overload([1, 0, 0, 99], [99, 100, 100, 1]))
    assert verdicts(rows) == [True, False, True]


def test_packets_lost_where_nobody_counts_fail() -> None:
    rows = dlcp.overload_checks(overload([0, 0, 0, 40], [100, 100, 100, 59]))
    assert verdicts(rows) == [True, True, False]


def test_contention_compares_both_ways() -> None:
    rows = dlcp.contention_checks({"alike": 3.0, "one": 2.9, "priorities": 2.0})
    assert verdicts(rows) == [True, False]


def spread(values_per_s: float, first: float) -> Spread:
    return Spread("slot", 1.0, values_per_s, [first, 1 - first])


@pytest.mark.parametrize(("rate", "share", "wanted"), [(18.0, 0.53, [True, True]), (17.9, 0.54, [False, False])])
def test_spines(rate: float, share: float, wanted: list[bool]) -> None:
    rows = dlcp.spines_checks(
        {"one spine": spread(10.0, 1.0), "slot": spread(rate, share), "hash": spread(rate, share)}
    )
    assert verdicts(rows) == wanted * 2


def test_failover() -> None:
    assert verdicts(dlcp.failover_checks(Failover(0.1, 0.9, 0.4, ["a", "a"], 0))) == [True, True, True]
    assert verdicts(dlcp.failover_checks(Failover(0.1, 1.1, 1.4, ["a", "b"], 0))) == [False, False, False]


def entry(comm: float, accuracy: float = 0.98, equal: bool = True, fallbacks: int = 0) -> dict[str, object]:
    return {"comm_s_per_step_p99": comm, "accuracy": accuracy, "replicas_equal": equal, "fallbacks": fallbacks}


def test_lossy_holds_up_to_its_target() -> None:
    assert all(verdicts(dlcp.lossy_checks("bounded", entry(1.0), entry(1.1), 1.1)))


@pytest.mark.parametrize(
    ("loss", "row"),
    [(entry(1.11), 0), (entry(1.0, 0.974), 1), (entry(1.0, equal=False), 2), (entry(1.0, fallbacks=1), 2)],
)
def test_lossy_fails(loss: dict[str, object], row: int) -> None:
    held = verdicts(dlcp.lossy_checks("bounded", entry(1.0), loss, 1.1))
    assert held == [k != row for k in range(4)]


def test_trimming_must_be_better_in_both() -> None:
    better = {"nmse": 0.1, "accuracy": 0.9}
    worse = {"nmse": 0.2, "accuracy": 0.8}
    assert verdicts(dlcp.trimming_checks(better, worse)) == [True, True]
    assert verdicts(dlcp.trimming_checks(worse, better)) == [False, False]
    assert verdicts(dlcp.trimming_checks(better, better)) == [False, False]


def timed(seconds: float | None) -> dict[str, object]:
    return {"time_to_target_s": seconds, "replicas_equal": True, "fallbacks": 0}


def test_congested() -> None:
    rows = dlcp.congested_checks({"gloo": timed(80.0), "thc": timed(13.0), "dlcp": timed(10.0)})
    assert all(verdicts(rows))
    assert rows[2].value == pytest.approx(1.3 / 1.84)


def test_congested_without_an_end_fails() -> None:
    rows = dlcp.congested_checks({"gloo": timed(None), "thc": timed(13.0), "dlcp": timed(10.0)})
    assert verdicts(rows)[:2] == [False, True]
    rows = dlcp.congested_checks({"gloo": timed(80.0), "thc": timed(13.0), "dlcp": timed(None)})
    assert verdicts(rows)[:3] == [False, False, False]
