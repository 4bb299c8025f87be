# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Watching roots: the events and writes when one stops, hangs, is slow or comes back."""

from __future__ import annotations

import queue
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from helpers.controller.config_texts import star, text
from helpers.controller.fake_p4runtime import FakeServer, serving
from helpers.controller.real_switches import program
from helpers.controller.topology_texts import leaf_spine
from helpers.rights import assert_no_rights_left
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.watch import Watch, WatchEvent, below_redundant_roots
from sumwire_controller.derive.desired import uplinks
from sumwire_controller.derive.entries import TableEntry
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.errors import ConfigError, NothingToWatchError
from sumwire_controller.model import Config
from sumwire_controller.parse.files import parse_config, parse_topology

PROGRAM = Program.load()
PATIENCE_S = 30.0  # a dead switch refuses at once; one that lives may be slow on a busy machine
SHORT_PATIENCE_S = 1.0
LATE_S = 30.0  # a busy machine's; the promise is kept by tests/system/test_controller_watch.py
EVENT_S = 20.0


class Scene:
    """Leaves under spines, each switch a fake server; the leaves have the rows of the configuration."""

    def __init__(self, spines: int) -> None:
        self.names = [f"spine{k}" for k in range(1, spines + 1)] + ["leaf1", "leaf2"]
        self.fakes = {name: FakeServer() for name in self.names}
        self._running = {name: ExitStack() for name in self.names}
        self.heard: queue.Queue[WatchEvent] = queue.Queue()
        self.spines = spines

    def start(self, name: str) -> None:
        self._running[name].enter_context(serving(self.fakes[name]))

    def stop(self, name: str) -> None:
        self._running[name].close()

    def configs(self) -> tuple[Config, ...]:
        data = leaf_spine(2, 2, self.spines)
        for each in data["switches"]:
            each["grpc"] = self.fakes[each["name"]].address
        data["jobs"][0].update(lanes=2)
        return configs_of(parse_topology(text(data)))

    def fill(self) -> None:
        for config in below_redundant_roots(self.configs()):
            rows = [row for job in config.jobs for row in uplinks(job)]
            self.fakes[config.switch.name].rows = [PROGRAM.to_entity(row) for row in rows]

    def watch(self, **options: Any) -> Watch:
        options = {"interval_s": 0.05, "patience_s": PATIENCE_S, **options}
        return Watch(self.configs(), say=self.heard.put, **options)

    def next(self, *kinds: str) -> dict[str, WatchEvent]:
        """The next events, of these kinds in any order, by switch."""
        found = [self.heard.get(timeout=EVENT_S) for _ in kinds]
        assert sorted(event.kind for event in found) == sorted(kinds), list(map(str, found))
        return {event.switch: event for event in found}

    def uses(self, leaf: str) -> set[int]:
        """Numbers of the spines that a leaf's rows name."""
        rows = [PROGRAM.from_entity(row) for row in self.fakes[leaf].rows]
        assert len(rows) == 2 * self.spines
        return {row.arg("address") & 0xFF for row in rows if isinstance(row, TableEntry)}


@contextmanager
def scene(spines: int = 2) -> Iterator[Scene]:
    ready = Scene(spines)
    with ExitStack() as stack:
        for name in ready.names:
            ready.start(name)
            stack.callback(ready.stop, name)
        ready.fill()
        yield ready


def test_a_root_that_is_killed_is_left_out_by_every_leaf_and_by_the_same_rule() -> None:
    with scene(4) as net, net.watch() as watch:
        assert (watch.roots, watch.below) == (("spine1", "spine2", "spine3", "spine4"), ("leaf1", "leaf2"))
        assert watch.events == []
        net.stop("spine2")
        found = net.next("dead", "moved", "moved")
        assert set(found) == {"spine2", "leaf1", "leaf2"}
        assert found["leaf1"].detail == "2 rows changed to leave out spine2"
        assert all(event.after_s < LATE_S for event in found.values())
        assert net.uses("leaf1") == net.uses("leaf2") == {1, 3, 4}
        net.stop("spine4")
        assert set(net.next("dead", "moved", "moved")) == {"spine4", "leaf1", "leaf2"}
        assert net.uses("leaf1") == net.uses("leaf2") == {1, 3}
        assert len(watch.events) == 6


def test_a_root_that_is_silent_is_left_out() -> None:
    with scene() as net, net.watch(patience_s=SHORT_PATIENCE_S) as watch:
        net.fakes["spine1"].capabilities = "silent"
        found = net.next("dead", "moved", "moved")
        assert [event.kind for event in watch.events] == ["dead", "moved", "moved"]
        assert found["spine1"].after_s < found["leaf1"].after_s < LATE_S
        assert net.uses("leaf1") == net.uses("leaf2") == {2}


def test_a_root_that_answers_the_second_question_lives_and_a_refusal_is_an_answer() -> None:
    with scene() as net, net.watch(patience_s=SHORT_PATIENCE_S) as watch:
        net.fakes["spine1"].silent_once = True
        net.fakes["spine2"].capabilities = "refuse"
        asked = net.fakes["spine1"].questions, net.fakes["spine2"].questions
        while any(fake.questions < before + 5 for fake, before in zip(net.fakes.values(), asked, strict=False)):
            with pytest.raises(queue.Empty):
                net.heard.get(timeout=0.05)
        assert watch.events == []


def test_a_root_that_is_back_is_reported_and_not_used() -> None:
    with scene() as net, net.watch():
        net.stop("spine2")
        net.next("dead", "moved", "moved")
        net.start("spine2")
        back = net.next("back")["spine2"]
        assert "after the next apply" in back.detail
        assert net.uses("leaf1") == {1}
        # With no other left it is better than none.
        net.stop("spine1")
        net.next("dead", "moved", "moved")
        assert net.uses("leaf1") == net.uses("leaf2") == {2}


def test_with_no_root_left_the_rows_stay_and_it_is_said() -> None:
    with scene() as net, net.watch():
        net.stop("spine2")
        net.next("dead", "moved", "moved")
        net.stop("spine1")
        found = [net.heard.get(timeout=EVENT_S) for _ in range(7)]
        assert sorted(event.kind for event in found) == ["dead"] + ["moved"] * 2 + ["stranded"] * 4
        assert {event.detail for event in found if event.kind == "stranded"} == {
            "job digits/0 has no root left",
            "job digits/1 has no root left",
        }
        assert net.uses("leaf1") == {1}


def test_a_root_that_is_not_there_from_the_start() -> None:
    with scene() as net:
        net.stop("spine1")
        with net.watch() as watch:
            assert watch.events[0].kind == "dead"
            net.next("dead", "moved", "moved")
        assert net.uses("leaf1") == {2}


def test_a_leaf_that_refuses_is_asked_again_and_reported_once() -> None:
    with scene() as net, net.watch():
        net.fakes["leaf1"].write_code = grpc.StatusCode.RESOURCE_EXHAUSTED
        net.stop("spine2")
        found = net.next("dead", "moved", "failed")
        assert "RESOURCE_EXHAUSTED" in found["leaf1"].detail
        assert found["leaf2"].kind == "moved"
        sessions = len(net.fakes["leaf1"].election_ids)
        while len(net.fakes["leaf1"].election_ids) < sessions + 3:
            with pytest.raises(queue.Empty):
                net.heard.get(timeout=0.05)
        net.fakes["leaf1"].write_code = None
        assert set(net.next("moved")) == {"leaf1"}
        assert net.uses("leaf1") == {1}


@pytest.mark.root
def test_the_command_watches_without_roots_rights(tmp_path: Path) -> None:
    with scene() as ready:
        data = leaf_spine(2, 2, ready.spines)
        for each in data["switches"]:
            each["grpc"] = ready.fakes[each["name"]].address
        (tmp_path / "net.yaml").write_text(text(data))
        words = ["watch", str(tmp_path / "net.yaml"), "--user", "nobody"]
        with program("sumwire_controller.cli", *words) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("watching ")
            assert_no_rights_left(process.pid)
            ready.stop("spine1")
            assert re.match(r"spine1: dead after \d\.\d{3} s: no answer at ", process.stdout.readline())


def test_nothing_to_watch() -> None:
    with pytest.raises(NothingToWatchError, match="no job has several switches above"):
        Watch(configs_of(parse_topology(text(leaf_spine(2, 2, 1)))))
    with pytest.raises(NothingToWatchError):
        Watch([parse_config(text(star()))])
    configs = configs_of(parse_topology(text(leaf_spine(2, 2, 2))))
    with pytest.raises(ConfigError, match="no switch with this aggregator"):
        Watch(configs[1:])
