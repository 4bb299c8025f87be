# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The job file, and the commands that need no network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.controller.config_texts import PUBLISHED_TABLE, job, star, text
from helpers.controller.topology_texts import leaf_spine, tree_job
from sumwire.config.jobfile import parse_job
from sumwire.errors import ConfigError as HostConfigError
from sumwire_controller.cli import main
from sumwire_controller.derive.desired import desired_entries
from sumwire_controller.derive.entries import TableEntry
from sumwire_controller.derive.jobs import job_description, job_json
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.errors import ConfigError, PartOfTreeError, UnknownJobError
from sumwire_controller.parse.files import parse_any, parse_config, parse_topology
from sumwire_protocol.authentication import tag_keys

CONFIG = star(3, jobs=[job("digits", 7, 3, 64, 32, "thc max32"), job("m", 2, 1, 0, 8)])
CONFIG["jobs"][0].update(workers=["h3", "h1"], quorum=1)
CONFIG["workers"][0]["udp_port"] = 4000


def test_job_file_to_the_letter() -> None:
    assert job_description(parse_config(text(CONFIG)), "digits") == {
        "format": 3,
        "name": "digits",
        "job": 7,
        "ops": ["thc", "max32"],
        "workers": 2,
        "quorum": 1,
        "slots": 32,
        "lanes": [{"job": 7, "slots": 32}],
        "paths": 1,
        "addresses": [
            {"worker": 0, "ip": "10.0.0.3", "udp_port": 21335, "aggregator": "10.0.0.100", "seat": 0},
            {"worker": 1, "ip": "10.0.0.1", "udp_port": 4000, "aggregator": "10.0.0.100", "seat": 1},
        ],
        "thc": {"bits": 4, "p": 0.03125, "table": PUBLISHED_TABLE},
    }


def test_job_without_thc_has_no_table() -> None:
    description = job_description(parse_config(text(CONFIG)), "m")
    assert "thc" not in description
    assert json.loads(job_json(parse_config(text(CONFIG)), "m")) == description


def test_job_file_says_how_few_workers_a_run_may_have() -> None:
    data = star(3, jobs=[{**job("m", 2, 3, 0, 8), "workers_min": 2}, {**job("n", 3, 3, 8, 8), "workers_min": 3}])
    config = parse_config(text(data))
    described = job_description(config, "m")
    assert described["workers_min"] == 2
    assert parse_job(described, 1).workers_min == 2
    assert "workers_min" not in job_description(config, "n")


def test_job_file_of_a_tree_to_the_letter() -> None:
    data = leaf_spine(2, 2, 2)
    data["jobs"] = [tree_job("digits", 7, [3, 1, 4], 64, 32, "sign vote"), tree_job("m", 2, [2], 0, 8)]
    data["hosts"][0]["udp_port"] = 4000
    assert job_description(parse_any(text(data)), "digits") == {
        "format": 3,
        "name": "digits",
        "job": 7,
        "ops": ["sign", "vote"],
        "workers": 3,
        "quorum": 3,
        "slots": 32,
        "lanes": [{"job": 7, "slots": 32}],
        "paths": 2,
        "addresses": [
            {"worker": 0, "ip": "10.0.0.3", "udp_port": 21335, "aggregator": "10.0.1.4", "seat": 0},
            {"worker": 1, "ip": "10.0.0.1", "udp_port": 4000, "aggregator": "10.0.1.3", "seat": 0},
            {"worker": 2, "ip": "10.0.0.4", "udp_port": 21335, "aggregator": "10.0.1.4", "seat": 1},
        ],
    }
    with pytest.raises(UnknownJobError, match="'x': not in the configuration, which has digits, m"):
        job_description(parse_any(text(data)), "x")


def test_one_switch_says_the_same_in_either_kind_of_file() -> None:
    data = leaf_spine(1, 3, 0)
    data["jobs"] = [tree_job("digits", 7, [3, 1], 64, 32, "thc")]
    alone = star(3, jobs=[{**job("digits", 7, 2, 64, 32, "thc"), "workers": ["h3", "h1"]}])
    alone["aggregator"] = data["switches"][0]["aggregator"]
    assert job_description(parse_any(text(data)), "digits") == job_description(parse_any(text(alone)), "digits")


def test_one_switch_of_several_does_not_know_all_hosts() -> None:
    spine, leaf = configs_of(parse_topology(text(leaf_spine(2, 1, 1))))[:2]
    with pytest.raises(PartOfTreeError, match="'digits': has a part at leaf1 too; make its job file from the top"):
        job_description(spine, "digits")
    with pytest.raises(PartOfTreeError, match="'digits': has a part at a switch above too"):
        job_description(leaf, "digits")


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "s1.yaml"
    file.write_text(text(CONFIG))
    return str(file)


def test_job_file_command(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job-file", path, "--job", "digits"]) == 0
    printed = capsys.readouterr().out
    assert main(["job-file", path, "--job", "digits", "-o", str(tmp_path / "job.json")]) == 0
    assert (tmp_path / "job.json").read_text() == printed == job_json(parse_config(text(CONFIG)), "digits")
    assert main(["job-file", path, "--job", "x"]) == 1
    assert main(["job-file", path, "--job", "m", "-o", str(tmp_path / "no" / "job.json")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert [("'x'" in errors[0]), ("No such file" in errors[1]), len(errors)] == [True, True, 2]


def test_commands_take_a_topology(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(text(leaf_spine()))
    assert main(["check-config", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: 3 switches, 4 hosts, 1 jobs: good\n"
    assert main(["job-file", str(path), "--job", "digits"]) == 0
    assert json.loads(capsys.readouterr().out)["addresses"][2]["aggregator"] == "10.0.1.3"
    path.write_text(text(leaf_spine()).replace("leaf2", "leaf9", 1))
    assert main(["check-config", str(path)]) == 1
    assert "links[1].from = 'leaf2': no switch of that name" in capsys.readouterr().err


def test_check_config_command(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config", path]) == 0
    assert "3 workers, 2 jobs" in capsys.readouterr().out
    Path(path).write_text(text(CONFIG).replace("quorum: 1", "quorum: 9").replace("10.0.0.100", "10.0.0.3"))
    assert main(["check-config", path]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert [line.split(": ")[2].split(" = ")[0] for line in lines] == ["workers[2].ip", "jobs[0].quorum"]
    assert all(line.startswith(f"{path}: line ") for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [[], ["apply"], ["fly", "c.yaml"], ["job-file", "c.yaml"], ["apply", "c.yaml", "--timeout", "0"],
     ["status", "c.yaml", "--timeout", "soon"], ["check-config", "c.yaml", "--timeout", "1"]],
)  # fmt: skip
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: sumwire-controller" in capsys.readouterr().err


def test_package_exports() -> None:
    import sumwire_controller

    for name in dir(sumwire_controller):
        assert getattr(sumwire_controller, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        _ = getattr(sumwire_controller, "fly")  # noqa: B009  # the type checker knows that it is not there


def test_job_file_of_a_blind_job() -> None:
    blind = {**job("m", 2, 3, 0, 8, "max32 sum32"), "blind": True}
    config = parse_config(text(star(3, jobs=[blind, {**job("n", 3, 3, 8, 8), "blind": False}])))
    assert job_description(config, "m")["blind"] is True
    assert parse_job(job_description(config, "m"), 1).blind
    assert "blind" not in job_description(config, "n")


KEY = bytes(range(32))


def key_file(tmp_path: Path, content: str = KEY.hex() + "\n", mode: int = 0o600) -> str:
    path = tmp_path / "job.key"
    path.write_text(content)
    path.chmod(mode)
    return str(path)


def test_a_job_file_names_the_key_file_and_has_no_key(tmp_path: Path) -> None:
    keyed = {**job("m", 2, 3, 0, 8, "max32"), "key": key_file(tmp_path)}
    config = parse_config(text(star(3, jobs=[keyed, job("n", 3, 3, 8, 8)])))
    description = job_description(config, "m")
    assert description["key"] == keyed["key"]
    assert parse_job(description, 1).key == KEY
    assert "key" not in job_description(config, "n")
    entries = desired_entries(config, {2: 5, 3: 6}, 6)
    shown = [job_json(config, "m"), repr(config), repr(parse_job(description, 1)), repr(entries), *map(str, entries)]
    derived = tag_keys(KEY, 2)
    secrets = [KEY.hex(), repr(KEY)[2:-1], *map(str, (*derived.words, *derived.sip)), f"{derived.sip[0]:x}"]
    assert not [secret for secret in secrets for one in shown if secret in one]
    (row,) = (entry for entry in entries if isinstance(entry, TableEntry) and (entry.table, entry.key) == ("job", (2,)))
    assert row.args[-10:] == (*derived.words, *derived.sip)


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (KEY.hex(), 0o640, "others than its owner may open; chmod 600 FILE"),
        (KEY.hex(), 0o604, "others than its owner may open"),
        (KEY.hex()[:-1], 0o600, "must hold 64 hexadecimal digits; .*openssl rand -hex 32"),
        (KEY.hex() + "0", 0o600, "must hold 64 hexadecimal digits"),
        ("x" * 64, 0o600, "must hold 64 hexadecimal digits"),
        ("", 0o600, "must hold 64 hexadecimal digits"),
    ],
)
def test_a_key_file_that_is_refused(tmp_path: Path, content: str, mode: int, words: str) -> None:
    keyed = {**job("m", 2, 3, 0, 8, "max32"), "key": key_file(tmp_path, content, mode)}
    with pytest.raises(ConfigError, match=words) as caught:
        parse_config(text(star(3, jobs=[keyed])))
    assert not content or content not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (KEY.hex(), "must be the absolute name of a file"),
        ("job.key", "must be the absolute name of a file"),
        ("/nowhere/job.key", "cannot be read .No such file or directory"),
        ("/dev/zero", "must name a regular file"),
        ("/tmp", "must name a regular file"),
        ("/a\ufffdb", "cannot be read"),
    ],
)
def test_a_key_that_is_no_file(name: str, words: str) -> None:
    keyed = {**job("m", 2, 3, 0, 8, "max32"), "key": name}
    with pytest.raises(ConfigError, match=words) as caught:
        parse_config(text(star(3, jobs=[keyed])))
    assert KEY.hex() not in str(caught.value)


def test_a_job_file_whose_key_cannot_be_read_says_so(tmp_path: Path) -> None:
    config = parse_config(text(star(3, jobs=[{**job("m", 2, 3, 0, 8, "max32"), "key": key_file(tmp_path)}])))
    description = job_description(config, "m") | {"key": str(tmp_path / "other.key")}
    with pytest.raises(HostConfigError, match=r"other\.key.*cannot be read"):
        parse_job(description, 0)
