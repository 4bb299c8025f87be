# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Markers for what a machine may lack, and the options that turn their skips into failures."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable

import pytest
from nativelib import NoCompilerError, find_compiler


def _has_mininet() -> bool:
    # `import mininet` alone succeeds from the repository's root without Mininet: the folder mininet/ is in the way.
    return os.geteuid() == 0 and importlib.util.find_spec("mininet") is not None and _finds("mininet.net")


def _finds(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _has_wide_compiler() -> bool:
    try:
        find_compiler(wide_bitint=True)
    except NoCompilerError:
        return False
    return True


# marker -> (is it here, what is missing)
NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "root": (lambda: os.geteuid() == 0, "needs root"),
    "bmv2": (lambda: shutil.which("simple_switch_grpc") is not None, "simple_switch_grpc is not on PATH"),
    "p4c": (lambda: shutil.which("p4c-bm2-ss") is not None, "p4c-bm2-ss is not on PATH"),
    "cc": (_has_wide_compiler, "no C compiler with _BitInt(2048), such as clang 16"),
    "mininet": (_has_mininet, "needs Mininet (mininet.net) and root"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--differential-programs", type=int, default=16, metavar="N", help="generated programs to compile and compare"
    )
    parser.addoption(
        "--differential-first", type=int, default=0, metavar="N", help="number (seed) of the first generated program"
    )
    for name in NEEDS:
        parser.addoption(f"--require-{name}", action="store_true", help=f"fail, not skip, where {name} is missing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs of the lab first: with several processes, none of them then is what all others wait for at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/system/test_lab_"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name, (is_here, what) in NEEDS.items():
        if item.get_closest_marker(name) is None or is_here():
            continue
        if item.config.getoption(f"--require-{name}"):
            pytest.fail(f"--require-{name}: {what}", pytrace=False)
        pytest.skip(what)
