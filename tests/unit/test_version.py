# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One version: every command and the package say the same, and every package says that it has types."""

from __future__ import annotations

from importlib import import_module
from importlib.resources import files

import pytest
import sumwire
from sumwire_protocol.version import __version__

COMMANDS = {
    "sumwire": "sumwire.cli",
    "sumwire-aggregator": "sumwire.aggregator.cli",
    "sumwire-controller": "sumwire_controller.cli",
    "sumwire-lab": "sumwire_lab.cli",
    "softswitch": "softswitch.cli",
}
PACKAGES = ("sumwire_protocol", "nativelib", "sumwire", "sumwire_controller", "softswitch", "sumwire_lab")


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
