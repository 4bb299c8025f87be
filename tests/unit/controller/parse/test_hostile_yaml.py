# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Configurations of strangers: a configuration, or one ConfigError with a short text, in bounded time and memory."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest
from helpers.paths import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from sumwire_controller.errors import ConfigError
from sumwire_controller.parse.files import load_any, parse_any

EXAMPLES = [path.read_text() for path in sorted((ROOT / "controller" / "examples").glob("*.yaml"))]
BOMB = "a: &a0 [x, x]\n" + "".join(f"b{k}: &a{k + 1} [{', '.join([f'*a{k}'] * 9)}]\n" for k in range(12))

HOSTILE = {
    "aliases": (BOMB, "aliases must not lead to more than"),
    "aliases that are deep": (
        "a: &a0 [x]\n" + "".join(f"b{k}: &a{k + 1} [*a{k}]\n" for k in range(100)), "or 32 levels"
    ),
    "deep lists": ("[" * 100_000, "at most 32 levels"),
    "deep mappings": ("{a: " * 60_000, "at most 32 levels"),
    "deep blocks": ("- " * 100_000, "at most 32 levels"),
    "deep keys": ("? " * 100_000, "at most 32 levels"),
    "many values": (f"[{'a,' * 100_000}]", "at most 20000 keys and values"),
    "too long": ("#" * 300_000, "at most 262144 characters"),
    "6000 digits": (f"switch: {'1' * 6000}", "at most 40 characters"),
    "6000 hexadecimal digits": (f"switch: 0x{'f' * 6000}", "at most 40 characters"),
    "6000 sixtieths": (f"switch: 1{':59' * 6000}", "at most 40 characters"),
    "long float": (f"switch: 1.{'1' * 6000}", "at most 40 characters"),
    "sixtieths": ("jobs: [{slots: {base: 0,\n count: 4:16}}]", "line 2: .*: the number 4:16 must be decimal"),
    "sixtieths of a float": ("switch: 4:16.5", "the number 4:16.5 must be decimal"),
    "underlines": ("switch: 2_56", "the number 2_56 must be decimal"),
    "octal": ("switch: 010", "the number 010 must be decimal"),
    "hexadecimal": ("switch: 0x10", "the number 0x10 must be decimal"),
    "binary": ("switch: 0b1", "the number 0b1 must be decimal"),
    "no digits": ("switch: 0x_", "must be decimal"),
    "tag of Python": ("switch: !!python/object/apply:os.system [id]", "the tag .* is not taken"),
    "tag of a mapping": ("!!python/object:x.y {switch: 1}", "the tag .* is not taken"),
    "tag of a number": ("switch: !!int ''", "the tag .* is not taken"),
    "tag of a date": ("switch: !!timestamp x", "the tag .* is not taken"),
    "tag of a truth": ("switch: !!bool x", "the tag .* is not taken"),
    "long tag": (f"switch: !{'x' * 100_000} 1", "the tag .* is not taken"),
    "wrong date": ("switch: 2026-99-99", "not YAML"),
    "NUL": ("switch: \0", "not YAML"),
    "escape character": ("switch: \x1b[2J", "not YAML"),
    "escaped NUL": ('jobs: [{name: "a\\0b"}]', "without control characters"),
    "escaped escape character": ('switch: {name: "\\e[2J"}', "without control characters"),
    "escaped surrogate": ('switch: {name: "\\ud800"}', "without control characters"),
    "escape of no character": ('switch: "\\UFFFFFFFF"', "not YAML"),
    "version": (f"%YAML {'1' * 6000}.1\n--- a", "not YAML"),
    "key twice": ("switch: 1\nswitch: 2", "key occurs twice, first in line 1"),
    "long list twice": (f"switch: 1\nswitch: [{'a,' * 10_000}]", "key occurs twice"),
    "number as key": ("1: 2", "a key must be a text"),
    "list as key": ("? [a, b]\n: 2", "a key must be a text"),
    "nothing as key": ("? \n: 2", "a key must be a text"),
    "control characters in a key": ('"a\\eb": 2', "a key must be a text"),
    "long key": (f"{'k' * 1000}: 2", "unknown key"),
    "many keys": ("\n".join(f"k{k}: 1" for k in range(9000)), "more problems"),
}  # fmt: skip


def seconds_of(text: str) -> float:
    """Of the processor."""
    began = time.process_time()
    with pytest.raises(ConfigError):
        parse_any(text, "x.yaml")
    return time.process_time() - began


def memory_of(text: str) -> int:
    """Bytes at most."""
    tracemalloc.start()
    with pytest.raises(ConfigError):
        parse_any(text, "x.yaml")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.mark.parametrize(("text", "rule"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_yaml_is_refused(text: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule) as told:
        parse_any(text, "x.yaml")
    lines = str(told.value).splitlines()
    assert len(lines) <= 51
    for line in lines:
        assert line.isprintable()
        assert line.startswith("x.yaml: ")
        assert len(line) < 600


@pytest.mark.parametrize("name", ["aliases", "deep lists", "many values", "6000 sixtieths", "many keys"])
def test_it_takes_little_time(name: str) -> None:
    assert seconds_of(HOSTILE[name][0]) < 5


@pytest.mark.parametrize("name", ["aliases", "deep lists", "many values"])
def test_it_takes_little_memory(name: str) -> None:
    assert memory_of(HOSTILE[name][0]) < 64 << 20


def test_an_alias_is_a_copy() -> None:
    text = EXAMPLES[0]
    assert parse_any(text.replace("jobs:", "jobs: &jobs", 1)) == parse_any(text)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a: \x00", b"#" * 300_000])
def test_hostile_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as told:
        load_any(path)
    assert str(told.value).isprintable()


PIECES = st.sampled_from([
    "", "\0", "\x1b", "&a ", "*a", "<<: *a", "!!python/name:os.system ", "!!int ", "!!set ", "? ", ": ", "- ", "[", "]",
    "{", "}", "|", ">", "'", '"', '"\\UFFFFFFFF"', "#", "---\n", "...\n", "%YAML 1.1\n", "\t", "\n", "0x_", "1e400",
    "1.0e+999", ".nan", "-.inf", "9" * 5000, "0b" + "1" * 5000, "1" + ":59" * 3000, "2026-13-01",
    "2026-01-01 00:00:00 +99:99", "~", "=", "null", "true", "\ufeff", "\u2028", "\ud800", "é",
])  # fmt: skip


@settings(max_examples=100)
@given(st.data())
def test_only_the_typed_error_comes_out(data: st.DataObject) -> None:
    """Examples with pieces put in and cut out."""
    text = data.draw(st.sampled_from(EXAMPLES))
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(text)))
        text = text[:begin] + data.draw(PIECES) + text[begin + data.draw(st.integers(0, 12)) :]
    try:
        parse_any(text, "x.yaml")
    except ConfigError as error:
        assert all(line.isprintable() for line in str(error).split("\n"))


@settings(max_examples=300)
@given(st.lists(PIECES | st.sampled_from(["switch", "jobs", "workers", " ", "a", "1"]), max_size=30))
def test_only_the_typed_error_comes_out_of_pieces(pieces: list[str]) -> None:
    with pytest.raises(ConfigError):
        parse_any("".join(pieces), "x.yaml")
