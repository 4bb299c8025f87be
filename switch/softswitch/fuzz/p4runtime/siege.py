# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a switch answers other callers, and how its memory grows, while a crowd besieges it."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from nativelib import programs
from p4.v1 import p4runtime_pb2

from softswitch.fuzz.p4runtime.client import Client, Outcome
from softswitch.fuzz.p4runtime.elections import Elections, with_id
from softswitch.fuzz.p4runtime.model import name_of
from softswitch.fuzz.p4runtime.target import DEVICE_ID, Target, TargetError, folder, soft

#: How many callers of each kind.
CROWD_SIZES = {"half-open": 1000, "silent": 1000, "wide-reads": 30}
_PROBES = 5
_PROBE_S = 60.0

Json = dict[str, Any]


def besiege(config: Any, engine: str = "auto") -> Json:
    """``answers_s``: the slowest answer to other callers, by what the crowd did. Raises TargetError."""
    with folder() as name, soft(Path(name), engine) as target, closing(Client(target.address)) as client:
        elections = Elections([client], DEVICE_ID, 1, random.Random(1), _refused)
        elections.settle()
        election_id = elections.primary_id
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=DEVICE_ID, config=config, action=3)
        _require_ok(client.set_pipeline(with_id(request, election_id)))
        answers = {"nothing": _slowest(target, client, election_id)}
        before = most = target.resident_kib()
        for kind, count in CROWD_SIZES.items():
            with _crowd(kind, target.address, count):
                answers[f"{count} {kind}"] = _slowest(target, client, election_id)
                most = max(most, target.resident_kib())
        elections.leave_all()
    return {"answers_s": answers, "grown_mib": round((most - before) / 1024, 1)}


def _refused(what: str, how: str) -> None:
    raise TargetError(f"{what}: {how}; see the switch's log")


def _require_ok(outcome: Outcome) -> None:
    if outcome.code:
        _refused(name_of(outcome.code), outcome.text)


@contextmanager
def _crowd(kind: str, address: str, count: int) -> Iterator[None]:
    command = programs.module("softswitch.fuzz.p4runtime.crowd", kind, address, str(DEVICE_ID), str(count))
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        ExitStack() as end,
    ):
        end.callback(process.kill)
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise TargetError(f"the crowd {kind} did not come; see its error above")
        yield


def _slowest(target: Target, primary: Client, election_id: int | None) -> float:
    """Seconds that a call took at most: Capabilities and a read of all tables, each time of a caller that has just
    come, and a write."""
    read = p4runtime_pb2.ReadRequest(device_id=DEVICE_ID)
    read.entities.add().table_entry.SetInParent()
    write = with_id(p4runtime_pb2.WriteRequest(device_id=DEVICE_ID), election_id).SerializeToString()
    slowest = 0.0
    for _ in range(_PROBES):
        with closing(Client(target.address)) as client:
            calls: tuple[Callable[[], Outcome], ...] = (
                lambda: client.capabilities(_PROBE_S),
                lambda: client.read(read.SerializeToString(), _PROBE_S),
                lambda: primary.write(write),
            )
            for call in calls:
                started = time.monotonic()
                _require_ok(call())
                slowest = max(slowest, time.monotonic() - started)
    return round(slowest, 3)
