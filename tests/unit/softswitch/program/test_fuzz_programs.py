# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A short form of `make fuzz-programs`, and that its checks find what they are for."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from fuzz import programs
from fuzz.mutations import mutated
from fuzz.programs import FindingError, ProgramFuzzer
from softswitch.errors import UnsupportedProgramError

MUTATIONS = 200
NAMES = ("checksum", "corner", "cpu", "multicast", "parse", "tables", "wide")


@pytest.fixture
def fuzzer(program_text: Callable[[str], str]) -> ProgramFuzzer:
    return ProgramFuzzer({name: program_text(name) for name in NAMES}, seed=5, compile_every=0)


def test_hostile_programs_load_or_are_refused(fuzzer: ProgramFuzzer) -> None:
    for number in range(MUTATIONS):
        fuzzer.run(number)
    counts = fuzzer.outcomes.counts
    assert sum(counts.values()) == MUTATIONS
    assert counts["refused"] > MUTATIONS // 3
    assert counts["loaded"] > MUTATIONS // 20


def test_a_number_repeats_a_mutation(program_text: Callable[[str], str]) -> None:
    root = json.loads(program_text("tables"))
    first, second = (mutated(root, random.Random("5:7")) for _ in range(2))
    assert json.dumps(first[0]) == json.dumps(second[0])
    assert first[1] == second[1]
    assert json.dumps(first[0]) != json.dumps(root)
    assert root == json.loads(program_text("tables"))


def until_found(fuzzer: ProgramFuzzer) -> str:
    with pytest.raises(FindingError) as caught:
        for number in range(20 * MUTATIONS):
            fuzzer.run(number)
    return str(caught.value)


def test_it_finds_an_exception(fuzzer: ProgramFuzzer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_text: str) -> Any:
        raise KeyError("x")

    monkeypatch.setattr(programs, "load_program", broken)
    assert "KeyError" in until_found(fuzzer)


def test_it_finds_a_refusal_without_a_place(fuzzer: ProgramFuzzer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_text: str) -> Any:
        raise UnsupportedProgramError("no place")

    monkeypatch.setattr(programs, "load_program", broken)
    assert "a refusal without its place" in until_found(fuzzer)


@pytest.mark.parametrize(
    ("module", "language", "changed"),
    [("softswitch.native.emit_code", "C", "\\"), ("softswitch.python.emit_code", "Python", "\n")],
)
def test_it_finds_an_escape(
    program_text: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, module: str, language: str, changed: str
) -> None:
    """Comments as they were, with one character replaced. Hostile names are given past the loader's whitelist."""
    monkeypatch.setattr(f"{module}.comment_text", lambda text: text.replace(changed, " "))
    fuzzer = ProgramFuzzer({"tables": program_text("tables")}, seed=5, compile_every=0, renamed_part=1.0)
    assert f"text escaped in {language}" in until_found(fuzzer)
