# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheels of this checkout, Sumwire's with its kernels compiled and the soft switch's: `make wheels`.

    python packaging/wheels.py --out dist [--machine aarch64 --cc aarch64-linux-gnu-gcc]

The kernels lie in nativelib/prebuilt/LEVEL/, one file for each level of the processor's features, each with a checksum
beside it. Where a processor, or the text, is another one, they are compiled at first use as without this. The wheel is
named after the oldest glibc that its kernels need. The wheel of the soft switch (switch/pyproject.toml) has none, and
is for any machine.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nativelib.build import LibraryRecipe

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CODE = PROJECT["tool"]["setuptools"]["packages"]["find"]["where"]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "p4src/build", *CODE)
IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info", "prebuilt", "build")
# Those that the host library and the aggregator load.
KERNELS = (
    "sumwire.codec.kernels", "sumwire.aggregator.kernels", "sumwire.wire.messages", "sumwire.transport.steady",
    "sumwire.blind.masks",
)  # fmt: skip
GLIBC_OLDEST = (2, 17)


def main() -> None:
    arguments = _parser().parse_args()
    lacks = lacking()
    if lacks:
        words = " ".join(f"'{one}'" for one in lacks)
        cure = f"run `make wheels`, which brings all, or python -m pip install {words}"
        sys.exit(f"this Python lacks {', '.join(lacks)}, which wheels are built with; {cure}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    sys.path[:0] = [str(ROOT / folder) for folder in CODE]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _copy(tree)
        switch = _wheel(tree / "switch", {}, arguments.out)
        libraries = compiled(tree / "native" / "nativelib" / "prebuilt", arguments.machine, arguments.cc)
        glibc = max((GLIBC_OLDEST, *map(_glibc_of, libraries)))
        tag = f"manylinux_{glibc[0]}_{glibc[1]}_{arguments.machine}"
        whole = _wheel(tree, {"--build-option": ["--plat-name", tag]}, arguments.out)
        sys.stdout.write(f"{whole}\n{switch}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Build the wheel with compiled kernels, and that of the soft switch.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheels; default: dist")
    parser.add_argument(
        "--machine", default=platform.machine(), choices=("x86_64", "aarch64"), help="default: this one"
    )
    parser.add_argument("--cc", help="a compiler for that machine; default: the one that kernels are compiled by here")
    return parser


def lacking() -> list[str]:
    """What building needs and this Python has not, as pip takes it: the build system, and what the modules import whose
    kernels are compiled."""
    needed = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]
    needed += PROJECT["project"]["optional-dependencies"]["host"]
    found = {}
    for one in needed:
        name, least = one.split(">=")
        try:
            found[one] = _numbers(metadata.version(name)) >= _numbers(least)
        except metadata.PackageNotFoundError:
            found[one] = False
    return [one for one, there in found.items() if not there]


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _copy(tree: Path) -> None:
    for name in SOURCES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=IGNORED)
        else:
            shutil.copy(ROOT / name, tree / name)


def compiled(folder: Path, machine: str, cc: str | None) -> list[Path]:
    """Compile all kernels for all levels of a machine. Returns the files."""
    from nativelib import prebuilt
    from nativelib.compiler import COMMON_FLAGS, find_compiler

    program = [cc] if cc else [find_compiler().command[0]]
    files = []
    for recipe in _recipes():
        for level in prebuilt.LEVELS[machine]:
            place = folder / level
            place.mkdir(parents=True, exist_ok=True)
            files.append(recipe.compile([*program, *COMMON_FLAGS, f"-march={level}"], place))
    return files


def _recipes() -> list[LibraryRecipe]:
    """What the modules of the kernels compile: found by loading them."""
    import importlib

    from nativelib.build import recorded

    with recorded() as recipes:
        for name in KERNELS:
            module = importlib.import_module(name)
            if module.NATIVE.kernels() is None:
                raise SystemExit(f"{name}: not compiled here; see the warning above")
    return recipes


def _glibc_of(library: Path) -> tuple[int, int]:
    """The newest glibc that a library asks for."""
    told = subprocess.run(["readelf", "-V", str(library)], check=True, capture_output=True, text=True).stdout
    return max(((int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", told)), default=GLIBC_OLDEST)


def _wheel(tree: Path, options: Mapping[str, Sequence[str]], out: Path) -> Path:
    """Build the wheel of a folder with a pyproject.toml, with options of setuptools. Returns its path in ``out``."""
    backend = f"import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1], {options!r})"
    (tree / "built").mkdir()
    _run([sys.executable, "-P", "-c", backend, str(tree / "built")], tree)
    [wheel] = (tree / "built").glob("*.whl")
    return Path(shutil.copy(wheel, out))


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
