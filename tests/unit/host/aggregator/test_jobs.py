# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Job files that an aggregator takes, and those it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.aggregator.served import tree_mapping
from helpers.transport.udp_bridge import TABLE, configs, job_mapping, write_job
from sumwire.aggregator.jobs import Above, lanes_of, load_jobs, part_of
from sumwire.aggregator.state import State, coefficients
from sumwire.config import parse_job
from sumwire.errors import ConfigError


def elsewhere(mapping: dict[str, Any], workers: int) -> dict[str, Any]:
    """The first workers send to another aggregator."""
    moved = [{**a, "aggregator": "127.9.9.9"} if a["worker"] < workers else a for a in mapping["addresses"]]
    return {**mapping, "addresses": moved}


def test_jobs_share_one_aggregator(tmp_path: Path) -> None:
    first = job_mapping(3, 8, job=1)
    second = {**first, "job": 2, "name": "other", "slots": 5}
    jobs = load_jobs([write_job(first, tmp_path / "a.json"), write_job(second, tmp_path / "b.json")])
    state = State(lanes_of(jobs))
    assert [(int(j["first_slot"]), int(j["slots"])) for j in state.jobs] == [(0, 8), (8, 5)]
    assert len(state.places) == 6


def test_seats_need_not_be_worker_numbers(tmp_path: Path) -> None:
    mapping = job_mapping(2, 8)
    mapping["addresses"][0]["seat"], mapping["addresses"][1]["seat"] = 31, 4
    (entry,) = State(lanes_of(load_jobs([write_job(mapping, tmp_path / "a.json")]))).jobs
    assert {seat: int(place) for seat, place in enumerate(entry["places"]) if place >= 0} == {31: 0, 4: 1}


def test_several_aggregators_without_a_tree_are_refused(tmp_path: Path) -> None:
    path = write_job(elsewhere(job_mapping(4, 8), 2), tmp_path / "tree.json")
    with pytest.raises(
        ConfigError, match=r"tree.json: aggregator = .*127\.9\.9\.9.*must be one, or lower ones of a `tree`"
    ):
        load_jobs([path])


def test_two_aggregators_in_two_files_are_refused(tmp_path: Path) -> None:
    mapping = job_mapping(4, 8)
    paths = [
        write_job(mapping, tmp_path / "a.json"),
        write_job({**elsewhere(mapping, 4), "job": 9}, tmp_path / "b.json"),
    ]
    with pytest.raises(ConfigError, match=r"b.json: aggregator = '127\.9\.9\.9'"):
        load_jobs(paths)


def test_a_number_is_one_jobs(tmp_path: Path) -> None:
    mapping = job_mapping(4, 8)
    paths = [write_job(mapping, tmp_path / name) for name in ("a.json", "b.json")]
    with pytest.raises(ConfigError, match=r"b.json: job = 7: is the number of the job in .*a.json"):
        load_jobs(paths)


def laned(mapping: dict[str, Any], *lanes: tuple[int, int]) -> dict[str, Any]:
    """The job of so many (number, slots)."""
    return {
        **mapping,
        "format": 3,
        "job": lanes[0][0],
        "slots": lanes[0][1],
        "lanes": [{"job": number, "slots": slots} for number, slots in lanes],
    }


def test_lanes_are_jobs_of_their_own(tmp_path: Path) -> None:
    """Numbers, slots, and the UDP ports that follow the first at every worker."""
    first = laned(job_mapping(2, 8), (5, 8), (9, 4), (3, 2))
    jobs = lanes_of(load_jobs([write_job(first, tmp_path / "a.json")]))
    assert [(part.job.name, part.job.job, part.job.slots) for part in jobs] == [
        ("test/0", 5, 8),
        ("test/1", 9, 4),
        ("test/2", 3, 2),
    ]
    state = State(jobs)
    assert [int(state.job_of[number]) for number in (5, 9, 3, 7)] == [0, 1, 2, -1]
    assert [(int(j["first_slot"]), int(j["slots"])) for j in state.jobs] == [(0, 8), (8, 4), (12, 2)]
    ips = [entry["ip"] for entry in first["addresses"]]
    assert state.places == [(ip, 21335 + lane) for lane in range(3) for ip in ips]


def test_a_lanes_number_is_nobody_elses(tmp_path: Path) -> None:
    mapping = job_mapping(2, 8)
    first = write_job(laned(mapping, (5, 8), (6, 8)), tmp_path / "a.json")
    second = write_job(laned(mapping, (4, 8), (6, 8)), tmp_path / "b.json")
    with pytest.raises(ConfigError, match=r"b.json: job = 6: is the number of the job in .*a.json"):
        load_jobs([first, second])


def test_an_unknown_op_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ops = \['median'\]"):
        load_jobs([write_job({**job_mapping(4, 8), "ops": ["median"]}, tmp_path / "a.json")])


@pytest.mark.parametrize("table", [TABLE, (0, 1), (0, 2, 9, 255), (0, 1, 2, 3, 4, 5, 6, 200)])
def test_coefficients_are_the_table(table: tuple[int, ...]) -> None:
    """Evaluated by hand: a monomial is 1 where the index has all of its bits."""
    planes = coefficients(table)
    for index, value in enumerate(table):
        monomials = [m for m in range(16) if m & index == m]
        got = sum((sum(plane >> m & 1 for m in monomials) & 1) << k for k, plane in enumerate(planes))
        assert got == value


DIGITS = bytes(range(32)).hex()


def keyed(tmp_path: Path, name: str) -> Path:
    return Path(write_job({**job_mapping(2, 8), "format": 3, "key": name}, tmp_path / "keyed.json"))


def test_a_key_in_another_file_than_the_job_names(tmp_path: Path) -> None:
    """A service's user may not open that file, and is handed the key."""
    own = tmp_path / "own.key"
    own.touch(0o600)
    own.write_text(DIGITS)
    path = keyed(tmp_path, "/not/there.key")
    with pytest.raises(ConfigError, match="key file that cannot be read"):
        load_jobs([path])
    [job] = load_jobs([path], key_file=str(own))
    assert job.key == bytes(range(32))
    [job] = load_jobs([write_job(job_mapping(2, 8), tmp_path / "plain.json")], key_file="/not/there.key")
    assert job.key is None


@pytest.mark.parametrize(
    ("mode", "handed", "taken"),
    [(0o440, True, True), (0o440, False, False), (0o444, True, False), (0o400, False, True)],
)
def test_a_credential_of_systemd_may_have_an_access_list(
    mode: int, handed: bool, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mode then shows the list's mask as the group's. The folder is closed to all others."""
    file = tmp_path / "job.key"
    file.write_text(DIGITS)
    file.chmod(mode)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path if handed else tmp_path.parent))
    path = keyed(tmp_path, str(file))
    if taken:
        assert load_jobs([path])[0].key == bytes(range(32))
    else:
        with pytest.raises(ConfigError, match="others than its owner may open"):
            load_jobs([path])


def test_the_parts_of_a_tree() -> None:
    """Two workers at a leaf, one in the middle, one at the root."""
    mapping = tree_mapping((2, 2, 1, 0), (0, 1))
    (job, *_) = configs(mapping)
    middle, leaf = (entry["aggregator"] for entry in mapping["tree"])
    root = mapping["tree"][0]["above"]
    parts = {name: part_of(job, name) for name in (root, middle, leaf)}
    # Those of the root: its worker, and the three below the middle.
    assert {name: [seat.weight for seat in part.seats.values()] for name, part in parts.items()} == {
        root: [1, 3], middle: [1, 2], leaf: [1, 1],
    }  # fmt: skip
    assert [part.quorum for part in parts.values()] == [2, 2, 2]
    assert [part.above for part in parts.values()] == [None, Above(root, 1), Above(middle, 1)]
    assert [part.worker(seat) for part in parts.values() for seat in (0, 1)] == [3, None, 2, None, 0, 1]
    with pytest.raises(ConfigError, match=r"--at = None: must be one of"):
        part_of(job)


def test_leaves_in_short() -> None:
    leaves = {"10.0.1.100": ["10.0.1.1", "10.0.1.100"], "10.0.2.100": ["10.0.2.1"]}
    job = parse_job({"format": 3, "name": "d", "job": 7, "aggregator": "10.0.0.100", "leaves": leaves}, 0)
    assert [(one.ip, one.udp_port, one.aggregator, one.seat) for one in job.addresses] == [
        ("10.0.1.1", 21335, "10.0.1.100", 0), ("10.0.1.100", 21343, "10.0.1.100", 1),
        ("10.0.2.1", 21335, "10.0.2.100", 0),
    ]  # fmt: skip
    assert [(one.aggregator, one.above, one.seat) for one in job.tree] == [
        ("10.0.1.100", "10.0.0.100", 0), ("10.0.2.100", "10.0.0.100", 1),
    ]  # fmt: skip
    assert (job.workers, job.quorum) == (3, 3)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"tree": [{"aggregator": "LEAF", "above": "ROOT", "seat": 32}]},
            r"tree\[0\]: seat = 32: must be an integer in 0\.\.31",
        ),
        ({"tree": [{"aggregator": "LEAF", "above": "LEAF", "seat": 0}]}, "not back to an aggregator on the way"),
        ({"tree": []}, "one and the same root"),
        ({"tree": [{"aggregator": "LEAF", "above": "ROOT", "seat": 0}]}, "a seat of its own"),
        (
            {
                "tree": [
                    {"aggregator": "LEAF", "above": "ROOT", "seat": 1},
                    {"aggregator": "LEAF", "above": "ROOT", "seat": 2},
                ]
            },
            "name each lower aggregator once",
        ),
        (
            {
                "tree": [
                    {"aggregator": "LEAF", "above": "ROOT", "seat": 1},
                    {"aggregator": "10.9.9.9", "above": "ROOT", "seat": 2},
                ]
            },
            "have workers below each",
        ),
        ({"tree": 3}, "must be a list"),
        ({"tree": ["LEAF"]}, "must be an object"),
        ({"quorum": 2}, "must be 3, all workers"),
        ({"workers_min": 2}, "must be 3, all workers"),
    ],
)
def test_a_tree_that_is_none_is_refused(change: dict[str, Any], text: str) -> None:
    """Worker 2 is at the root, the others are at a leaf."""
    mapping = tree_mapping((1, 1, 0), (0,))
    names = {"LEAF": mapping["tree"][0]["aggregator"], "ROOT": mapping["tree"][0]["above"]}
    if isinstance(change.get("tree"), list):
        tree = [
            {key: names.get(value, value) for key, value in entry.items()} if isinstance(entry, dict) else entry
            for entry in change["tree"]
        ]
        change = {**change, "tree": tree}
    with pytest.raises(ConfigError, match=text):
        parse_job({**mapping, **change}, 0)


def test_votes_of_more_than_a_partial_result_holds_are_refused() -> None:
    mapping = {**tree_mapping((1,) * 8 + (0,), (0,)), "thc": {"bits": 4}}
    with pytest.raises(ConfigError, match=r"vote is for at most 7 workers below a lower aggregator, this one has 8"):
        parse_job(mapping, 0)
    assert len(parse_job({**mapping, "ops": ["thc", "max32"]}, 0).tree) == 1


def test_several_aggregators_above_one_are_refused(tmp_path: Path) -> None:
    mapping = {**tree_mapping((1, 1, 2), (0, 0)), "paths": 2}
    with pytest.raises(ConfigError, match=r"a.json: paths = 2: must be 1: .*one above"):
        load_jobs([write_job(mapping, tmp_path / "a.json")], mapping["tree"][0]["above"])
