# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Waiting until a process that serves others is ready: it accepts connections, or says so in its log."""

from __future__ import annotations

import select
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

from sumwire_lab.errors import DeadlineError, ProcessDiedError
from sumwire_lab.system.processes import last_lines, watch_fd

# On a busy machine a switch needs many times the second that it takes else. A process that ends is seen at once.
READY_SECONDS: Final = 120.0
_PROBE_SECONDS: Final = 0.05


def wait_listening(process: subprocess.Popen[bytes], address: str, log: Path, seconds: float = READY_SECONDS) -> None:
    """Return once `address`, "unix:PATH", accepts connections.

    Raises ProcessDiedError with the last lines of the log if the process ends first, DeadlineError after `seconds`.
    """
    deadline = time.monotonic() + seconds
    with watch_fd(process.pid) as fd:
        while time.monotonic() < deadline:
            try:
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(address.removeprefix("unix:"))
                    return
            except OSError:
                pass  # not ready: wait for the next probe, or for the process to end
            if select.select([fd], [], [], _PROBE_SECONDS)[0]:
                raise ProcessDiedError(f"the switch ended with {process.wait()}; {log} ends:\n{last_lines(log)}")
    raise DeadlineError(f"the switch does not listen on {address} after {seconds} s; {log} ends:\n{last_lines(log)}")


def wait_said(process: subprocess.Popen[bytes], beginning: str, log: Path, seconds: float = READY_SECONDS) -> None:
    """Return once a line of `log` starts with `beginning`.

    Raises ProcessDiedError with the last lines of the log if the process ends first, DeadlineError after `seconds`.
    """
    deadline = time.monotonic() + seconds
    with watch_fd(process.pid) as fd:
        while not any(line.startswith(beginning) for line in log.read_text().splitlines()):
            if select.select([fd], [], [], _PROBE_SECONDS)[0]:
                raise ProcessDiedError(f"{log.stem} ended with {process.wait()}; {log} ends:\n{last_lines(log)}")
            if time.monotonic() > deadline:
                raise DeadlineError(f"{log.stem} is not ready after {seconds} s; {log} ends:\n{last_lines(log)}")
