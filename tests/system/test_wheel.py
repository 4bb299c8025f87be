# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The wheels, in environments that borrow their dependencies from the developer's: one not declared goes unnoticed.

Sumwire's wheel contains every source file. With only it installed, every command works from another folder. The soft
switch's own wheel runs programs with nothing of Sumwire installed.
"""

from __future__ import annotations

import json
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commonlib.version import __version__
from helpers.paths import ROOT
from helpers.wheel.environment import CODE, build_switch_wheel, build_wheel, environment_with, run

COMMANDS = ("sumwire", "sumwire-aggregator", "sumwire-controller", "sumwire-lab", "softswitch")
PACKAGES = ("commonlib", "sumwire_protocol", "nativelib", "sumwire", "sumwire_controller", "softswitch", "sumwire_lab")
SOURCES = ("*.py", "*.c", "*.h", "py.typed", "p4/*.json", "p4/*.txtpb")
HELPERS = ROOT / "tests" / "helpers" / "wheel"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment in which the wheel is installed."""
    return environment_with(wheel, tmp_path_factory.mktemp("installed") / "environment")


def test_wheel_has_every_source_file(wheel: Path) -> None:
    """Without its C sources the library only warns, and runs in Python."""
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    for pattern in SOURCES:
        found = {
            path.relative_to(ROOT / folder).as_posix() for folder in CODE for path in (ROOT / folder).rglob(pattern)
        }
        assert found and found <= packed, f"{pattern}: {sorted(found - packed)}"


def test_packages_come_from_the_wheel(commands: Path, tmp_path: Path) -> None:
    program = "import importlib, json; print(json.dumps([importlib.import_module(name).__file__ for name in %r]))"
    found = json.loads(run([str(commands / "python"), "-c", program % (PACKAGES,)], tmp_path))
    assert all(Path(file).is_relative_to(commands.parent) for file in found), found


def test_every_command_says_the_version(commands: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda name: run([str(commands / name), "--version"], tmp_path), COMMANDS))
    assert found == [f"{name} {__version__}\n" for name in COMMANDS]


def test_the_soft_switch_alone_runs_a_program_of_others(tmp_path: Path) -> None:
    wheel = build_switch_wheel(tmp_path)
    assert wheel.name == f"softswitch-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        packed = {Path(name).parts[0] for name in archive.namelist()}
        sources = {Path(name).name for name in archive.namelist() if name.endswith((".c", ".h"))}
    assert packed == {"softswitch", "commonlib", "nativelib", f"softswitch-{__version__}.dist-info"}
    assert sources == {path.name for path in (ROOT / "switch" / "softswitch" / "native").glob("*.[ch]")}
    commands = environment_with(wheel, tmp_path / "environment")
    here = f"import importlib.util; print([name for name in {PACKAGES} if importlib.util.find_spec(name)])"
    assert run([str(commands / "python"), "-c", here], tmp_path) == "['commonlib', 'nativelib', 'softswitch']\n"
    assert run([str(commands / "softswitch"), "--help"], tmp_path).startswith("usage: softswitch")
    program = ROOT / "tests" / "helpers" / "p4runtime" / "programs" / "tables.json"
    assert "def " in run([str(commands / "softswitch"), "--dump-python", str(program)], tmp_path)


@pytest.mark.root
def test_switch_job_and_four_ranks(commands: Path, tmp_path: Path) -> None:
    """In a network namespace of its own, so that the example's addresses and ports are free. Its processes have a
    namespace too, and end with the first of them: nothing is left of a scenario that fails or takes too long."""
    config = ROOT / "controller" / "examples" / "star4.yaml"
    program = [str(commands / "python"), str(HELPERS / "scenario.py")]
    arguments = [str(commands), str(config), "digits", str(HELPERS / "rank.py")]
    namespaces = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
    printed = run([*namespaces, *program, *arguments], tmp_path, patience_s=300.0)
    assert sorted(line.split(":")[0] for line in printed.splitlines()) == [f"rank {rank}" for rank in range(4)], printed
