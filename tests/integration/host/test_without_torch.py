# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a host says whose environment has no PyTorch, as one with an aggregator alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

INSTALL = "pip install 'sumwire[host]'"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.modules['torch'] = None\n{code}"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [["tune", "job.json"], ["inspect", "resnet50"], ["profile-loss", "x.py"], ["pays", "--params=1M", "--rate=1G"]],
)
def test_commands_that_need_it_say_so(words: list[str]) -> None:
    ended = run(f"from sumwire.cli import main\nsys.exit(main({words}))")
    assert ended.returncode == 1
    assert (
        ended.stderr
        == f"sumwire: sumwire {words[0]}: needs PyTorch, which is not installed here: install it: {INSTALL}\n"
    )


def test_all_others_are_there() -> None:
    ended = run("from sumwire.cli import main\nmain(['--help'])")
    assert ended.returncode == 0
    assert "up " in ended.stdout and f"needs PyTorch: {INSTALL}" in " ".join(ended.stdout.split())


def test_names_that_need_it_say_so() -> None:
    ended = run("import sumwire\nsumwire.init()")
    assert ended.stderr.splitlines()[-1] == f"ModuleNotFoundError: sumwire.init needs PyTorch: {INSTALL}"
