# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which compiler is taken, and what is said when none fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from nativelib import NoCompilerError, compiler, find_compiler
from nativelib.compiler import probe_key

Fake = Callable[[str, str], Path]


def test_the_chosen_compiler_is_taken_with_its_options(
    real: str, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = fake("mine", f'echo "$@" >> {tmp_path}/calls\nexec {real} "$@"')
    monkeypatch.setenv("CC", f"{chosen} -DMINE")
    found = find_compiler()
    assert found.command[:2] == (str(chosen), "-DMINE")
    assert "-DMINE" in (tmp_path / "calls").read_text()


def test_a_chosen_compiler_that_fails_is_named_and_no_other_is_taken(
    real: str, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = fake("broken", "echo no licence today >&2; exit 3")
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(NoCompilerError, match=rf"\$CC = {broken}: no licence today"):
        find_compiler(wide_bitint=True)
    with pytest.raises(NoCompilerError, match=r"\$CC"):
        find_compiler()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param("exit 1", "ended with status 1", id="fails in silence"),
        pytest.param("exit 0", "made no library", id="does nothing"),
    ],
)
def test_a_useless_compiler_is_passed_over_and_said_why(
    fake: Fake, script: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake("clang-19", script).parent
    fake("gcc", "exit 7")
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(NoCompilerError) as told:
        find_compiler()
    assert f"clang-19: {reason}" in str(told.value)
    assert "clang-18: not found" in str(told.value)
    assert "gcc: ended with status 7" in str(told.value)


def test_the_next_candidate_is_taken_where_one_is_useless(
    real: str, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake("clang-19", "exit 1").parent
    works = fake("cc", f'PATH=/usr/bin:/bin exec {real} "$@"')
    monkeypatch.setenv("PATH", str(folder))
    assert find_compiler().command[0] == str(works)


def test_wide_integers_take_no_compiler_without_them(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fake("gcc", "exit 0").parent
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(NoCompilerError, match=r"_BitInt\(2048\)") as told:
        find_compiler(wide_bitint=True)
    assert "gcc" not in str(told.value)
    assert "install clang" in str(told.value)


def test_a_compiler_that_does_not_know_the_cpu_does_without(
    real: str, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f'case "$*" in *-march=native*) echo what CPU >&2; exit 1;; esac\nexec {real} "$@"'
    monkeypatch.setenv("CC", str(fake("plain", script)))
    assert "-march=native" not in find_compiler().command


def test_two_compilers_are_told_apart(real: str, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    identities = set()
    for option in ("-DONE", "-DTWO"):
        monkeypatch.setenv("CC", f"{real} {option}")
        identities.add(find_compiler().identity)
    monkeypatch.setenv("CC", str(fake("same", f'exec {real} -DONE "$@"')))
    identities.add(find_compiler().identity)
    assert len(identities) == 2


def test_sums_of_floats_do_not_depend_on_the_machine(real: str) -> None:
    """A fused multiply-add rounds once; -ffp-contract=off is what every kernel counts on."""
    assert "-ffp-contract=off" in find_compiler().command


@pytest.mark.parametrize("text", ["'", '"unfinished'])
def test_a_chosen_compiler_that_cannot_be_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", text)
    with pytest.raises(NoCompilerError, match="quotation"):
        find_compiler()


# ---------------------------------------------------------------- what the next process knows


@pytest.fixture
def next_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, compilers of this process are forgotten, and starting one is an error."""

    def start(*_: object) -> None:
        raise AssertionError("a compiler was started")

    def begin() -> None:
        compiler._examine.cache_clear()
        monkeypatch.setattr(compiler, "run_compiler", start)

    compiler._examine.cache_clear()
    return begin


def test_the_next_process_starts_no_compiler(cache: Path, next_process: Callable[[], None]) -> None:
    before = find_compiler()
    next_process()
    assert find_compiler() == before


def test_a_file_that_cannot_be_read_is_as_good_as_none(cache: Path, next_process: Callable[[], None]) -> None:
    before = find_compiler()
    files = list(cache.glob("compiler-*.json"))
    for text in ("", "[]", '{"command": 5}'):
        for file in files:
            file.write_text(text)
        compiler._examine.cache_clear()
        assert find_compiler() == before
    next_process()
    assert find_compiler() == before


def test_a_remembered_command_is_never_run(cache: Path, next_process: Callable[[], None]) -> None:
    before = find_compiler()
    for file in cache.glob("compiler-*.json"):
        planted = {**json.loads(file.read_text()), "command": ["/bin/false"], "program": "/bin/false"}
        file.write_text(json.dumps(planted))
    next_process()
    assert find_compiler() == before


def test_options_and_environment_are_part_of_what_is_remembered(real: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {probe_key(real, [], []), probe_key(real, ["-DX"], []), probe_key(real, [], ["another test"])}
    monkeypatch.setenv("CPATH", "/usr")
    keys.add(probe_key(real, [], []))
    assert len(keys) == 4
    assert None not in keys


def test_another_file_is_another_compiler(tmp_path: Path) -> None:
    file = tmp_path / "clang-99"
    keys = set()
    for content in (b"\x7fELF", b"\x7fELF, a later version"):
        file.write_bytes(content)
        keys.add(probe_key(str(file), [], []))
    assert len(keys) == 2
    assert None not in keys


@pytest.mark.parametrize(
    ("name", "options", "content"),
    [
        pytest.param("clang", [], b"#!/bin/sh\n", id="a script"),
        pytest.param("ccache", [], b"\x7fELF", id="starts another program"),
        pytest.param("gcc", ["clang"], b"\x7fELF", id="an argument"),
        pytest.param("clang", [], None, id="no file"),
    ],
)
def test_what_may_start_another_compiler_is_not_remembered(
    name: str, options: list[str], content: bytes | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert probe_key(str(tmp_path / name), options, []) is None
