# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Job files of strangers: a job, or one ConfigError with a short text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commonlib.untrusted import json_of
from helpers.transport.udp_bridge import job_mapping
from hypothesis import given, settings
from hypothesis import strategies as st
from sumwire.config import JobConfig, load_job, parse_job
from sumwire.errors import ConfigError
from sumwire.job.tuning import BrokenTableError, TuningTable

GOOD = json.dumps({**job_mapping(3, 64), "lanes": [{"job": 7, "slots": 64}], "paths": 1, "workers_min": 3})
SHORT = {"format": 3, "name": "a", "job": 7, "aggregator": "10.0.0.9", "hosts": ["10.0.0.1", "10.0.0.2"]}
TREE = {**SHORT, "leaves": {"10.0.1.9": ["10.0.1.1"], "10.0.2.9": ["10.0.2.1"]}}
del TREE["hosts"]

HOSTILE = {
    "deep": ("[" * 60_000, "at most 32 levels"),
    "long": (" " * 70_000, "at most 65536 bytes"),
    "6000 digits": (GOOD.replace('"slots": 64', f'"slots": {"6" * 6000}', 1), "at most 40 characters"),
    "40 digits": (GOOD.replace('"slots": 64', f'"slots": {"6" * 40}', 1), "slots = 666"),
    "infinite": (GOOD.replace("0.03125", "1e999"), "must be finite"),
    "key twice": (GOOD.replace("{", '{"job": 7, ', 1), "'job' must be there once"),
    "NUL in a name": (GOOD.replace('"test"', '"a\\u0000b"'), "without control characters"),
    "escape in a name": (GOOD.replace('"test"', '"a\\u001b[2Jb"'), "without control characters"),
    "surrogate in a name": (GOOD.replace('"test"', '"\\ud800"'), "without control characters"),
    "long name": (GOOD.replace('"test"', f'"{"a" * 5000}"'), "name.*at most 128 characters"),
    "unknown key": (GOOD.replace('"name"', f'"a\\u001b{"b" * 9000}": 1, "name"'), "unknown field"),
    "long address": (GOOD.replace('"ip": "', f'"ip": "{"1" * 9000}', 1), "must be an IPv4 address"),
    "everybody's address": (json.dumps({**SHORT, "aggregator": "255.255.255.255"}), "address of one machine"),
    "a group's address": (json.dumps({**SHORT, "hosts": ["10.0.0.1", "224.0.0.1"]}), "address of one machine"),
    "no address": (json.dumps({**SHORT, "aggregator": "0.0.0.0"}), "address of one machine"),
    "no threshold": (GOOD.replace("0.03125", "5e-324"), "thc.*no less than 1e-300"),
    "long list": (GOOD.replace('"ops": [', f'"ops": [{"1, " * 9000}'), "ops"),
}


@pytest.mark.parametrize(("text", "rule"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused(text: str, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rule) as told:
        load_job(path, worker=0)
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 1200
    assert str(told.value).endswith("-o FILE")


def test_the_good_file_is_good() -> None:
    for text in (GOOD, json.dumps(SHORT), json.dumps(TREE)):
        assert isinstance(parse_job(json_of(text), 0), JobConfig)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every field and element."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from([10**600, -(10**600), 2**64, "\0", "\x1b", "9" * 5000, 5e-324, float("nan"), float("inf")])
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(max_size=9), one, max_size=4)
)


@settings(max_examples=400)
@given(st.data())
def test_only_the_typed_error_comes_out(data: st.DataObject) -> None:
    """A good file with other values in some places, also such as no JSON can have."""
    mapping = json.loads(data.draw(st.sampled_from([GOOD, json.dumps(SHORT), json.dumps(TREE)])))
    for place in data.draw(st.lists(st.sampled_from(places(mapping)[1:]), min_size=1, max_size=3)):
        target = mapping
        try:
            for key in place[:-1]:
                target = target[key]
            target[place[-1]] = data.draw(VALUES)
        except (TypeError, KeyError, IndexError):  # one above it has been replaced
            continue
    try:
        parse_job(mapping, 0)
    except ConfigError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 1200


@settings(max_examples=300)
@given(VALUES | st.dictionaries(st.text(max_size=5), st.lists(st.lists(SCALARS, max_size=4), max_size=3)))
def test_tuning_tables_too(content: Any) -> None:
    try:
        TuningTable.of(content)
    except BrokenTableError as error:
        assert str(error).isprintable()
