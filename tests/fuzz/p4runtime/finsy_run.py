# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of finsy, a P4Runtime client, against a soft switch.

``python -m fuzz.p4runtime.finsy_run VERSION LOG P4INFO...``. finsy has an environment of its own, because it needs a
newer protobuf than the controller bears. The last line is a JSON object: what came of each check, "ok" or what went
wrong; or under "absent" why finsy cannot be installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nativelib import programs
from sumwire_lab.network.switches import free_tcp_port
from sumwire_lab.system.environments import AbsentError, python_with

from fuzz.p4runtime.target import Target, TargetError, folder

# As the programs of the checks have them.
DEVICE_ID: Final = 7
CPU_PORT: Final = 255
_SCRIPT: Final = Path(__file__).with_name("finsy_checks.py")
_CHECKS_S: Final = 1800.0


class FinsyError(RuntimeError):
    """The checks did not come to their end."""


def checks(python: Path, programs: Sequence[Path], log: Path) -> dict[str, str]:
    """What came of each check against a soft switch: "ok", or what went wrong. Raises FinsyError."""
    with folder() as name, _switch(Path(name)) as target:
        command = [str(python), str(_SCRIPT), target.address, *map(str, programs)]
        done = subprocess.run(command, cwd=name, env={}, check=False, timeout=_CHECKS_S, capture_output=True, text=True)
        switch_log = target.log.read_text(errors="replace")
    log.write_text(f"{done.stderr}\n\nthe switch:\n{switch_log}")
    if done.returncode != 0:
        raise FinsyError(f"finsy's checks ended with status {done.returncode}: see {log}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _switch(where: Path) -> Target:
    address = f"127.0.0.1:{free_tcp_port()}"
    ports = ["--device-id", str(DEVICE_ID), "--cpu-port", str(CPU_PORT), "--insecure"]

    def command(at: str, _folder: Path) -> list[str]:
        return programs.module("softswitch", "--no-p4", *ports, "--grpc-server-addr", at)

    try:
        return Target(command, address, where)
    except TargetError as error:
        raise FinsyError(str(error)) from error


def main(version: str, log: str, *programs: str) -> None:
    try:
        found = checks(python_with("finsy", version), [Path(name) for name in programs], Path(log))
    except AbsentError as error:
        found = {"absent": str(error)}
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
