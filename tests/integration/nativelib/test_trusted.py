# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Compiled code that another user could have written is not loaded: it is compiled again, elsewhere if need be."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.paths import ROOT
from nativelib import NativeError, UntrustedError, build, load, open_file
from nativelib.cache import _private_folder, _usable
from nativelib.trusted import open_folder

STRANGER = 4321
OWN, PLANTED = 41, 666
Crime = Callable[[Path], None]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Which folder can be used is found out again in every test."""
    _usable.cache_clear()
    yield
    _usable.cache_clear()


def text(answer: int) -> dict[str, str]:
    return {"answer.c": f"int answer(void) {{ return {answer}; }}\n"}


def made() -> Path:
    return build("demo", [], generated=text(OWN))


def answer(path: Path) -> int:
    return int(load(path).answer())


def plant(path: Path) -> None:
    """Another library in the place of this one, with the right checksum, as anybody can write it."""
    planted = build("planted", [], generated=text(PLANTED))
    for end in ("", ".sha256"):
        content = Path(f"{planted}{end}").read_bytes()
        path.with_name(path.name + end).unlink()
        path.with_name(path.name + end).write_bytes(content)
    assert Path(f"{path}.sha256").read_text() == hashlib.sha256(path.read_bytes()).hexdigest()


def given_away(path: Path) -> None:
    os.chown(path, STRANGER, -1)


def replaced_by_link(folder: Path, owner: int) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))
    os.lchown(folder, owner, -1)


ANYBODY = [
    pytest.param(lambda path: path.parent.chmod(0o777), id="folder of all"),
    pytest.param(lambda path: path.parent.chmod(0o1777), id="sticky folder of all"),
    pytest.param(lambda path: path.parent.chmod(0o770), id="folder of a group"),
    pytest.param(lambda path: path.parent.parent.chmod(0o777), id="folder above"),
    pytest.param(lambda path: path.chmod(0o722), id="library"),
    pytest.param(lambda path: Path(f"{path}.sha256").chmod(0o666), id="checksum"),
]
ROOT_ONLY = [
    pytest.param(lambda path: given_away(path.parent), id="stranger's folder", marks=pytest.mark.root),
    pytest.param(lambda path: given_away(path.parent.parent), id="stranger's folder above", marks=pytest.mark.root),
    pytest.param(given_away, id="stranger's library", marks=pytest.mark.root),
    pytest.param(lambda path: given_away(Path(f"{path}.sha256")), id="stranger's checksum", marks=pytest.mark.root),
    pytest.param(
        lambda path: replaced_by_link(path.parent, STRANGER), id="stranger's link", marks=pytest.mark.root
    ),
]  # fmt: skip


@pytest.mark.parametrize("crime", [*ANYBODY, *ROOT_ONLY])
def test_a_planted_library_is_not_loaded(
    cache: Path, real: str, crime: Crime, caplog: pytest.LogCaptureFixture
) -> None:
    path = made()
    plant(path)
    crime(path)
    _usable.cache_clear()
    with caplog.at_level(logging.WARNING, "nativelib"):
        assert answer(made()) == OWN
    [warning, *_] = [record.getMessage() for record in caplog.records]
    assert str(path.parents[1]) in warning
    assert "belong" in warning and "user" in warning
    assert "mode 0" in warning or "mode 1" in warning or "symbolic link" in warning


def test_the_planted_library_would_run(cache: Path, real: str) -> None:
    """What the test above plants is whole: only owner and mode tell it apart."""
    path = made()
    plant(path)
    assert made() == path
    assert answer(path) == PLANTED


@pytest.mark.parametrize("crime", [ANYBODY[0], ANYBODY[3], *ROOT_ONLY[:2]])
def test_load_looks_too(cache: Path, real: str, crime: Crime) -> None:
    path = made()
    crime(path)
    with pytest.raises(UntrustedError, match="and nobody else may write it"):
        load(path)


def test_a_good_cache_is_used_through_good_links_and_a_sticky_folder(
    tmp_path: Path, real: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "link").symlink_to("there/../there")
    (tmp_path / "there").mkdir(mode=0o755)
    monkeypatch.setenv("NATIVELIB_CACHE", str(tmp_path / "link" / "cache"))
    assert (answer(made()), made().parent.resolve()) == (OWN, tmp_path / "there" / "cache")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        open_folder(tmp_path / "a")


@pytest.mark.parametrize("umask", ["0", "002", "077"])
def test_the_umask_does_not_matter(tmp_path: Path, real: str, umask: str) -> None:
    code = (
        f"import os; os.umask(0o{umask}); from nativelib import build, load\n"
        "for _ in range(2): print(load(build('demo', [], generated={'a.c': 'int a(void) { return 5; }'})).a())"
    )
    cache = tmp_path / "new" / "cache"
    environment = {**os.environ, "NATIVELIB_CACHE": str(cache)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert (done.stdout, done.stderr) == ("5\n5\n", "")
    assert [folder.stat().st_mode & 0o777 for folder in (cache.parent, cache)] == [0o700, 0o700]
    found = {path.suffix: path.stat().st_mode & 0o7777 for path in cache.iterdir()}
    assert found == {".so": 0o700, ".sha256": 0o600, ".lock": 0o600, **({".json": 0o600} if ".json" in found else {})}


def test_a_file_that_is_a_pipe_or_a_link_is_compiled_again(cache: Path, real: str, tmp_path: Path) -> None:
    path = made()
    path.unlink()
    os.mkfifo(path, 0o600)
    assert answer(made()) == OWN
    other = tmp_path / "other.so"
    path.rename(other)
    path.symlink_to(other)
    assert made() == path
    assert not path.is_symlink()


def test_what_was_checked_is_what_is_loaded(cache: Path, real: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is replaced between check and load."""
    path, late = made(), build("planted", [], generated=text(PLANTED))
    genuine = ctypes.CDLL

    def slow(name: str) -> ctypes.CDLL:
        late.replace(path)
        return genuine(name)

    monkeypatch.setattr(ctypes, "CDLL", slow)
    assert answer(path) == OWN


def test_libraries_loaded_one_after_the_other_are_told_apart(cache: Path, real: str) -> None:
    """All of them by the same number of a descriptor."""
    paths = [build("demo", [], generated=text(k)) for k in range(3)]
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert [answer(path) for path in (*paths, *paths)] == [0, 1, 2, 0, 1, 2]
    # What earlier tests left may be closed meanwhile.
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_a_temporary_folder_of_strangers_is_no_way_out(
    tmp_path: Path, real: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_to_all = tmp_path / "temporary"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("NATIVELIB_CACHE", str(open_to_all / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(open_to_all))
    _private_folder.cache_clear()
    with pytest.raises(UntrustedError, match="temporary"):
        made()
    _private_folder.cache_clear()


@pytest.mark.root
def test_a_process_that_gives_up_roots_rights_compiles_for_itself(cache: Path, real: str) -> None:
    code = (
        "import os; from nativelib import build, load\n"
        "def answer(k): return load(build('demo', [], generated={'a.c': f'int a(void) {{ return {k}; }}'})).a()\n"
        f"print(answer(1)); os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})\n"
        "print(answer(1), answer(2))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1\n1 2\n", "")


IN_A_NAMESPACE = f"""
import ctypes, os, sys
from nativelib import build, load
def answer(k):
    return load(build("demo", [], generated={{"a.c": f"int a(void) {{{{ return {{k}}; }}}}"}})).a()
answer(1)
libc = ctypes.CDLL(None)
os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})
libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: /proc/self is this user's again
if libc.unshare(0x10000000) != 0:  # CLONE_NEWUSER
    sys.exit(77)
open("/proc/self/uid_map", "w").write("0 {STRANGER} 1")
os.environ["NATIVELIB_CACHE"] = sys.argv[1]
assert os.stat("/").st_uid != 0
print(os.geteuid(), answer(2))
"""


@pytest.mark.root
def test_in_a_user_namespace_code_is_compiled_and_kept(cache: Path, real: str) -> None:
    """Root's folders have no owner there that has a number."""
    with tempfile.TemporaryDirectory() as own:
        os.chown(own, STRANGER, -1)
        command = [sys.executable, "-c", IN_A_NAMESPACE, own]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 77:
            pytest.skip("no user namespaces for users")
        assert (done.stdout, done.stderr) == ("0 2\n", "")
        assert list(Path(own).glob("demo-*.so"))


def test_a_lock_that_cannot_be_opened_is_a_typed_error(cache: Path, real: str) -> None:
    path = made()
    lock = path.with_name(path.name + ".lock")
    lock.unlink()
    lock.symlink_to("nowhere")
    path.unlink()
    with pytest.raises(NativeError, match=r"cannot keep .*NATIVELIB_CACHE=FOLDER"):
        made()


def test_open_file_wants_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/file")
    (tmp_path / "folder" / "file").write_text("x")
    for name in ("folder", "link", "missing", "folder/file/x"):
        with pytest.raises((OSError, UntrustedError)):
            open_file(tmp_path / name)
    with open_file(tmp_path / "folder" / "file") as file:
        assert file.read() == b"x"


@pytest.mark.parametrize(("mode", "own"), [(0o755, True), (0o700, True), (0o775, False), (0o777, False)])
def test_make_keeps_code_in_the_checkout_only_where_it_would_be_loaded(tmp_path: Path, mode: int, own: bool) -> None:
    if shutil.which("make") is None:
        pytest.skip("no make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    tmp_path.chmod(mode)
    environment = {name: value for name, value in os.environ.items() if name != "NATIVELIB_CACHE"}
    command = ["make", "--print-data-base", "--dry-run", "help"]
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert (f"NATIVELIB_CACHE := {tmp_path}/.cache/native" in said) is own
    # Root's processes have a cache of their own.
    assert "NATIVELIB_CACHE," not in said
