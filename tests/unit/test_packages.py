# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the packages have in common: one version, types, and a place in every list of source folders."""

from __future__ import annotations

import tomllib
from importlib import import_module
from importlib.resources import files

import pytest
import sumwire
from commonlib.version import __version__
from helpers.paths import ROOT

COMMANDS = {
    "sumwire": "sumwire.cli",
    "sumwire-aggregator": "sumwire.aggregator.cli",
    "sumwire-controller": "sumwire_controller.cli",
    "sumwire-lab": "sumwire_lab.cli",
    "softswitch": "softswitch.cli",
}
PACKAGES = ("commonlib", "sumwire_protocol", "nativelib", "sumwire", "sumwire_controller", "softswitch", "sumwire_lab")


def test_the_package_has_the_version() -> None:
    assert sumwire.__version__ == __version__


@pytest.mark.parametrize(("command", "module"), COMMANDS.items())
def test_every_command_says_the_version(command: str, module: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        import_module(module).main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{command} {__version__}\n"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_has_types(package: str) -> None:
    assert (files(package) / "py.typed").is_file()


def test_every_list_of_source_folders_has_all_of_them() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    folders = set(tools["setuptools"]["packages"]["find"]["where"])
    assert folders == {path.parents[1].name for path in ROOT.glob("*/*/py.typed")}
    assert folders | {"tests"} == set(tools["pytest"]["ini_options"]["pythonpath"])
    assert folders | {"tests"} == set(tools["mypy"]["mypy_path"].split(":"))
    # The simulator and the fuzzers are programs of the checkout's alone.
    assert set(tools["mypy"]["packages"]) == {*PACKAGES, "simulate", "fuzz"}
