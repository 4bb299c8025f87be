# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""JSON of strangers: data, or one error with a short text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commonlib.untrusted import UntrustedInputError, bounded_text, escaped, json_of, shown
from hypothesis import given, settings
from hypothesis import strategies as st

SCALARS = st.text() | st.integers() | st.floats() | st.none()
HOSTILE = {
    "deep lists": ("[" * 100_000, "at most 32 levels"),
    "deep objects": ('{"a":' * 100_000, "at most 32 levels"),
    "6000 digits": ("1" * 6000, "at most 40 characters"),
    "digits in a list": (f"[-{'9' * 41}]", "at most 40 characters"),
    "long float": (f"0.{'1' * 6000}", "at most 40 characters"),
    "infinite": ("1e999", "must be finite"),
    "NaN": ("[NaN]", "must be finite"),
    "Infinity": ("-Infinity", "must be finite"),
    "key twice": ('{"a": 1, "b": 2, "a": 3}', "'a' must be there once"),
    "key twice within": ('[{"\\u0000": 1, "\\u0000": 3}]', r"'\\x00' must be there once"),
    "NUL": ('"\0"', "must be JSON"),
    "open strings": ('"' + '\\"' * 100_000, "must be JSON"),
    "nothing": ("", "must be JSON"),
}


@pytest.mark.parametrize(("text", "rule"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_json_is_refused(text: str, rule: str) -> None:
    with pytest.raises(UntrustedInputError, match=rule) as told:
        json_of(text)
    assert len(str(told.value)) < 250
    assert str(told.value).isprintable()


@pytest.mark.parametrize("text", ["[" * 32 + "]" * 32, '"[[[[{{{{\\"[[' + "[" * 100 + '"', "9" * 40, "-1.5e-7", "{}"])
def test_what_is_within_the_bounds_is_read(text: str) -> None:
    assert json_of(text) == json.loads(text)


@settings(max_examples=300)
@given(st.text(st.sampled_from('[]{}",:\\ue01-.N\0\n a'), max_size=60))
def test_only_the_typed_error_comes_out(text: str) -> None:
    try:
        found = json_of(text)
    except UntrustedInputError:
        return
    assert json.loads(text) == found


@settings(max_examples=200)
@given(st.recursive(SCALARS, lambda one: st.lists(one) | st.dictionaries(st.text(), one)))
def test_what_is_shown_is_short_and_printable(value: object) -> None:
    text = shown(value)
    assert text.isprintable()
    assert len(text) < 410
    if isinstance(value, str | int | float) and len(repr(value)) <= 40:
        assert text == repr(value)


def test_what_python_cannot_write_is_shown() -> None:
    assert shown(10**6000) == "<an integer of 19932 bits>"
    assert len(shown("x" * 10**6)) <= 120
    assert len(shown([[["x" * 500] * 500] * 500] * 500)) < 410
    assert escaped("jobs[0].name") == "jobs[0].name"
    assert escaped("a\x1b[2J\u202e\ud800") == r"a\x1b[2J\u202e\ud800"


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xc3\xa4" * 5)
    assert bounded_text(path, 10) == "ä" * 5
    with pytest.raises(UntrustedInputError, match="at most 9 bytes"):
        bounded_text(path, 9)
    path.write_bytes(b"\xff")
    with pytest.raises(UntrustedInputError, match="must be UTF-8"):
        bounded_text(path, 9)
    with pytest.raises(UntrustedInputError, match="at most 1000 bytes"):
        bounded_text(Path("/dev/zero"), 1000)
