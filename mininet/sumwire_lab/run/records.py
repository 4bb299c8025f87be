# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The JSON lines that workers write, read while they grow and after the end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sumwire_lab.errors import LabError


@dataclass(frozen=True)
class StepRecord:
    """One step of one worker; `clock_s` is the training time up to its end, without what only observes."""

    step: int
    loss: float | None
    """None for a step that was taken from the others."""
    clock_s: float
    step_s: float
    comm_s: float
    tx_bytes: int
    rx_bytes: int
    accuracy: float | None
    """Of the test after the step; None where it was not looked at."""
    nmse: float | None = None
    tx_packets: int = 0
    rx_packets: int = 0
    bits: float | None = None
    """The test's cross entropy, bits an answer."""
    followed: bool = False
    """Made without this worker, which took its results."""
    tensors: list[dict[str, Any]] = field(default_factory=list)
    """One for each: at least `bucket`, `values` and `seconds`, from its hand-over to its result."""


@dataclass
class WorkerRecord:
    """Everything one worker has written so far."""

    rank: int = -1
    total_steps: int = 0
    parameters: int = 0
    steps: list[StepRecord] = field(default_factory=list)
    fingerprint: str | None = None
    """None until the worker has ended its training."""
    stats: dict[str, Any] = field(default_factory=dict)
    host_sockets: int = 0
    """Datagrams that its host's sockets had no room for."""

    def take(self, line: str) -> None:
        """Add one line. Raises LabError for a line of unknown kind."""
        raw = json.loads(line)
        kind = raw.pop("kind")
        if kind == "start":
            self.rank, self.total_steps, self.parameters = raw["rank"], raw["steps"], raw["parameters"]
        elif kind == "step":
            self.steps.append(StepRecord(**raw))
        elif kind == "end":
            self.fingerprint, self.stats = raw["fingerprint"], raw["stats"]
            self.host_sockets = raw.get("host_sockets", 0)
        else:
            raise LabError(f"a worker wrote a line of unknown kind {kind!r}")


class Follower:
    """Reads the lines that have been added to a file since the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = WorkerRecord()
        self._offset = 0

    def poll(self) -> bool:
        """Take what is new; returns whether there was something. A line half written waits for its end."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                fresh = file.read()
        except FileNotFoundError:
            return False
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode().splitlines():
            self.record.take(line)
        return bool(whole)
