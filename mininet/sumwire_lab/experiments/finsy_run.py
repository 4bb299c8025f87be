# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""finsy, a P4Runtime client, in an environment of its own: it needs a newer protobuf than the controller bears."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from softswitch.fuzz.p4runtime.target import Target, TargetError, folder

from sumwire_lab.errors import LabError
from sumwire_lab.study.experiment import Say

VERSION: Final = "0.30.0"
# As the programs of the checks have them.
DEVICE_ID: Final = 7
CPU_PORT: Final = 255
_SCRIPT: Final = Path(__file__).with_name("finsy_checks.py")
_CACHE: Final = Path(__file__).resolve().parents[3] / ".cache"
_INSTALL_S: Final = 600.0
_CHECKS_S: Final = 1800.0


class NoFinsyError(LabError):
    """finsy cannot be installed."""


class FinsyError(LabError):
    """The checks did not come to their end."""


def environment(say: Say) -> Path:
    """The Python of an environment with finsy, which is made the first time. Raises NoFinsyError."""
    home = _CACHE / f"finsy-{VERSION}-{sysconfig.get_python_version()}"
    python = home / "bin" / "python"
    ready = home / "ready"
    if ready.is_file():
        return python
    say(f"installing finsy {VERSION} into {home}")
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True, timeout=_INSTALL_S)
        install = [str(python), "-m", "pip", "install", "--quiet", f"finsy=={VERSION}"]
        subprocess.run(install, check=True, timeout=_INSTALL_S, capture_output=True, text=True)
    except (OSError, subprocess.SubprocessError) as error:
        told = str(getattr(error, "stderr", "") or error).strip().splitlines()[-1:]
        raise NoFinsyError(f"finsy {VERSION} cannot be installed from PyPI: {' '.join(told)}") from error
    ready.touch()
    return python


def checks(python: Path, programs: Sequence[Path], results: Path) -> dict[str, str]:
    """What came of each check against a soft switch: "ok", or what went wrong. Raises FinsyError."""
    with folder() as name, _switch(Path(name)) as target:
        command = [str(python), str(_SCRIPT), target.address, *map(str, programs)]
        done = subprocess.run(command, cwd=name, env={}, check=False, timeout=_CHECKS_S, capture_output=True, text=True)
        switch_log = target.log.read_text(errors="replace")
    (results / "finsy.log").write_text(f"{done.stderr}\n\nthe switch:\n{switch_log}")
    if done.returncode != 0:
        raise FinsyError(f"finsy's checks ended with status {done.returncode}: see {results / 'finsy.log'}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _switch(where: Path) -> Target:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    ports = ["--device-id", str(DEVICE_ID), "--cpu-port", str(CPU_PORT), "--insecure"]

    def command(at: str, _folder: Path) -> list[str]:
        return [sys.executable, "-m", "softswitch", "--no-p4", *ports, "--grpc-server-addr", at]

    try:
        return Target(command, address, where)
    except TargetError as error:
        raise FinsyError(str(error)) from error
