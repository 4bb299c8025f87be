# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What importing a package loads, and what it leaves out, each in an interpreter of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.controller.config_texts import job, star, text


def run(code: str) -> str:
    """What the code prints. Fails with its error."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(code: str) -> set[str]:
    """Top-level modules that are loaded after the code."""
    return set(run(f"{code}\nimport sys; print(*(name for name in sys.modules if '.' not in name))").split())


def test_wire_and_config_load_no_torch() -> None:
    code = "import sumwire, sumwire.wire; sumwire.load_job; sumwire.ConfigError"
    assert "torch" not in loaded(code)
    assert "torch" in loaded(f"{code}; sumwire.all_reduce")


@pytest.mark.parametrize("modules", ["sumwire.wire", "sumwire.codec.tables, sumwire.codec.layout"])
def test_packets_and_tables_need_no_torch(modules: str) -> None:
    assert "torch" not in loaded(f"import {modules}")


def test_the_configuration_side_loads_no_network_library(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text(star(3, jobs=[job("m", 2, 1, 0, 8)])))
    code = (
        "from sumwire_controller.cli import main\n"
        f"main(['check-config', {str(path)!r}]); main(['job-file', {str(path)!r}, '--job', 'm'])\n"
        "import sumwire_controller; sumwire_controller.parse_config; sumwire_controller.configs_of"
    )
    assert not loaded(code) & {"grpc", "p4", "p4runtime_sh", "torch", "numpy", "sumwire"}


def test_the_host_library_needs_numpy_and_torch_alone() -> None:
    """`sumwire[host]` brings them. cryptography is for blind jobs, frameworks are for their callbacks."""
    code = """
import importlib.abc, pkgutil, sys
import torch, torch.nn.parallel, torch.distributed.fsdp
here = {*sys.modules, *sys.stdlib_module_names, "sumwire", "sumwire_protocol", "commonlib", "nativelib"}

class Nothing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if path is None and name not in here:
            raise ModuleNotFoundError(f"no module {name}", name=name)

sys.meta_path.insert(0, Nothing())
import sumwire
for module in pkgutil.walk_packages(sumwire.__path__, "sumwire."):
    try:
        module.name.endswith(".__main__") or __import__(module.name)
    except (ModuleNotFoundError, sumwire.errors.UsageError):
        print(module.name)
"""
    assert set(run(code).split()) == {
        "sumwire.blind.keys", "sumwire.start.lightning", "sumwire.start.trainer",
        "sumwire.top.command", "sumwire.top.picture", "sumwire.top.screen",
    }  # fmt: skip


@pytest.mark.timeout(600)
def test_without_mininet_only_the_nodes_cannot_be_imported() -> None:
    """So that unit tests run, and commands say what is missing, on a machine without Mininet."""
    code = """
import pkgutil, sys
sys.modules["mininet"] = None
import sumwire_lab
for module in pkgutil.walk_packages(sumwire_lab.__path__, "sumwire_lab."):
    try:
        __import__(module.name)
    except ImportError:
        print(module.name)
"""
    # ns-3 plays in an environment of its own.
    assert set(run(code).split()) == {"sumwire_lab.network.mininet_nodes", "sumwire_lab.experiments.other_ns3"}
