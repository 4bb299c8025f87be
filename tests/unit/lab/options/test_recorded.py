# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of a run as a file, and the options that come of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.errors import OptionError
from sumwire_lab.options import arguments, recorded, run_options
from sumwire_lab.options.run_options import RunOptions

LINKS = ["--workers", "3", "--bw", "20", "--queue", "64", "--loss", "0.01", "--gray", "h2:0.02", "--engine", "python"]
WORK = ["--task", "text", "--steps", "7", "--seed", "9", "--systems", "gloo,dlcp", "--no-queues", "--quorum", "2"]
WORDS = ["run", *LINKS, *WORK, "--no-feedback", "--results", "elsewhere"]


def options_of(words: list[str]) -> RunOptions:
    return run_options.run_options(arguments.parser().parse_args(words))


def saved(folder: Path, words: list[str]) -> dict[str, Any]:
    given = arguments.parser().parse_args(words)
    options = run_options.run_options(given)
    recorded.save(folder, recorded.recorded(given, options), options.layout)
    return recorded.settings_in(folder)


@pytest.mark.parametrize("words", [["run"], WORDS, ["run", "--impair", "drop=0.01,seed=7", "--trunk-bw", "5"]])
def test_a_recorded_run_has_the_same_options_again(tmp_path: Path, words: list[str]) -> None:
    again = recorded.words_of(saved(tmp_path, words), tmp_path)
    assert options_of(["run", *again]) == options_of(words)
    assert not any("results" in word for word in again)


def test_the_seed_and_every_default_are_in_the_file(tmp_path: Path) -> None:
    settings = saved(tmp_path, ["run"])
    assert (settings["seed"], settings["bw"], settings["systems"]) == (1, 100.0, "gloo,thc")


def test_a_topology_from_a_file_goes_into_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("switches: [{name: a}]\nhosts: [{switch: a, count: 2, mbit: 5}, {switch: a}]\n")
    words = ["run", "--topology", str(path)]
    before = options_of(words)
    settings = saved(tmp_path, words)
    path.unlink()
    after = options_of(["run", *recorded.words_of(settings, tmp_path)])
    assert before.layout is not None
    assert after.layout is not None
    assert (after.layout.switches, after.layout.hosts) == (before.layout.switches, before.layout.hosts)
    assert (settings["workers"], after.workers) == (3, 3)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ([], "format 1"),
        ({"format": 2, "settings": {}}, "format 1"),
        ({"format": 1, "settings": []}, "format 1"),
        ({"format": 1, "settings": {"script": "/bin/evil"}}, "'script'='/bin/evil'"),
        ({"format": 1, "settings": {"--results": "x"}}, "must be one that"),
        ({"format": 1, "settings": {"workers": [4]}}, "'workers'=\\[4\\]"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, record: object, words: str) -> None:
    (tmp_path / recorded.SETTINGS).write_text(json.dumps(record))
    with pytest.raises(OptionError, match=words):
        recorded.settings_in(tmp_path)


def test_a_folder_without_or_with_too_long_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="name the folder of a run"):
        recorded.settings_in(tmp_path)
    (tmp_path / recorded.SETTINGS).write_text(" " * 70_000)
    with pytest.raises(OptionError, match="65536 bytes"):
        recorded.settings_in(tmp_path)


def test_no_value_becomes_an_option() -> None:
    assert recorded.words_of({"impair": "--keep", "blind": True, "server": False, "steps": None}, Path()) == [
        "--impair=--keep",
        "--blind",
    ]
