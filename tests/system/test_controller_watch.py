# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire-controller watch` with soft switches in other processes, some of which are killed or suspended."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from helpers.controller.config_texts import text
from helpers.controller.real_switches import program, soft_switch, soft_switch_process
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


class Net:
    """Two leaves in this process under spines in others, with entries; a watch beside them."""

    def __init__(self, stack: ExitStack, folder: Path, patience_s: float) -> None:
        data = leaf_spine(2, 2, SPINES)
        data["jobs"][0].update(lanes=2, spray="hash")
        self.spines: dict[str, subprocess.Popen[str]] = {}
        for each in data["switches"]:
            if each["name"].startswith("spine"):
                self.spines[each["name"]], each["grpc"] = stack.enter_context(soft_switch_process(each["device_id"]))
            else:
                each["grpc"] = stack.enter_context(soft_switch(SoftSwitch(engine="python"), each["device_id"]))
        self.topology: Topology = parse_topology(text(data))
        apply_topology(self.topology)
        self.program = Program.load()
        path = folder / "net.yaml"
        path.write_text(text(data))
        words = ("watch", str(path), "--json", "--patience", str(patience_s))
        self.watch = stack.enter_context(program("sumwire_controller.cli", *words))
        assert self.watch.stderr is not None
        assert self.watch.stderr.readline() == "watching spine1, spine2, spine3, spine4 for leaf1, leaf2\n"

    def event(self) -> dict[str, Any]:
        """The next one. A leaf that does not answer in time is written again."""
        assert self.watch.stdout is not None
        while True:
            found: dict[str, Any] = json.loads(self.watch.stdout.readline())
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
