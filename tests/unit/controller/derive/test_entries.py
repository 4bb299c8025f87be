# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All entries that a switch should hold, against sets of strings written by hand."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.controller.config_texts import job, queue, star, text
from sumwire_controller.derive.desired import desired_entries
from sumwire_controller.derive.entries import TableEntry, admissions, job_of
from sumwire_controller.derive.jobs import with_lanes
from sumwire_controller.model import Config
from sumwire_controller.parse.files import parse_config
from sumwire_protocol.digest import job_digest

ONES = (1 << 1024) - 1


def strings(data: object, generations: dict[int, int], last: int) -> set[str]:
    return set(map(str, desired_entries(parse_config(text(data)), generations, last)))


COMMON = {
    "aggregator[address=10.0.0.100] serve(mac=02:53:57:00:00:64)",
    "forward[dst=10.0.0.1, prefix=32] to_port(port=1)",
    "forward[dst=10.0.0.2, prefix=32] to_port(port=2)",
    "source[port=1, mac=00:00:00:00:00:01, address=10.0.0.1] known_source()",
    "source[port=2, mac=00:00:00:00:00:02, address=10.0.0.2] known_source()",
}


def test_no_jobs() -> None:
    assert strings(star(2, jobs=[]), {}, 0) == COMMON


def test_the_ledger_stays_when_the_jobs_are_gone() -> None:
    assert strings(star(2, jobs=[]), {}, 9) == COMMON | {"replica[65535, 255] ledger: last generation 9"}


def test_one_job_of_max32() -> None:
    data = star(2, jobs=[job("m", 6, 2, 128, 64)])
    data["jobs"][0]["workers"] = ["h2", "h1"]
    data["jobs"][0]["quorum"] = 1
    data["workers"][0]["udp_port"] = 4000
    assert strings(data, {6: 1000}, 1001) == COMMON | {
        "replica[65535, 255] ledger: last generation 1001",
        "job[job=6] admit_job(generation=1000, slot_base=128, job_slots=64, quorum=1, group=7, job_ops=0x4, "
        f"spray=0, quorum_least=0, digest={job_digest(6, ['max32'], 2, 1, 64, None):#x})",
        "group 7: 1#2, 2#1",
        "worker[job=6, worker=0] admit_worker(port=2, address=10.0.0.2, worker_bit=0x1, worker_weight=1, is_switch=0, "
        "mac=00:00:00:00:00:02, udp_port=21335, budget=0, budget_cell=0)",
        "worker[job=6, worker=1] admit_worker(port=1, address=10.0.0.1, worker_bit=0x2, worker_weight=1, is_switch=0, "
        "mac=00:00:00:00:00:01, udp_port=4000, budget=0, budget_cell=0)",
        "replica[job=6, worker=0] address(mac=00:00:00:00:00:02, ip=10.0.0.2, udp_port=21335)",
        "replica[job=6, worker=1] address(mac=00:00:00:00:00:01, ip=10.0.0.1, udp_port=4000)",
    }


def test_job_zero_has_a_group_and_worker_31_the_top_bit() -> None:
    data = star(32, jobs=[job("m", 0, 32, 0, 2)])
    found = strings(data, {0: 1}, 1)
    assert "group 1: " + ", ".join(f"{k}#{k}" for k in range(1, 33)) in found
    last = "port=32, address=10.0.0.32, worker_bit=0x80000000, worker_weight=1, is_switch=0, mac=00:00:00:00:00:20"
    assert f"worker[job=0, worker=31] admit_worker({last}, udp_port=21335, budget=0, budget_cell=0)" in found


def test_ops_of_thc_and_max32_and_a_small_table() -> None:
    data = star(1, jobs=[job("d", 1, 1, 0, 2, "thc max32")])
    data["jobs"][0]["thc"] = {"bits": 1, "p": 0.1, "table": [0, 31]}
    found = strings(data, {1: 5}, 5)
    assert (
        "job[job=1] admit_job(generation=5, slot_base=0, job_slots=2, quorum=1, group=2, job_ops=0x6, "
        f"spray=0, quorum_least=0, digest={job_digest(1, ['thc', 'max32'], 1, 1, 2, [0, 31]):#x})" in found
    )
    # 31 = all five low planes for z = 1; the zero rows behind the table need the monomials with z0 as a factor
    rows = [entry for entry in found if entry.startswith("thc")]
    odd = " ".join(f"p{j}_c{m:02}" for j in range(5) for m in range(1, 16, 2))
    assert rows == [f"thc_low[job=1] coefficients_low({odd})"]


def _thc_rows(table: list[int]) -> dict[str, TableEntry]:
    data = star(1, jobs=[job("d", 1, 1, 0, 2, "thc")])
    data["jobs"][0]["thc"] = {"bits": 2, "p": 0.1, "table": table}
    entries = desired_entries(parse_config(text(data)), {1: 5}, 5)
    return {entry.table: entry for entry in entries if isinstance(entry, TableEntry) and entry.table.startswith("thc")}


def test_high_planes_only_for_values_that_need_them() -> None:
    assert set(_thc_rows([0, 1, 2, 31])) == {"thc_low"}
    assert set(_thc_rows([0, 1, 2, 32])) == {"thc_low", "thc_high"}


def test_long_packets_need_no_entries_but_the_jobs() -> None:
    """Their values have been looked up by the hosts."""
    entries = [
        desired_entries(parse_config(text(star(1, jobs=[job("d", 1, 1, 0, 2, ops)]))), {1: 5}, 5)
        for ops in ("thc", "thc jumbo")
    ]
    (short,), (long,) = (set(each) - set(other) for each, other in (entries, entries[::-1]))
    assert isinstance(short, TableEntry) and isinstance(long, TableEntry)
    assert (short.table, long.table) == ("job", "job")
    assert (short.arg("job_ops"), long.arg("job_ops")) == (1 << 1, 1 << 1 | 1 << 7)


def test_coefficients_are_masks_in_the_order_of_the_parameters() -> None:
    rows = _thc_rows([0, 1, 2, 255])
    assert (len(rows["thc_low"].args), len(rows["thc_high"].args)) == (80, 48)
    assert set(rows["thc_low"].args) == {0, ONES}
    # plane 7 is 1 for z = 3 alone: z0 z1, and its products with the absent z2 and z3
    plane7 = rows["thc_high"].args[32:]
    assert [m for m in range(16) if plane7[m]] == [3, 7, 11, 15]
    assert rows["thc_high"].arg("p7_c03") == ONES


def test_a_job_that_sprays_says_so() -> None:
    data = star(2, jobs=[{**job("m", 6, 2, 128, 64), "spray": "hash"}])
    found = [line for line in strings(data, {6: 1}, 1) if line.startswith("job")]
    assert found == [
        "job[job=6] admit_job(generation=1, slot_base=128, job_slots=64, quorum=2, group=7, job_ops=0x4, "
        f"spray=1, quorum_least=0, digest={job_digest(6, ['max32'], 2, 2, 64, None):#x})"
    ]


@pytest.mark.parametrize(
    ("rate_mbit", "rate"),
    [(1, 128), (20, 2560), (1000, 128_000), (0.5, 64), (12.34, 1580), (33_554_431, 4_294_967_168)],
)
def test_a_virtual_queue_is_no_jobs_and_has_its_rate_in_bytes_per_1024_us(rate_mbit: float, rate: int) -> None:
    data = {**star(2, jobs=[]), "queues": [queue(2, rate_mbit=rate_mbit, trim=True)]}
    assert strings(data, {}, 0) == COMMON | {
        f"virtual_queue[port=2] limit(rate={rate}, mark=8000, drop3=4000, drop2=6000, drop1=9000, drop0=12000, "
        "drop_all=20000, trims=1)"
    }
    (row,) = (e for e in desired_entries(parse_config(text(data)), {}, 0) if str(e).startswith("virtual"))
    assert job_of(row) is None


@pytest.mark.parametrize(
    ("share", "of_65536"), [(0, 0), (1, 65536), (0.5, 32768), (0.01, 655), (0.1, 6554), (0.000001, 0)]
)
@pytest.mark.parametrize(("mode", "number"), [("trim", 1), ("drop", 2), ("trim-results", 4)])
def test_loss_on_purpose_is_the_jobs(share: float, of_65536: int, mode: str, number: int) -> None:
    data = star(1, jobs=[{**job("d", 6, 1, 0, 2, "thc"), "degrade": {"seed": 7, "share": share, "mode": mode}}])
    (row,) = (e for e in desired_entries(parse_config(text(data)), {6: 1}, 1) if str(e).startswith("degrade"))
    assert str(row) == f"degrade[job=6] degrade(seed=7, share={of_65536}, mode={number})"
    assert job_of(row) == 6


def test_every_entry_knows_its_job() -> None:
    data = star(2, jobs=[job("a", 0, 2, 0, 2, "thc"), job("b", 9, 1, 2, 2)])
    entries = desired_entries(parse_config(text(data)), {0: 1, 9: 2}, 2)
    count = {who: sum(job_of(entry) == who for entry in entries) for who in (None, 0, 9)}
    # ledger, aggregator, 2 routes, 2 sources; job, group, thc_low, 2 * 2; job, group, 2
    assert count == {None: 6, 0: 7, 9: 4}
    assert sum(count.values()) == len(entries)


def job_row(config: Config, number: int) -> TableEntry:
    return admissions(desired_entries(config, {job.id: 1 for job in config.jobs}, 1))[number]


@pytest.mark.parametrize(("workers_min", "least"), [(None, 0), (4, 0), (3, 3), (1, 1)])
def test_the_smallest_quorum_that_a_run_may_ask_for(workers_min: int | None, least: int) -> None:
    wanted = job("m", 6, 4, 0, 64)
    if workers_min is not None:
        wanted["workers_min"] = workers_min
    row = job_row(parse_config(text(star(4, jobs=[wanted]))), 6)
    assert (row.arg("quorum_least"), row.arg("quorum")) == (least, 4)
    assert row.arg("digest") == job_digest(6, ["max32"], 4, 4, 64, None, least)


def test_each_lane_has_a_digest_of_its_own() -> None:
    config = with_lanes(parse_config(text(star(4, jobs=[{**job("m", 6, 4, 0, 64), "lanes": 4, "workers_min": 2}]))))
    found = [job_row(config, number).arg("digest") for number in range(6, 10)]
    assert found == [job_digest(number, ["max32"], 4, 4, 16, None, 2) for number in range(6, 10)]


def middle() -> dict[str, Any]:
    """A switch with lower switches s1 (of 4 hosts) on port 1 and s2 (of one) on port 2, a host, and room above."""
    data = star(4, jobs=[job("m", 6, 3, 128, 64)])
    for k, hosts in ((1, 4), (2, 1)):
        data["workers"][k - 1].update(name=f"s{k}", stands_for=hosts)
    data["jobs"][0]["workers"] = ["s1", "h3", "s2"]
    return data


def parent(k: int, seat: int) -> dict[str, Any]:
    return {"port": 4, "ip": f"10.0.1.{k}", "mac": f"02:53:57:00:01:0{k}", "worker": seat}


def test_lower_switches_send_partial_results_of_as_many_as_they_stand_for() -> None:
    data = middle()
    workers = {
        "worker[job=6, worker=0] admit_worker(port=1, address=10.0.0.1, worker_bit=0x1, worker_weight=4, is_switch=1, "
        "mac=00:00:00:00:00:01, udp_port=21335, budget=0, budget_cell=0)",
        "worker[job=6, worker=1] admit_worker(port=3, address=10.0.0.3, worker_bit=0x2, worker_weight=1, is_switch=0, "
        "mac=00:00:00:00:00:03, udp_port=21335, budget=0, budget_cell=0)",
        "worker[job=6, worker=2] admit_worker(port=2, address=10.0.0.2, worker_bit=0x4, worker_weight=1, is_switch=1, "
        "mac=00:00:00:00:00:02, udp_port=21335, budget=0, budget_cell=0)",
    }
    found = strings(data, {6: 1}, 1)
    assert {line for line in found if line.startswith("worker")} == workers
    assert not [line for line in found if line.startswith("uplink")]
    data["jobs"][0]["stands_for"] = [3, 1, 1]
    assert {line for line in strings(data, {6: 1}, 1) if line.startswith("worker")} == {
        line.replace("worker_weight=4", "worker_weight=3") for line in workers
    }


@pytest.mark.parametrize(("count", "mask"), [(1, 0), (2, 1), (4, 3)])
def test_the_lowest_bits_of_a_slot_select_the_parent(count: int, mask: int) -> None:
    data = middle()
    data["jobs"][0]["parents"] = [parent(k, k + 4) for k in range(1, count + 1)]
    found = {line for line in strings(data, {6: 1}, 1) if line.startswith("uplink")}
    assert found == {
        f"uplink[job=6, slot={k - 1}, mask={mask}, priority=1] to_parent(port=4, mac=02:53:57:00:01:0{k}, "
        f"address=10.0.1.{k}, worker={k + 4}, worker_bit={1 << k + 4:#x})"
        for k in range(1, count + 1)
    }


def test_an_uplink_belongs_to_its_job() -> None:
    data = middle()
    data["jobs"][0]["parents"] = [parent(1, 0)]
    entries = desired_entries(parse_config(text(data)), {6: 1}, 1)
    assert [job_of(entry) for entry in entries if str(entry).startswith("uplink")] == [6]


def test_lanes_share_a_job_s_limit() -> None:
    data = star(1, jobs=[{**job("m", 6, 1, 128, 64), "lanes": 2, "limit_mbit": 30}])
    config = with_lanes(parse_config(text(data)))
    found = {str(entry) for entry in desired_entries(config, {6: 1, 7: 2}, 2) if str(entry).startswith("worker")}
    # 15 Mbit/s each, in bytes per 1024 us.
    assert {(line[:12], *line.split(", ")[-2:]) for line in found} == {
        ("worker[job=6", "budget=1920", "budget_cell=128)"),
        ("worker[job=7", "budget=1920", "budget_cell=160)"),
    }
