# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire-controller watch` with soft switches in other processes, some of which are killed or suspended."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from helpers.controller.config_texts import text
from helpers.controller.real_switches import soft_switch
from helpers.controller.topology_texts import leaf_spine
from softswitch.switch import SoftSwitch
from sumwire_controller import Topology, apply_topology, configs_of, parse_topology, read_status
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.switch import P4Switch
from sumwire_controller.deploy.watch import PATIENCE_S
from sumwire_controller.derive.entries import UPLINK, TableEntry
from sumwire_controller.model import Switch

SPINES = 4
READY_S = 300.0
MOVED_S = 1.0
"""Within this time after a death every leaf must have moved the dead root's slots to the others."""
PATIENT_S = 3.0
"""On a busy machine a spine that lives may not answer for longer than a user's watch waits."""


class Lines:
    """The lines that a process prints. A thread reads them, so that waiting for a line can time out."""

    def __init__(self, stream: IO[str]) -> None:
        self._queue: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._queue.put(line)

    def next(self) -> str:
        return self._queue.get(timeout=READY_S)


@contextmanager
def command(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], Lines, Lines]]:
    """A Python module as a process, its output and its errors by line; ended with the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        yield process, Lines(process.stdout), Lines(process.stderr)
    finally:
        process.kill()
        process.wait()


@contextmanager
def spine(device_id: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A soft switch in a process of its own, and its address."""
    options = ("--no-p4", "--device-id", str(device_id), "--grpc-server-addr", "127.0.0.1:0", "--engine", "python")
    options += ("--insecure",)
    with command("softswitch.cli", *options) as (process, _, log):
        line = log.next()
        while "ready" not in line:
            line = log.next()
        yield process, f"127.0.0.1:{line.split('P4Runtime port ')[1].split(',')[0]}"


class Net:
    """Two leaves in this process under spines in others, with entries; a watch beside them."""

    def __init__(self, stack: ExitStack, folder: Path, patience_s: float) -> None:
        data = leaf_spine(2, 2, SPINES)
        data["jobs"][0].update(lanes=2, spray="hash")
        self.spines: dict[str, subprocess.Popen[str]] = {}
        for each in data["switches"]:
            if each["name"].startswith("spine"):
                self.spines[each["name"]], each["grpc"] = stack.enter_context(spine(each["device_id"]))
            else:
                each["grpc"] = stack.enter_context(soft_switch(SoftSwitch(engine="python"), each["device_id"]))
        self.topology: Topology = parse_topology(text(data))
        apply_topology(self.topology)
        self.program = Program.load()
        path = folder / "net.yaml"
        path.write_text(text(data))
        self.watch, self._events, errors = stack.enter_context(
            command("sumwire_controller.cli", "watch", str(path), "--json", "--patience", str(patience_s))
        )
        assert errors.next() == "watching spine1, spine2, spine3, spine4 for leaf1, leaf2\n"

    def event(self) -> dict[str, Any]:
        """The next one. A leaf that does not answer in time is written again."""
        while True:
            found: dict[str, Any] = json.loads(self._events.next())
            if found["kind"] != "failed":
                return found

    def leaves(self) -> list[Switch]:
        return [node.switch for node in self.topology.switches if node.name.startswith("leaf")]

    def uses(self) -> list[set[int]]:
        """For each leaf, the numbers of the spines that its rows name."""
        found = []
        for leaf in self.leaves():
            with P4Switch(leaf, read_only=True) as switch:
                rows = [row for row in switch.rows(self.program, UPLINK.name) if isinstance(row, TableEntry)]
            assert len(rows) == 2 * SPINES
            found.append({row.arg("address") & 0xFF for row in rows})
        return found

    def until_moved(self, gone: str) -> float:
        """Wait until no row of either leaf names a spine. Returns the seconds it took, from now."""
        start = time.monotonic()
        found = [self.event() for _ in range(3)]
        took = time.monotonic() - start
        assert [(event["kind"], event["switch"]) for event in found[:1]] == [("dead", gone)], found
        assert sorted((event["kind"], event["switch"]) for event in found[1:]) == [
            ("moved", "leaf1"),
            ("moved", "leaf2"),
        ]
        return took


@pytest.mark.parametrize(
    ("patience_s", "moved_s"), [(PATIENT_S, READY_S), pytest.param(PATIENCE_S, MOVED_S, marks=pytest.mark.long)]
)
def test_spines_that_are_killed_or_stopped_are_left_out(patience_s: float, moved_s: float, tmp_path: Path) -> None:
    """Within a second, if the machine has nothing else to do."""
    with ExitStack() as stack:
        check(Net(stack, tmp_path, patience_s), moved_s)


def check(net: Net, moved_s: float) -> None:
    assert net.uses() == [{1, 2, 3, 4}] * 2
    net.spines["spine2"].kill()
    assert net.until_moved("spine2") < moved_s
    assert net.uses() == [{1, 3, 4}] * 2
    net.spines["spine3"].send_signal(signal.SIGSTOP)
    assert net.until_moved("spine3") < moved_s
    assert net.uses() == [{1, 4}] * 2
    # A spine that is there again is reported, and used after the next apply only.
    net.spines["spine3"].send_signal(signal.SIGCONT)
    back = net.event()
    assert (back["kind"], back["switch"]) == ("back", "spine3")
    assert net.uses() == [{1, 4}] * 2
    # Nothing but the rows of the dead spines is changed.
    for config in configs_of(net.topology):
        if config.switch.name.startswith("leaf"):
            assert all(line.startswith("differs: uplink[") for line in read_status(config).differences)
    net.watch.terminate()
    assert net.watch.wait(READY_S) == 0
