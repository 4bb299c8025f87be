# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every script in examples/ runs as printed. The scripts check their own results."""

from __future__ import annotations

import os
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from commonlib.logs import VARIABLE, Form
from helpers.gloo.ranks import fork_context
from helpers.logs import checked
from helpers.paths import ROOT

EXAMPLES = ROOT / "examples"
TIMEOUT_S = 400.0
# What a script prints last. A script that is not here fails the test below.
ENDS_WITH = {
    "accelerate_ddp.py": r"parameters are equal on all ranks",
    "all_reduce.py": r"error of the mean \(NMSE\): 0\.0\d+, ",
    "custom_codec.py": r"largest error of the mean: .*e-06",
    "ddp.py": r"parameters are equal on all ranks",
    "diloco.py": r"parameters are equal on all ranks",
    "fsdp2.py": r"[1-9]\d+ packets sent by this rank",
    "lightning_ddp.py": r"parameters are equal on all ranks",
    "marsit.py": r"loss .* after 60 rounds of signs",
    "min32.py": r"100 minima of 4 ranks, the smallest \d+",
    "soft_switch.py": r"to port 2: maximum 9 of 2 workers",
    "systems_over_group.py": r"marsit-ring +loss ",
    "three_lines.py": r"[1-9]\d+ packets sent by this rank",
    "train_digits.py": r"accuracy: 0\.\d+",
    "trainer_ddp.py": r"parameters are equal on all ranks",
}
FRAMEWORKS = ("accelerate_ddp.py", "lightning_ddp.py", "trainer_ddp.py")
# Runs beside `sumwire up`, with torchft: tests/system/test_elastic.py.
WITH_A_SERVICE = "elastic.py"
ARGUMENTS = {"train_digits.py": ["--epochs", "1", "--hidden", "64"]}


def _run(script: Path, log: Path) -> None:
    with log.open("wb", buffering=0) as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ[VARIABLE] = Form.JSON.value
    sys.path.insert(0, str(script.parent))
    sys.argv = [str(script), *ARGUMENTS.get(script.name, [])]
    runpy.run_path(str(script), run_name="__main__")


def test_every_example_has_an_entry() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")} - {"loopback.py"}
    assert scripts == {*ENDS_WITH, WITH_A_SERVICE}
    table = (EXAMPLES / "README.md").read_text()
    assert [name for name in scripts if f"[{name}]({name})" not in table] == []


def marked(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.frameworks if name in FRAMEWORKS else ())


@pytest.mark.parametrize("name", [marked(name) for name in sorted(ENDS_WITH)])
def test_example_runs(name: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = fork_context().Process(target=_run, args=(EXAMPLES / name, log))
    process.start()
    process.join(TIMEOUT_S)
    if process.is_alive():
        process.kill()
        process.join()
    output = log.read_text()
    assert process.exitcode == 0, output
    said = output.strip().splitlines()
    # The Trainer prints what it has measured as a dict of Python's.
    logged = [checked(line) for line in said if line.startswith('{"')]
    assert [line["message"] for line in logged if line["level"] != "info"] == [], "an example is no place for warnings"
    assert re.search(ENDS_WITH[name], [line for line in said if not line.startswith('{"')][-1]), output
