# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tutorials as their readers go through them: their blocks in order, and what a shell says to their commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from helpers.docs import pages
from helpers.docs.pages import Block
from helpers.paths import ROOT

FOLDER = ROOT / "docs" / "tutorials"
PACKAGES = ("protocol", "host", "controller", "switch", "mininet", "native", "common")
COMMANDS = {
    "sumwire": "sumwire.cli",
    "sumwire-controller": "sumwire_controller.cli",
    "sumwire-lab": "sumwire_lab.cli",
    "softswitch": "softswitch.cli",
    "softswitch-cli": "softswitch.cli_door",
    "torchrun": "torch.distributed.run",
}


def blocks_of(name: str) -> list[Block]:
    """All blocks of a tutorial, as they stand on its page."""
    return list(pages.blocks_of(FOLDER / name))


def files_of(name: str) -> dict[str, str]:
    """By path: what the page tells its reader to write into files."""
    text = (FOLDER / name).read_text()
    found = re.findall(
        r"rite (?:this file[^`]*, as )?`([^`]+)`[^`]*:\n\n```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE
    )
    return dict(found)


def bin_folder(folder: Path, checkout: Path = ROOT) -> Path:
    """A folder for PATH with Sumwire's commands and this Python, from a checkout and without an installation."""
    path = os.pathsep.join(str(checkout / package) for package in PACKAGES)
    folder.mkdir()
    scripts = {name: f"-m {module}" for name, module in COMMANDS.items()} | {"python": ""}
    for name, words in scripts.items():
        script = folder / name
        script.write_text(
            f'#!/bin/sh\nPYTHONPATH={path}${{PYTHONPATH:+:$PYTHONPATH}} exec {sys.executable} {words} "$@"\n'
        )
        script.chmod(0o755)
    return folder


def shell(text: str, folder: Path, commands: Path, *, patience_s: float = 300.0) -> str:
    """What a shell prints in ``folder``; AssertionError with it if a command fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{commands}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", text], cwd=folder, env=environment, text=True, timeout=patience_s, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}: {done.stdout[-3000:]}"
    return done.stdout


def pattern_of(printed: str) -> str:
    """What a page prints, with any numbers."""
    return re.sub(r"\d+(?:\.\d+)?", r"\\d+(?:\\.\\d+)?", re.sub(r"([.()\[\]+*?|])", r"\\\1", printed))
