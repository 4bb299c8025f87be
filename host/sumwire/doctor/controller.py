# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Asks the controller about the switches, by `sumwire-controller status` in a process of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from nativelib import UntrustedError, programs

from sumwire.doctor.findings import Finding, bad, good, unknown

_PROGRAM: Final = "sumwire-controller"
_LIMIT_S: Final = 15.0
_CALL_S: Final = 2.0
_DIFFERENCES_SHOWN: Final = 3
_WORDS_MOST: Final = 600


class ControllerStatus:
    """A running `sumwire-controller status`, as a context manager. It runs while the host is examined.

    ``config``: the switches' YAML file. This host must be able to reach their P4Runtime servers. ``p4``: the compiled
    program, passed to the controller.
    """

    def __init__(self, config: Path, p4: Path | None) -> None:
        self._config = config
        program = _program()
        self._process: subprocess.Popen[str] | None = None
        if program:
            command = [*program, "status", str(config), "--json", "--timeout", str(_CALL_S)]
            command += ["--p4", str(p4)] if p4 else []
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=programs.environment()
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Stop the program, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def findings(self) -> Iterator[Finding]:
        """Return a finding for each switch, and for each job on it."""
        if self._process is None:
            yield unknown("entries", f"{_PROGRAM} is not installed here: pip install 'sumwire[controller]'")
            return
        try:
            told, wrong = self._process.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.end()
            yield bad(
                "entries", f"{_PROGRAM} status {self._config}: no end after {_LIMIT_S} s", "see its log: --verbose"
            )
            return
        try:
            switches = json.loads(told)
        except json.JSONDecodeError:
            said = " ".join(wrong.split())[-_WORDS_MOST:] or "it ends without a word"
            shown = "".join(letter if letter.isprintable() else "?" for letter in said)
            yield bad(
                "entries",
                f"{_PROGRAM} status: {shown}",
                f"`{_PROGRAM} apply {self._config}`, with the right --p4 DIR if any",
            )
            return
        for switch in switches if isinstance(switches, list) else [switches]:
            yield from _of_switch(switch, self._config)


def _program() -> list[str]:
    if importlib.util.find_spec("sumwire_controller") is not None:
        return programs.module("sumwire_controller.cli")
    with contextlib.suppress(FileNotFoundError, UntrustedError):
        return [programs.program(_PROGRAM)]
    return []


def _of_switch(switch: dict[str, Any], config: Path) -> Iterator[Finding]:
    name = switch["switch"]
    cure = f"bring them there: `{_PROGRAM} apply {config}`"
    if not switch["program_runs"]:
        yield bad("entries", f"{name} runs {switch['program'] or 'no program'}: it has no entries of ours", cure)
        return
    if switch["in_sync"]:
        yield good("entries", f"{name} has those of {config}")
    else:
        rows = switch["differences"]
        more = f" and {len(rows) - _DIFFERENCES_SHOWN} more" if len(rows) > _DIFFERENCES_SHOWN else ""
        yield bad("entries", f"{name} differs from {config}: {', '.join(rows[:_DIFFERENCES_SHOWN])}{more}", cure)
    for job in switch["jobs"]:
        yield good(
            "generation",
            f"{name}: job {job['id']} {job['name']} has generation {job['generation']}, quorum {job['quorum']}",
        )
    counted = {reason: cell["packets"] for reason, cell in switch["rejects"].items() if cell["packets"]}
    if counted:
        text = ", ".join(f"{count} {reason}" for reason, count in counted.items())
        yield good("rejects", f"{name} has refused so far: {text}")
