# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What is built, what is kept, and what is built again."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from nativelib import CompileError, LoadError, build, load

Fake = Callable[[str, str], Path]


def source(folder: Path, answer: str = "ANSWER") -> Path:
    path = folder / "answer.c"
    path.write_text(f'#include "answer.h"\nint answer(void) {{ return {answer}; }}\n')
    (folder / "answer.h").write_text("#define ANSWER 41\n")
    return path


@pytest.fixture
def calls(real: str, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often anything was compiled for a build."""
    log = tmp_path / "calls"
    log.touch()
    script = f'case "$*" in *probe.c*|*-E*) ;; *) echo . >> {log};; esac\nexec {real} "$@"'
    monkeypatch.setenv("CC", str(fake("counting", script)))
    return lambda: log.read_text().count(".")


def answer_of(library: Path, folder: Path) -> int:
    """In a process of its own: this one would not load the same path twice."""
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).answer())"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def test_a_library_is_built_once_and_runs(cache: Path, tmp_path: Path, calls: Callable[[], int]) -> None:
    path = build("demo", [source(tmp_path)])
    assert path.parent == cache
    assert load(path).answer() == 41
    assert build("demo", [source(tmp_path)]) == path
    assert calls() == 1


def test_generated_text_and_an_executable(cache: Path, real: str) -> None:
    generated = {"main.c": '#include "n.h"\nint main(void) { return N; }\n', "n.h": "#define N 5\n"}
    path = build("program", [], generated=generated, shared=False)
    assert subprocess.run([path], check=False).returncode == 5


def test_libraries_can_be_among_the_flags(cache: Path, real: str) -> None:
    text = "#include <math.h>\ndouble root(double x) { return cbrt(x); }\n"
    load(build("maths", [], generated={"root.c": text}, flags=["-lm", "-Wl,--no-undefined"]))


@pytest.mark.parametrize("change", ["source", "own header", "included header", "generated", "flags", "link"])
@pytest.mark.few(3)
def test_whatever_goes_in_changes_the_result(cache: Path, tmp_path: Path, real: str, change: str) -> None:
    main, headers = source(tmp_path), tmp_path / "include"
    headers.mkdir()
    (headers / "far.h").write_text("#define FAR 1\n")

    def made(flags: tuple[str, ...] = (), extra: str = "int main(void) { return 0; }\n", shared: bool = True) -> Path:
        return build("demo", [main], generated={"extra.c": extra}, includes=[headers], flags=flags, shared=shared)

    before = made()
    match change:
        case "source":
            source(tmp_path, "ANSWER + 1")
            after = made()
        case "own header":
            (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
            after = made()
        case "included header":
            (headers / "far.h").write_text("#define FAR 2\n")
            after = made()
        case "generated":
            after = made(extra="int main(void) { return 1; }\n")
        case "flags":
            after = made(flags=("-DX",))
        case _:
            after = made(shared=False)
    assert after != before
    assert made() == before if change in ("generated", "flags", "link") else made() == after


def test_a_changed_header_changes_what_runs(cache: Path, tmp_path: Path, real: str) -> None:
    main = source(tmp_path)
    before = build("demo", [main])
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    assert (answer_of(before, tmp_path), answer_of(build("demo", [main]), tmp_path)) == (41, 42)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def spoil_checksum(path: Path) -> None:
    (path.parent / f"{path.name}.sha256").write_bytes(b"\xff\xfe")


@pytest.mark.parametrize(
    "spoil",
    [truncate, flip, spoil_checksum, Path.unlink, lambda path: path.write_text("foreign")],
    ids=["truncated", "one bit", "checksum", "gone", "foreign"],
)
def test_a_spoilt_file_is_built_again(
    cache: Path, tmp_path: Path, calls: Callable[[], int], spoil: Callable[[Path], object]
) -> None:
    path = build("demo", [source(tmp_path)])
    whole = path.read_bytes()
    spoil(path)
    assert build("demo", [source(tmp_path)]) == path
    assert path.read_bytes() == whole
    assert calls() == 2


def test_a_cache_that_cannot_be_written(
    tmp_path: Path, real: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NATIVELIB_CACHE", str(tmp_path / "file" / "cache"))
    with caplog.at_level(logging.INFO, "nativelib"):
        path = build("demo", [source(tmp_path)])
    assert answer_of(path, tmp_path) == 41
    assert "compiled code is not kept" in caplog.text
    assert build("demo", [source(tmp_path)]) == path


def test_the_folder_that_stands_in_ends_with_the_process(tmp_path: Path, real: str) -> None:
    code = "from nativelib import build; print(build('demo', [], generated={'a.c': 'int a;'}))"
    environment = {**os.environ, "NATIVELIB_CACHE": "/dev/null/nowhere"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert not Path(done.stdout.strip()).parent.exists()


@pytest.mark.parametrize(
    ("variables", "where"),
    [({"XDG_CACHE_HOME": "x"}, "x/nativelib"), ({"HOME": "h"}, "h/.cache/nativelib")],
)
def test_where_it_is_kept(
    tmp_path: Path, real: str, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], where: str
) -> None:
    for name in ("NATIVELIB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    assert build("demo", [source(tmp_path)]).parent == tmp_path / where


def test_two_processes_build_once(cache: Path, tmp_path: Path, calls: Callable[[], int]) -> None:
    """Both start while a third, the test, holds the lock."""
    path = build("demo", [source(tmp_path)])
    path.unlink()
    before = calls()
    code = f"from pathlib import Path; from nativelib import build; build('demo', [Path({str(source(tmp_path))!r})])"
    with (cache / f"{path.name}.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    assert [process.wait(30) for process in started] == [0, 0]
    for process in started:
        assert process.stdout is not None
        process.stdout.close()
    assert path.exists()
    assert calls() == before + 1


def test_wrong_code_is_refused_with_the_command_and_the_reason(cache: Path, real: str) -> None:
    with pytest.raises(CompileError) as told:
        build("demo", [], generated={"bad.c": "int f(void) { return nothing; }\n" + "int x = y;\n" * 100})
    lines = str(told.value).splitlines()
    assert real in lines[0]
    assert any("nothing" in line for line in lines[1:])
    assert len(lines) <= 21
    assert [path for path in cache.iterdir() if path.suffix != ".lock"] == []


def test_the_reason_comes_before_what_a_compiler_only_warns_of(
    cache: Path, real: str, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clang without AVX-512 warns of every wide vector that a function returns, and gives the error last."""
    warned_of = "a.c:1:1: warning: returning a vector changes the ABI\n" * 60
    script = f"""case "$*" in *probe.c*|*-E*) exec {real} "$@";; esac
printf %s '{warned_of}a.c:2:1: error: nothing is undeclared' >&2; exit 1"""
    monkeypatch.setenv("CC", str(fake("talkative", script)))
    with pytest.raises(CompileError) as told:
        build("demo", [], generated={"a.c": "int a;\n"})
    assert str(told.value).splitlines()[1:] == ["a.c:2:1: error: nothing is undeclared"]


def test_a_compiler_that_dies_in_silence(cache: Path, real: str, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f'case "$*" in *probe.c*|*-E*) exec {real} "$@";; esac; exit 4'
    monkeypatch.setenv("CC", str(fake("dying", script)))
    with pytest.raises(CompileError, match="status 4"):
        build("demo", [], generated={"a.c": "int a;\n"})


def test_warnings_are_for_those_who_look(cache: Path, real: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "nativelib")
    build("demo", [], generated={"a.c": "static int unused;\n"})
    assert [record.levelname for record in caplog.records if "unused" in record.getMessage()] == ["DEBUG"]


def test_what_is_no_library_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("text")
    with pytest.raises(LoadError, match=r"text\.so"):
        load(path)
