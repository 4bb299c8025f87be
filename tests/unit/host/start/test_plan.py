# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which ranks share which worker."""

from __future__ import annotations

import pytest
from sumwire.start import place
from sumwire.start.errors import PlaceError
from sumwire.start.place import Source, plan


def entries(*ips: str) -> list[dict[str, str]]:
    return [{"ip": ip} for ip in ips]


EIGHT = [f"m{number // 8}" for number in range(64)]


def test_64_ranks_on_8_machines() -> None:
    nodes = plan(EIGHT, [[rank // 8] for rank in range(64)], entries(*"abcdefgh"))
    assert nodes == tuple(tuple(range(8 * node, 8 * node + 8)) for node in range(8))


def test_machines_in_another_order_than_hosts() -> None:
    assert plan(["y", "y", "x"], [[1], [1], [0]], entries("x", "y")) == ((2,), (0, 1))


def test_a_machine_with_several_addresses() -> None:
    """All ranks on loopback: two workers with four and three ranks."""
    assert plan(["m"] * 7, [[0, 1]] * 7, entries("a", "b")) == ((0, 1, 2), (3, 4, 5, 6))
    assert plan(["m"] * 2, [[0, 1]] * 2, entries("a", "b")) == ((0,), (1,))


def test_a_machine_that_the_job_does_not_know() -> None:
    with pytest.raises(PlaceError, match=r"ranks \[1\]: no address of their machine is one of the job's \[\"a\"\]"):
        plan(["m", "n"], [[0], []], entries("a"))


def test_a_host_without_ranks() -> None:
    with pytest.raises(PlaceError, match="workers at b have no rank"):
        plan(["m"], [[0]], entries("a", "b"))


def test_a_worker_for_each_rank() -> None:
    with pytest.raises(PlaceError, match="name the host once for each"):
        plan(["m", "m"], [[0], [0]], entries("a"), each_rank=True)
    assert plan(["m", "m"], [[0, 1], [0, 1]], entries("a", "a"), each_rank=True) == ((0,), (1,))


def test_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMWIRE_SERVICE", "b:5")
    assert Source().checked().service == "b:5"
    assert Source("a").checked().service == "a"
    assert Source(aggregator="rank0").checked().service is None
    with pytest.raises(PlaceError, match="service and job: must be one of them"):
        Source("a", "b.json").checked()
    with pytest.raises(PlaceError, match="must be 'rank0', or left out"):
        Source(aggregator="rank1").checked()


def test_a_name_that_is_its_machine_s_own_only_there() -> None:
    """Rank 0's machine knows its name as 127.0.1.1, and so takes the address that the others know it by."""
    said = [
        {"machine": "m", "address": "127.0.0.1", "master": "127.0.1.1"},
        {"machine": "m", "address": "10.0.0.7", "master": "127.0.1.1"},
        {"machine": "n", "address": "10.0.0.2", "master": "10.0.0.1"},
    ]
    known = place._as_others_know(said)
    assert [one["address"] for one in known] == ["10.0.0.1", "10.0.0.7", "10.0.0.2"]
    assert [one["master"] for one in known] == ["10.0.0.1"] * 3
    alone = said[:2]
    assert place._as_others_know(alone) == alone


def test_versions_that_differ_are_named_by_rank() -> None:
    place.check_versions(["1.0"] * 3)
    with pytest.raises(
        PlaceError, match=r"differ: '1.0' on ranks \[0, 2\]; '0.9' on ranks \[1\]: install the same one"
    ):
        place.check_versions(["1.0", "0.9", "1.0"])


def test_a_job_file_is_for_all_ranks_or_none() -> None:
    for alike in (True, False):
        place.check_files([alike] * 3, [None] * 3)
    match = r"SUMWIRE_JOB, or job= .* on ranks \[0, 2\], but not on ranks \[1\]: give it to all ranks, or to none"
    with pytest.raises(PlaceError, match=match):
        place.check_files([True, False, True], [None] * 3)
    match = r"not on ranks \[0, 1\], where SUMWIRE_SERVICE, or service=, goes before it on ranks \[1\]: give"
    with pytest.raises(PlaceError, match=match):
        place.check_files([False, False, True], [None, "10.0.0.9", None])
