# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What another user left in the working directory, or in a folder of PATH, is not run by what is started there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.paths import ROOT
from helpers.transport.udp_bridge import addresses

PACKAGES = os.pathsep.join(str(ROOT / one) for one in ("protocol", "host", "native", "controller", "mininet", "switch"))
NAMES = ("sumwire", "numpy", "torch", "multiprocessing", "sumwire_controller", "sumwire_lab", "sumwire_protocol")
MARK = 'import os, sys\nopen(os.environ["MARK"], "a").write(f"{__name__} {os.getuid()} {sys.orig_argv}\\n")\n'
RANK0 = """

from sumwire.start.supervisor import RunningAggregator, here
aggregator = RunningAggregator(here(), {}, print)
while not aggregator.has_ended: pass
"""
# As the commands of this project do before they start anything.
SPAWNED = """
import multiprocessing
from nativelib import programs
if __name__ == "__main__":
    programs.close_environment()
    for method in ("spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=print, args=("child",))
        process.start()
        process.join()
        assert process.exitcode == 0
"""
STATUS = """
from pathlib import Path
from sumwire.doctor.controller import ControllerStatus
with ControllerStatus(Path("/nowhere.yaml"), None) as status: print(list(status.findings()))
"""


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that everybody may write, with a module and a package of each name."""
    folder = tmp_path / "shared"
    folder.mkdir()
    for name in NAMES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(MARK)
        (folder / f"{name}.py").write_text(MARK)
    folder.chmod(0o1777)
    return folder


def environment(shared: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PACKAGES, "MARK": str(shared / "ran")}


@pytest.mark.parametrize("code", [RANK0, SPAWNED, STATUS], ids=["rank0", "multiprocessing", "doctor"])
def test_children_of_a_script(code: str, shared: Path, tmp_path: Path) -> None:
    """The script's own folder, which its imports come from, is its user's affair. What it starts does not have it."""
    (tmp_path / "script").mkdir()
    for folder, first in ((tmp_path / "script", ""), (shared, "import sys; del sys.path[0]\n")):
        script = folder / "script.py"
        script.write_text(first + code)
        done = subprocess.run(
            [sys.executable, str(script)], cwd=shared, env=environment(shared), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        assert not (shared / "ran").exists(), (shared / "ran").read_text()


@pytest.mark.parametrize("paths", ["", ":"], ids=["", "an empty part in PYTHONPATH"])
def test_sumwire_up(paths: str, shared: Path) -> None:
    aggregator, ips = addresses(2)
    words = ["up", "--hosts", ",".join(ips), "--aggregator", aggregator, "--listen", f"{aggregator}:21334"]
    variables = environment(shared)
    # This process's own look into the working directory would be its user's affair.
    code = f"import sys, os; os.environ['PYTHONPATH'] += {paths!r}; from sumwire import cli; sys.exit(cli.main())"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code, *words], cwd=shared, env=variables, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any("ready: " in line for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
    assert not (shared / "ran").exists(), (shared / "ran").read_text()


def test_an_ssh_and_a_compiler_on_path(shared: Path) -> None:
    """They are refused by name."""
    for name in ("ssh", "cc", "sumwire-controller"):
        (shared / name).write_text('#!/bin/sh\necho "$0" >>"$MARK"\n')
        (shared / name).chmod(0o755)
    code = """
from nativelib import NativeError, find_compiler
from sumwire.start import supervisor, up
from sumwire.start.errors import StartError
ssh = lambda: supervisor.RunningAggregator(supervisor.by_ssh("b", "sumwire-aggregator"), {}, print)
for each in (ssh, find_compiler, lambda: up._controller("apply", "x.yaml")):
    try: each()
    except (NativeError, StartError) as error: print(error)
"""
    variables = environment(shared) | {"PATH": f"{shared}:{os.environ['PATH']}", "CC": "cc"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=shared, env=variables, capture_output=True, text=True, check=True
    )
    for name, line in zip(("ssh", "cc", "sumwire-controller"), done.stdout.splitlines(), strict=True):
        assert f"{shared / name}: not run: {shared} belongs to user" in line
    assert not (shared / "ran").exists(), (shared / "ran").read_text()
