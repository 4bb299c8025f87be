# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The job file, and what importing the library loads."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import sumwire
from helpers.transport.udp_bridge import TABLE, job_mapping, write_job
from sumwire.config import Address, JobConfig, JobFileError, Lane, ThcParameters, load_job, parse_job
from sumwire.errors import ConfigError, UsageError
from sumwire_protocol.tables import AUTO, made, optimal

WRITE_AGAIN = "write the file again: sumwire-controller job-file CONFIG --job NAME -o FILE"
FIVE: dict[str, Any] = {
    "format": 3, "name": "digits", "job": 7, "aggregator": "10.0.0.9", "hosts": ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
}  # fmt: skip


def test_a_good_file(tmp_path: Path) -> None:
    mapping = job_mapping(3, 64)
    config = load_job(write_job(mapping, tmp_path / "job.json"), worker=2)
    addresses = tuple(Address(entry["ip"], 21335, entry["aggregator"], entry["seat"]) for entry in mapping["addresses"])
    assert config == JobConfig(
        name="test",
        job=7,
        worker=2,
        workers=3,
        quorum=3,
        slots=64,
        ops=("thc", "max32"),
        addresses=addresses,
        thc=ThcParameters(4, 0.03125, TABLE),
    )
    assert config.own_address == addresses[2]
    assert (config.seat, config.aggregator) == (2, addresses[0].aggregator)


def test_thc_is_needed_only_for_its_op() -> None:
    mapping = job_mapping(1, 2)
    mapping["ops"] = ["max32"]
    del mapping["thc"]
    assert parse_job(mapping, 0).thc is None
    mapping["ops"] = ["thc"]
    assert parse_job(mapping, 0).thc == ThcParameters(4, 1 / 64, made(AUTO, 4, 1 / 64, workers=1))


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ({}, made(AUTO, 4, 1 / 64, workers=3)),
        ({"table": "auto", "bits": 3, "p": 0.1}, made(AUTO, 3, 0.1, workers=3)),
        ({"granularity": 30}, optimal(4, 30, 1 / 64)[0]),
        ({"table": "uniform"}, tuple(range(16))),
        ({"table": [0, 1, 3, 3], "bits": 2, "granularity": 3}, (0, 1, 3, 3)),
    ],
)
def test_a_table_that_is_asked_for(written: dict[str, Any], values: tuple[int, ...]) -> None:
    found = parse_job(changed(thc=written), 0).thc
    assert found is not None
    assert found.table == values


def changed(**fields: Any) -> dict[str, Any]:
    return {**job_mapping(3, 64), **fields}


def thc(**fields: Any) -> dict[str, Any]:
    return changed(thc={"bits": 4, "p": 0.03125, "table": list(TABLE), **fields})


def lanes(*numbers: int) -> list[dict[str, int]]:
    return [{"job": number, "slots": 64} for number in numbers]


def second(**fields: Any) -> dict[str, Any]:
    mapping = job_mapping(3, 64)
    mapping["addresses"][1].update(fields)
    return mapping


@pytest.mark.parametrize(
    ("mapping", "text"),
    [
        (changed(format=4), "format = 4: must be an integer in 2..3"),
        (changed(format=2, lanes=lanes(7)), "lanes = .*: unknown field"),
        (changed(lanes=[]), r"lanes = \[\]: must be a list of 1\.\.8 lanes"),
        (changed(lanes=lanes(*range(7, 16))), r"must be a list of 1\.\.8 lanes"),
        (changed(lanes=7), "lanes = 7: must be a list"),
        (changed(lanes=[5]), r"lanes\[0\]: entry = 5: must be an object"),
        (changed(lanes=lanes(8, 7)), "the first must have the job's own number 7 and 64 slots"),
        (changed(lanes=[{"job": 7, "slots": 32}]), "the first must have the job's own number 7 and 64 slots"),
        (changed(lanes=lanes(7, 8, 7)), "two lanes must not share a job number"),
        (changed(lanes=[*lanes(7), {"job": 8, "slots": 1}]), r"lanes\[1\]: slots = 1: must be an integer in 2\.\."),
        (changed(lanes=[*lanes(7), {"job": 8}]), r"lanes\[1\]: slots = None: is required"),
        (changed(lanes=[{"job": 7, "slots": 64, "tos": 1}]), r"lanes\[0\]: tos = 1: unknown field"),
        ({**second(udp_port=65535), "lanes": lanes(7, 8)}, r"udp_port = 65535: must be an integer in 1\.\.65534"),
        (changed(paths=3), "paths = 3: must be one of 1, 2, 4"),
        (changed(paths=True), "paths = True: must be an integer"),
        (changed(format=1), "format = 1: must be an integer in 2..3"),
        (changed(surprise=1), "surprise = 1: unknown field"),
        (changed(name=""), "name = '': must be a non-empty string"),
        (changed(job=65536), "job = 65536: must be an integer in 0..65535"),
        (changed(job=True), "job = True: must be an integer"),
        (changed(workers=256), r"workers = 256: must be an integer in 1\.\.255"),
        (changed(workers=2, quorum=2), "addresses .*: must have one entry for each of 2 workers"),
        (changed(quorum=4), "quorum = 4: must be an integer in 1..3"),
        ({**second(aggregator="10.0.1.1"), "quorum": 2}, "quorum = 2: must be 3, all workers: in a tree"),
        (changed(slots=1), "slots = 1: must be an integer in 2..4096"),
        (changed(slots=5000), "slots = 5000"),
        (changed(slots="64"), "slots = '64'"),
        (changed(aggregator="10.0.0.1"), "aggregator = '10.0.0.1': unknown field"),
        (second(aggregator="10.0.0"), "aggregator = '10.0.0': must be an IPv4 address"),
        (second(aggregator=5), "aggregator = 5: must be a non-empty string"),
        (second(seat=32), r"seat = 32: must be an integer in 0\.\.31"),
        (second(seat=0), "two workers must not share aggregator and seat"),
        (changed(ops=[]), r"ops = \[\]: must name each op once"),
        (changed(ops=["thc", "thc"]), "ops .*: must name each op once"),
        (changed(ops=["median"]), "out of thc, max32"),
        ({**job_mapping(17, 64), "ops": ["sign"]}, "sign is for at most 16 workers, the job has 17"),
        ({**job_mapping(16, 64), "ops": ["sign", "vote"]}, "vote is for at most 15 workers, the job has 16"),
        (changed(ops="thc"), "ops = 'thc': must be a list"),
        (changed(addresses=[1, 2, 3]), r"addresses\[0\]: entry = 1: must be an object"),
        (second(worker=2), r"addresses\[1\]: worker = 2: must be an integer in 1..1"),
        (second(ip="::1"), r"addresses\[1\]: ip = '::1': must be an IPv4 address"),
        (second(udp_port=0), r"addresses\[1\]: udp_port = 0"),
        (second(mac="x"), r"addresses\[1\]: mac = 'x': unknown field"),
        (thc(bits=5), "thc: bits = 5: must be an integer in 1..4"),
        (thc(bits=3), r"thc: table = .*: must have 8 integers for bits = 3"),
        (thc(p=1), "thc: p = 1: must be a share between 0 and 1"),
        (thc(p=0.0), "thc: p = 0.0"),
        (thc(table=[1, *TABLE[1:]]), "must start at 0 and rise strictly"),
        (thc(table=[0, 0, *TABLE[2:]]), "must start at 0 and rise strictly"),
        (thc(table=[*TABLE[:15], 86]), "granularity 86 x 3 workers must be <= 255"),
        (thc(table=[0] * 16), "must start at 0 and rise strictly"),
        (thc(table="best"), "thc: table = 'best': must be a list"),
        (thc(granularity=31), "thc: granularity = 31: must be the last value of the table, 30"),
        (changed(thc={"granularity": 86}), r"thc: granularity = 86: must be an integer in 1\.\.85"),
        (changed(thc=None), "thc = None: must be an object"),
    ],
)
def test_every_rule_names_field_and_value(mapping: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        parse_job(mapping, 0)
    assert str(caught.value).endswith(WRITE_AGAIN)


def test_a_run_has_all_workers_unless_the_file_says_how_few() -> None:
    whole = parse_job(changed(), 0)
    assert (whole.workers_min, whole.quorum_least) == (3, 0)
    assert parse_job(changed(workers_min=3), 0).quorum_least == 0
    elastic = parse_job(changed(workers_min=2, lanes=lanes(7, 8)), 0)
    assert [(lane.workers_min, lane.quorum_least) for lane in (elastic, elastic.for_lane(1))] == [(2, 2), (2, 2)]


@pytest.mark.parametrize("value", [0, 4, -1, "2", 2.0, True])
def test_a_run_has_some_worker_and_no_more_than_there_are(value: object) -> None:
    with pytest.raises(ConfigError, match=r"workers_min = .*: must be an integer in 1\.\.3"):
        parse_job(changed(workers_min=value), 0)


def test_a_tree_has_all_its_workers() -> None:
    mapping = second(aggregator="10.0.0.9")
    assert parse_job({**mapping, "workers_min": 3}, 0).quorum_least == 0
    with pytest.raises(ConfigError, match=r"workers_min = 2: must be 3, all workers: .* not a tree"):
        parse_job({**mapping, "workers_min": 2}, 0)


def test_a_run_of_another_size_says_what_may_be_done() -> None:
    elastic = parse_job(changed(workers_min=2), 2)
    for workers in (1, 4):
        with pytest.raises(ConfigError, match=rf"job test: workers = {workers}: must be in 2\.\.3") as caught:
            elastic.for_run(workers)
        assert "set `workers_min` of the job in the configuration" in str(caught.value)
        assert str(caught.value).endswith("`sumwire-controller job-file CONFIG --job test`")
    with pytest.raises(ConfigError, match=r"worker = 2: must be in 0\.\.1 in a run of 2; start workers 0, 1"):
        elastic.for_run(2)


@pytest.mark.parametrize("number", [2, 3])
def test_without_lanes_there_is_one(number: int) -> None:
    config = parse_job(changed(format=number), 0)
    assert (config.lanes, config.paths) == ((Lane(7, 64),), 1)
    assert config.for_lane(0) is config


def test_lanes_are_jobs_with_ports_of_their_own() -> None:
    mapping = changed(lanes=[*lanes(7, 9), {"job": 8, "slots": 32}], paths=2)
    config = parse_job(mapping, 1)
    assert config.lanes == (Lane(7, 64), Lane(9, 64), Lane(8, 32))
    assert config.paths == 2
    parts = [config.for_lane(lane) for lane in range(3)]
    assert [(part.name, part.job, part.slots) for part in parts] == [
        ("test/0", 7, 64), ("test/1", 9, 64), ("test/2", 8, 32),
    ]  # fmt: skip
    for lane, part in enumerate(parts):
        assert [address.udp_port for address in part.addresses] == [21335 + lane] * 3
        assert [address.ip for address in part.addresses] == [address.ip for address in config.addresses]
        assert (part.lanes, part.worker, part.paths, part.thc) == ((config.lanes[lane],), 1, 2, config.thc)
        assert part.for_lane(0) is part
    for lane in (-1, 3):
        with pytest.raises(ConfigError, match=rf"job test: lane = {lane}: must be in 0\.\.2"):
            config.for_lane(lane)


def test_lanes_of_workers_at_one_address_need_ports_apart() -> None:
    mapping = second(udp_port=21336)
    mapping["addresses"][1]["ip"] = mapping["addresses"][0]["ip"]
    assert parse_job(mapping, 0).own_address.udp_port == 21335
    with pytest.raises(ConfigError, match="must not share ip and udp_port, of any lane"):
        parse_job({**mapping, "lanes": lanes(7, 8)}, 0)


def test_seats_are_numbers_at_the_own_switch() -> None:
    mapping = job_mapping(5, 64)
    for number, (aggregator, seat) in enumerate([("10.0.1.1", 4), ("10.0.1.2", 4), ("10.0.1.1", 0)]):
        mapping["addresses"][2 + number].update(aggregator=aggregator, seat=seat)
    configs = [parse_job(mapping, worker) for worker in range(5)]
    assert [config.seat for config in configs] == [0, 1, 4, 4, 0]
    assert configs[2].seats == configs[4].seats == {4: 2, 0: 4}
    assert configs[3].seats == {4: 3}


def test_two_workers_at_one_address() -> None:
    mapping = job_mapping(3, 64)
    mapping["addresses"][1]["ip"] = mapping["addresses"][0]["ip"]
    with pytest.raises(ConfigError, match="must not share"):
        parse_job(mapping, 0)
    mapping["addresses"][1]["udp_port"] = 4000
    assert parse_job(mapping, 1).own_address.udp_port == 4000


@pytest.mark.parametrize("worker", [-1, 3])
def test_worker_outside_the_job(worker: int) -> None:
    with pytest.raises(ConfigError, match=rf"worker = {worker}: must be in 0\.\.2; start 3 processes, each"):
        parse_job(job_mapping(3, 64), worker)


@pytest.mark.parametrize("field", ["format", "job", "slots", "addresses", "ops", "workers", "quorum"])
def test_missing_field(field: str) -> None:
    mapping = job_mapping(3, 64)
    del mapping[field]
    with pytest.raises(ConfigError, match=f"job: {field} = None: is required"):
        parse_job(mapping, 0)


@pytest.mark.parametrize(("content", "text"), [("{", "must be JSON"), ("[1]", "must hold one JSON object")])
def test_file_that_is_no_object(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "job.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=text) as caught:
        load_job(path, worker=0)
    assert str(path) in str(caught.value) and str(caught.value).endswith(WRITE_AGAIN)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """An OSError with its number, and one of Sumwire's."""
    for path, number in ((tmp_path / "nowhere.json", errno.ENOENT), (tmp_path, errno.EISDIR)):
        with pytest.raises(JobFileError) as caught:
            load_job(path, worker=0)
        assert isinstance(caught.value, OSError) and isinstance(caught.value, UsageError)
        assert caught.value.errno == number
        told = str(caught.value)
        assert told.startswith(f"{path}: {os.strerror(number)}: ") and told.endswith(WRITE_AGAIN)


def test_the_earlier_name_of_an_error_still_catches_it() -> None:
    assert sumwire.LaneOverflowError is sumwire.SumOverflowError


def test_every_public_name_is_there() -> None:
    modules = {
        "backend", "checkpoint", "codec", "config", "ddp", "delivery", "dlcp", "errors", "logs", "multihop", "optim",
        "reductions", "sharded", "start", "systems", "wire",
    }  # fmt: skip
    assert modules <= set(dir(sumwire))
    for name in dir(sumwire):
        found = getattr(sumwire, name)
        assert found.__name__ == f"sumwire.{name}" if name in modules else callable(found), name
    with pytest.raises(AttributeError, match="nonsense"):
        _ = sumwire.nonsense


def test_five_fields_are_enough() -> None:
    config = parse_job(FIVE, 1)
    assert (config.workers, config.quorum, config.slots, config.ops) == (3, 3, 512, ("thc", "max32", "sum32"))
    assert [(a.ip, a.udp_port, a.seat) for a in config.addresses] == [(f"10.0.0.{k}", 21335, k - 1) for k in (1, 2, 3)]
    assert config.aggregator == "10.0.0.9" and config.thc is not None
    assert config.thc.granularity * 3 <= 255


def test_others_may_be_given() -> None:
    config = parse_job({**FIVE, "slots": 64, "ops": ["sum32", "max32"], "quorum": 2}, 0)
    assert (config.slots, config.ops, config.quorum) == (64, ("sum32", "max32"), 2)


def test_what_shares_an_address_has_ports_of_its_own() -> None:
    """Eight lanes fit between two of them."""
    config = parse_job({**FIVE, "hosts": ["10.0.0.9", "10.0.0.1", "10.0.0.1"]}, 0)
    assert [address.udp_port for address in config.addresses] == [21343, 21335, 21343]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hosts": "10.0.0.1"}, "hosts = '10.0.0.1': must be a list"),
        ({"hosts": []}, "hosts = .*: must be a list"),
        ({"hosts": ["x"]}, "ip = 'x': must be an IPv4 address"),
        ({"aggregator": 5}, "aggregator = 5: must be a non-empty string"),
        ({"aggregator": []}, r"aggregator = \[\]: must be a non-empty string"),
        ({"addresses": []}, "addresses = .*must not be there with hosts"),
        ({"workers": 2}, "must have one entry for each of 2 workers"),
    ],
)
def test_broken_rules(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_job(FIVE | change, 0)


@pytest.mark.parametrize(
    ("missing", "message"),
    [("hosts", "aggregator = '10.0.0.9': unknown"), ("aggregator", "aggregator = None: is requ")],
)
def test_one_alone_is_not_enough(missing: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_job({name: value for name, value in FIVE.items() if name != missing}, 0)
