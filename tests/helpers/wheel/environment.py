# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheels of this checkout, and environments in which it is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

from helpers.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CODE = PROJECT["tool"]["setuptools"]["packages"]["find"]["where"]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "p4src/build", *CODE)
IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
# A build takes seconds, and minutes on a busy machine.
_BUILD_S = 900.0


def build_wheel(folder: Path) -> Path:
    """Build a source distribution of the checkout, and the wheel from it, in `folder`. Returns the wheel.

    The sources are copied first, so that nothing is left in the checkout and no older build gets into the wheel.
    """
    checkout = _copied(folder)
    backend = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run([sys.executable, "-c", backend, str(folder)], checkout)
    (sdist,) = folder.glob("*.tar.gz")
    return _wheel_of(sdist, folder)


def build_switch_wheel(folder: Path) -> Path:
    """Build the wheel of the soft switch alone in `folder`, and return it."""
    return _wheel_of(_copied(folder) / "switch", folder)


def _copied(folder: Path) -> Path:
    checkout = folder / "checkout"
    for name in SOURCES:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=IGNORED)
        else:
            shutil.copy(ROOT / name, checkout / name)
    return checkout


def _wheel_of(source: Path, folder: Path) -> Path:
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    run([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder), str(source)], folder, _BUILD_S)
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment_with(wheel: Path, folder: Path) -> Path:
    """Make an environment in `folder` with only the wheel. Returns the folder of its commands.

    The packages that the wheel depends on come from the environment of the tests: its folder of packages is put behind
    the new one's. Its editable Sumwire is not found there, as Python reads .pth files only in the new environment.
    """
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder.parent)
    python = folder / "bin" / "python"
    options = ["--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    run([sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(wheel)], folder.parent)
    packages = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run(command: list[str], folder: Path, patience_s: float = 300.0) -> str:
    """Run a command in `folder`, with nothing of this checkout on its path. Returns what it printed.

    Fails with the command's output if it fails. Nothing that it has started outlives a command that takes too long.
    """
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=patience_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, f"{command}: {out}{err}"
    return out
