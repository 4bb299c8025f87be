# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The JSON lines that workers write, read during and after the training."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sumwire_lab.errors import LabError


@dataclass(frozen=True)
class StepRecord:
    """One step of one worker. `clock_s`: training time until its end, without tests and logging."""

    step: int
    loss: float | None
    """None for a step that the other workers completed without this one."""
    clock_s: float
    step_s: float
    comm_s: float
    tx_bytes: int
    rx_bytes: int
    accuracy: float | None
    """Test accuracy after the step; None if there was no test."""
    nmse: float | None = None
    codec_s: float | None = None
    """Seconds of encoding and decoding; None for a system that does not count them."""
    tx_header_bytes: int = 0
    """Of `tx_bytes`, those of Ethernet, IPv4, UDP, TCP and Sumwire headers."""
    rx_header_bytes: int = 0
    bits: float | None = None
    """Cross entropy of the test, in bits per answer."""
    followed: bool = False
    """Whether the other workers completed the step without this one, which took their results."""
    tensors: list[dict[str, Any]] = field(default_factory=list)
    """One record per tensor, with at least `bucket`, `values` and `seconds` from hand-over to result, and `at_s`, the
    hand-over by the machine's clock, where DDP hands them over."""
    at_s: float | None = None
    """When the step began, by the machine's clock, which all workers share."""
    forward_s: float | None = None
    """Seconds from the step's begin to the end of the forward pass."""
    backward_s: float | None = None
    """Seconds from the step's begin to the end of the backward pass, with the communication that DDP does in it."""


@dataclass
class WorkerRecord:
    """Everything that one worker has written so far."""

    rank: int = -1
    total_steps: int = 0
    parameters: int = 0
    steps: list[StepRecord] = field(default_factory=list)
    fingerprint: str | None = None
    """None until the worker has ended its training."""
    stats: dict[str, Any] = field(default_factory=dict)
    host_sockets: int = 0
    """Datagrams that the sockets of its host had no room for."""

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
    """Reads a worker's file while it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = WorkerRecord()
        self._offset = 0

    def poll(self) -> bool:
        """Read the lines added since the last call. Returns whether there were any. An incomplete line is left for
        later."""
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
