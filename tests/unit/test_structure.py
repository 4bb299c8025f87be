# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How tests are laid out: see tests/README.md."""

from __future__ import annotations

import ast
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.paths import ROOT

TESTS = ROOT / "tests"
KINDS = {"unit", "integration", "packet", "differential", "statistics", "system"}
PACKAGES = {
    "host": "host/sumwire", "controller": "controller/sumwire_controller", "softswitch": "switch/softswitch",
    "lab": "mininet/sumwire_lab", "nativelib": "native/nativelib", "commonlib": "common/commonlib",
    "protocol": "protocol/sumwire_protocol",
    "docs": "docs", "simulate": "tests/simulate",
}  # fmt: skip
# Their only use is what a unit test may not do. `socket` has pure functions too; its sockets meet the guard.
PROCESSES = {"subprocess", "multiprocessing"}


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or '.'}.{alias.name}" for alias in node.names)


def test_no_test_imports_a_test() -> None:
    """What several tests need is in tests/helpers, or in a conftest as a fixture."""
    found = {
        f"{path.relative_to(TESTS)} imports {name}"
        for path in modules(TESTS)
        for name in imports(path)
        if any(part.startswith("test_") or part == "conftest" for part in name.split("."))
    }
    assert found == set()


def test_unit_tests_start_no_processes() -> None:
    """They cannot open sockets either: see the conftest beside this file."""
    found = {
        f"{path.relative_to(TESTS)} imports {name}"
        for path in modules(TESTS / "unit")
        for name in imports(path)
        if name.partition(".")[0] in PROCESSES and path != Path(__file__)
    }
    assert found == set()


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def test_docstrings_name_their_subject() -> None:
    folders = [ROOT / folder for folder in (*PACKAGES.values(), "tests", "examples")]
    found = {
        f"{path.relative_to(ROOT)}: {text}"
        for folder in folders
        for path in modules(folder)
        for text in docstrings(path)
        if text.startswith("The same")
    }
    assert found == set()


def test_every_test_is_of_a_kind() -> None:
    assert {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")} == KINDS


@pytest.mark.parametrize("kind", ["unit", "integration"])
def test_folders_mirror_the_codes(kind: str) -> None:
    for path in (TESTS / kind).rglob("test_*.py"):
        package, *rooms = path.parent.relative_to(TESTS / kind).parts or ("",)
        if package:
            assert (ROOT / PACKAGES[package]).joinpath(*rooms).is_dir(), path.relative_to(TESTS)


@pytest.mark.parametrize(
    "attempt",
    [
        socket.socket,
        socket.socketpair,
        lambda: subprocess.run([sys.executable, "--version"], check=False),
        lambda: subprocess.run(["true"], check=False, close_fds=False),
    ],
)
def test_sockets_and_processes_raise_here(attempt: Callable[[], object]) -> None:
    with pytest.raises(Exception, match="belongs in tests/integration"):
        attempt()


@pytest.fixture(scope="module")
def refusal() -> str:
    with pytest.raises(Exception, match="belongs in tests/integration") as refused:
        socket.socket()
    return str(refused.value)


def test_sockets_of_fixtures_raise_here(refusal: str) -> None:
    assert "test_sockets_of_fixtures_raise_here" in refusal
