# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every process that the project starts, and every library that it loads, comes from `nativelib.programs` or
`nativelib.build`, which keep out what another user can write."""

from __future__ import annotations

import ast
import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.paths import ROOT
from nativelib import UntrustedError, programs
from sumwire_lab.run import own_lab

PACKAGES = (
    "host",
    "controller",
    "switch",
    "mininet",
    "native",
    "common",
    "protocol",
    "packaging",
    "p4src",
    "models",
    "examples",
)
PROGRAMS, LOADER = Path("native/nativelib/programs.py"), Path("native/nativelib/build.py")
# Their commands are run with an environment that `close_environment` has made at their entry.
CLOSED = ("mininet/",)
# No packages: they have no `nativelib` to import when they run, or show what a user writes.
ALONE = ("examples/", "p4src/", "packaging/")
STARTS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
OTHER = ("os.exec", "os.spawn", "os.posix_spawn", "os.system", "os.popen", "os.startfile", "runpy.", "pty.spawn")
OTHER += ("asyncio.create_subprocess",)
LOADS = (
    "ctypes.CDLL",
    "ctypes.PyDLL",
    "cdll.LoadLibrary",
    "CDLL",
    "cffi.FFI",
    "torch.ops.load_library",
    "load_library",
)
# Users' own scripts have their user's whole environment.
SCRIPTS = {Path("host/sumwire/dlcp/packet_loss.py"), Path("host/sumwire/start/model_shapes.py")}
# Commands of their own, which `close_environment` has prepared.
PREPARED = {Path("host/sumwire/lowrank/check.py")}
RUNPY = {
    Path("mininet/sumwire_lab/faults/programs.py"): "runpy.run_module",
    # In a child that is for the user's script alone.
    Path("host/sumwire/start/model_shapes.py"): "runpy.run_path",
}


# A file without any of these words cannot start or load anything.
WORDS = ("executable", "subprocess", "exec", "spawn", "os.s", "popen", "runpy", "DLL", "dll", "FFI", "load_", "which")


def sources() -> list[Path]:
    found = (path.relative_to(ROOT) for folder in PACKAGES for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if "build" not in path.parts)


def wrong(path: Path, text: str) -> Iterator[str]:
    """What of a file would start or load something in a way of its own."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="sys"), attr="executable") | ast.alias(name="executable"):
                if path != PROGRAMS and not _is_folder(tree, node) and not _is_safe(path, tree, node):
                    yield f"{node.lineno}: sys.executable: use programs.module, script or starter"
            case ast.Call(func=func):
                yield from _wrong_call(path, node, ast.unparse(func))
            case ast.ImportFrom(module="subprocess", names=names):
                yield from (f"{node.lineno}: from subprocess import {each.name}" for each in names)


def _wrong_call(path: Path, node: ast.Call, name: str) -> Iterator[str]:
    given = {each.arg: each.value for each in node.keywords}
    if name.startswith(OTHER) and name != RUNPY.get(path):
        yield f"{node.lineno}: {name}"
    if name.endswith(LOADS) and path != LOADER and not _is_none(node.args):
        yield f"{node.lineno}: {name}: use nativelib.load"
    if name.startswith("subprocess.") and name.removeprefix("subprocess.") in STARTS:
        if "shell" in given:
            yield f"{node.lineno}: {name} with a shell"
        environment = ast.unparse(given["env"]) if "env" in given else ""
        named = environment.removeprefix("programs.").startswith("environment(")
        if not str(path).startswith((*CLOSED, *ALONE)) and path not in SCRIPTS and not named:
            yield f"{node.lineno}: {name}: without env=programs.environment()"
    starts_python = any(ast.unparse(each) in ("'spawn'", "'forkserver'") for each in node.args)
    if name.endswith("get_context") and starts_python and not str(path).startswith(CLOSED) and path not in PREPARED:
        yield f"{node.lineno}: {name}: starts Python without programs.close_environment()"
    if name == "shutil.which" and str(path).startswith("host/"):
        yield f"{node.lineno}: {name}: use programs.program"


def _is_none(arguments: list[ast.expr]) -> bool:
    return bool(arguments) and isinstance(arguments[0], ast.Constant) and arguments[0].value is None


def _is_folder(tree: ast.AST, wanted: ast.AST) -> bool:
    """Only the path of this Python is asked for."""
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == "Path" and wanted in node.args
        for node in ast.walk(tree)
    )


def _is_safe(path: Path, tree: ast.AST, wanted: ast.AST) -> bool:
    """Files that stand alone write the command out, `-P` first."""
    if not str(path).startswith(ALONE):
        return False
    lists = (node.elts for node in ast.walk(tree) if isinstance(node, ast.List) and wanted in node.elts)
    return any(ast.unparse(each[1]) == "'-P'" for each in lists if each[0] is wanted and len(each) > 1)


def test_every_child_and_library_comes_from_one_place() -> None:
    texts = {path: (ROOT / path).read_text() for path in sources()}
    found = {path: list(wrong(path, text)) for path, text in texts.items() if any(word in text for word in WORDS)}
    assert {str(path): lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "command = [sys.executable, '-m', 'sumwire.cli']",
        "from sys import executable",
        "subprocess.run(['ip'])",
        "subprocess.Popen(words, env={**os.environ})",
        "subprocess.Popen(words, env=environment)",
        "subprocess.run(words, env=programs.environment(), shell=True)",
        "from subprocess import run",
        "os.execvp('ssh', [])",
        "os.system('cc')",
        "ctypes.CDLL('./kernels.so')",
        "multiprocessing.get_context('spawn')",
        "shutil.which('ssh')",
        "runpy.run_path('x.py')",
    ],
)
def test_one_that_does_not_is_found(text: str) -> None:
    assert list(wrong(Path("host/sumwire/new.py"), text))
    assert any(word in text for word in WORDS)


def test_a_file_that_stands_alone_writes_p_first() -> None:
    assert list(wrong(Path("examples/new.py"), "run([sys.executable, '-m', 'x'])"))
    assert not list(wrong(Path("examples/new.py"), "run([sys.executable, '-P', '-m', 'x'])"))


# -- the commands and the environment ------------------------------------------------------------------


def test_a_module_is_not_looked_for_in_the_working_directory() -> None:
    assert programs.module("sumwire.cli", "top") == [sys.executable, "-P", "-m", "sumwire.cli", "top"]


def test_empty_parts_of_paths_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", ":/usr/bin::.:bin")
    monkeypatch.setenv("PYTHONPATH", ":/usr:tests:")
    monkeypatch.setenv("LD_LIBRARY_PATH", ":")
    found = programs.environment({"LC_ALL": "C"})
    assert found["PATH"] == "/usr/bin"
    assert found["PYTHONPATH"] == f"/usr:{Path('tests').absolute()}"
    assert "LD_LIBRARY_PATH" not in found
    assert (found["PYTHONSAFEPATH"], found["LC_ALL"]) == ("1", "C")


def test_a_child_gets_variables_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"OMP_NUM_THREADS": "2", "SUMWIRE_JOB": "/nowhere/job.json", "LC_TIME": "C", "https_proxy": "http://a:1"}
    given |= {"LD_PRELOAD": "libjemalloc.so.2", "CC": "clang -O3", "NO_COLOR": "", "CUDA_VISIBLE_DEVICES": "0,1"}
    given |= {"TMP": "/", "MALLOC_ARENA_MAX": "2", "NCCL_DEBUG_FILE": "/dev/null", "TORCH_HOME": "/nowhere/torch"}
    kept = given | {"HOME": "/", "NATIVELIB_CACHE": "/nowhere"}
    left = dict.fromkeys(("LD_AUDIT", "PYTHONSTARTUP", "PYTHONBREAKPOINT", "CFLAGS", "GIT_SSH", "BASH_ENV"), "/bin/sh")
    left |= {"HOMES": "1", "CCACHE_COMPILER": "x"}
    monkeypatch.setattr(os, "environ", {**kept, **left})
    assert programs.environment() == kept | {"PATH": os.defpath, "PYTHONSAFEPATH": "1"}
    assert programs.environment({"SOME_OTHER": "/x"})["SOME_OTHER"] == "/x", "what the caller says"


@pytest.fixture
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been said of variables yet."""
    monkeypatch.setattr(programs, "_said", set())


@pytest.mark.usefixtures("unsaid")
@pytest.mark.parametrize("name", ["PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "CPATH", "COMPILER_PATH", "LIBRARY_PATH"])
def test_folders_that_others_may_write_are_left_out_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own, shared, sticky = (tmp_path / each for each in ("own", "shared", "sticky"))
    for folder, mode in ((own, 0o775), (shared, 0o777), (sticky, 0o1777)):
        folder.mkdir()
        folder.chmod(mode)
    monkeypatch.setenv(name, f"{sticky}:{own}:{shared}/missing:{shared}:{tmp_path}/missing")
    for _ in range(2):
        assert programs.environment()[name] == str(own)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2, "once each"
    for folder, mode, text in zip((sticky, shared), ("1777", "0777"), told, strict=True):
        assert text.startswith(f"{name}: {folder} is left out: {folder} belongs to user {os.getuid()}, mode {mode}: ")


@pytest.mark.usefixtures("unsaid")
def test_a_place_where_others_may_make_the_folder_is_left_out_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    monkeypatch.setenv("TORCH_HOME", f"{tmp_path}/sticky/to/be/made")
    assert "TORCH_HOME" not in programs.environment()
    assert f"TORCH_HOME: {tmp_path}/sticky/to/be/made is left out: {tmp_path}/sticky belongs to user" in caplog.text
    monkeypatch.setenv("TORCH_HOME", f"{tmp_path}/to/be/made")
    assert programs.environment()["TORCH_HOME"] == f"{tmp_path}/to/be/made"


@pytest.mark.root
@pytest.mark.usefixtures("unsaid")
@pytest.mark.parametrize(
    "name", ["HOME", "SHELL", "TMPDIR", "LD_PRELOAD", "PYTHONHOME", "PYTHONUSERBASE", "NCCL_NET_PLUGIN", "OPENSSL_CONF"]
)
def test_paths_of_another_user_are_left_out_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    monkeypatch.setenv(name, str(theirs))
    assert programs.environment()[name] == str(theirs)
    os.chown(theirs, 65534, 65534)
    home = pwd.getpwuid(os.getuid()).pw_dir if name == "HOME" else None
    assert programs.environment().get(name) == home
    assert f"{name}: {theirs} is left out: {theirs} belongs to user 65534, mode 0" in caplog.text


def test_a_command_closes_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"LD_LIBRARY_PATH": ":", "KEPT": "1"})
    programs.close_environment()
    assert os.environ == {"KEPT": "1", "PATH": os.defpath, "PYTHONSAFEPATH": "1"}


def test_a_script_gets_what_its_user_has_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    set_by_user = {"PYTHONPATH": f"{tmp_path}/shared:/nowhere", "PATH": "bin", "TORCH_HOME": f"{tmp_path}/shared/x"}
    monkeypatch.setattr(programs, "_taken", {})
    monkeypatch.setattr(os, "environ", {**set_by_user, "LD_AUDIT": "a.so", "SUMWIRE_LOSS": "0"})
    programs.close_environment()
    assert os.environ.get("TORCH_HOME") is None and os.environ["PATH"] == os.defpath
    found = programs.script_environment({"SUMWIRE_LOSS": "0.1"})
    assert found == {**set_by_user, "LD_AUDIT": "a.so", "SUMWIRE_LOSS": "0.1", "PYTHONSAFEPATH": "1"}
    assert programs.script(Path("x.py"))[:3] == ["/usr/bin/env", "-u", "PYTHONSAFEPATH"]


def test_scripts_in_the_lab_get_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    host = SimpleNamespace(ip="10.0.0.1", host_interface="h0-eth0")
    session: Any = SimpleNamespace(fabric=SimpleNamespace(hosts=[host]), job_file=None)
    monkeypatch.setattr(programs, "_taken", {"PYTHONPATH": "/theirs", "RANK": "7"})
    found = own_lab.environment(session, 0, session.fabric.hosts[0])
    assert (found["PYTHONPATH"], found["RANK"], found["MASTER_ADDR"]) == ("/theirs", "0", "10.0.0.1")


def planted(folder: Path, mode: int) -> Path:
    folder.mkdir()
    path = folder / "ssh"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    folder.chmod(mode)
    return path


def test_a_program_in_a_folder_of_everybody_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = planted(tmp_path / "shared", 0o1777)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin")
    with pytest.raises(UntrustedError, match=f"{path}: not run: {path.parent} belongs to user"):
        programs.program("ssh")


def test_a_program_of_ones_own_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = planted(tmp_path / "own", 0o755)
    monkeypatch.setenv("PATH", str(path.parent))
    assert programs.program("ssh") == str(path)


@pytest.mark.root
def test_a_program_of_another_user_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = planted(tmp_path / "theirs", 0o755)
    os.chown(path, 65534, 65534)
    monkeypatch.setenv("PATH", str(path.parent))
    with pytest.raises(UntrustedError, match="belongs to user 65534"):
        programs.program("ssh")


def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FileNotFoundError, match="No such file or directory: 'ssh'"):
        programs.program("ssh")
