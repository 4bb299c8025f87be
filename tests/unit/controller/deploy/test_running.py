# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs that have run are changed only on demand, and what would change is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from helpers.controller.config_texts import job, star, text
from helpers.controller.fake_switch import FakeSwitch
from helpers.controller.topology_texts import leaf_spine, tree_job
from sumwire_controller import cli
from sumwire_controller.deploy import operations
from sumwire_controller.deploy.operations import Report, bring_about, bring_all_about
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.derive.desired import upper_first
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.errors import JobChange, RunningJobsError
from sumwire_controller.parse.files import parse_config, parse_topology

NOW = 1_800_000_000
PROGRAM = Program.load()
A = job("a", 1, 4, 0, 256, "thc max32")
B = job("b", 2, 2, 256, 64)
Change = dict[str, Any]


def bring(switch: FakeSwitch, *jobs: dict[str, Any], now: int = NOW, **options: Any) -> Report:
    options.setdefault("renew", ())
    return bring_about(parse_config(text(star(4, jobs=list(jobs)))), switch, PROGRAM, now=now, **options)


def ran() -> FakeSwitch:
    """A switch with jobs a and b, of which a has run."""
    switch = FakeSwitch()
    bring(switch, A, B)
    switch.packets = {(1, 0): 70, (1, 3): 7}
    return switch


def refused(switch: FakeSwitch, *jobs: dict[str, Any], **options: Any) -> tuple[JobChange, ...]:
    """Checks that nothing was written."""
    before = dict(switch.held)
    with pytest.raises(RunningJobsError) as caught:
        bring(switch, *jobs, now=NOW + 9, **options)
    assert switch.held == before
    assert not caught.value.retryable
    return caught.value.changes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"thc": {"bits": 4, "p": 0.03125, "table": list(range(16))}}, ("thc table",)),
        ({"quorum": 3}, ("quorum 4 -> 3",)),
        ({"workers_min": 2}, ("workers_min all -> 2",)),
        ({"slots": {"base": 0, "count": 128}}, ("slots 0..255 -> 0..127",)),
        ({"slots": {"base": 512, "count": 256}}, ("slots 0..255 -> 512..767",)),
        ({"workers": ["h1", "h2", "h3"]}, ("workers", "quorum 4 -> 3")),
        ({"ops": ["thc"]}, ("ops",)),
        ({"workers": ["h1", "h2", "h4", "h3"]}, ("workers",)),
        ({"ops": ["thc", "max32", "sum32"]}, ("ops",)),
        ({"degrade": {"seed": 1, "share": 0.5, "mode": "drop"}}, ("degrade",)),
        ({"quorum": 2, "thc": {"bits": 4, "p": 0.03125, "table": list(range(16))}}, ("thc table", "quorum 4 -> 2")),
    ],
    ids=str,
)
def test_what_would_change_is_said_and_nothing_is_written(change: Change, words: tuple[str, ...]) -> None:
    switch = ran()
    (found,) = refused(switch, {**A, **change}, B)
    *differs, generation = found.differs
    assert (found.switch, found.job, found.name, found.packets) == ("s1", 1, "a", 77)
    assert generation == f"generation {NOW} -> {NOW + 9}"
    assert set(words) <= set(differs)
    assert bring(switch, {**A, **change}, B, now=NOW + 9, force=True).generations["a"] == NOW + 9


def test_a_job_that_would_leave() -> None:
    switch = ran()
    (found,) = refused(switch, B)
    assert str(found) == "switch s1: job 1, 77 packets: would leave"
    bring(switch, B, force=True)
    assert ("job", (1,)) not in switch.held


def test_the_message_ends_with_the_command() -> None:
    switch = ran()
    with pytest.raises(RunningJobsError) as caught:
        bring(switch, {**A, "quorum": 1}, B, now=NOW + 9)
    first, line, last = str(caught.value).splitlines()
    assert first == "would change jobs that have run, and end their runs:"
    assert line.startswith("  switch s1: job a (1), 77 packets: ")
    assert last == "Nothing was written. Do it with sumwire-controller apply CONFIG --force"


def no_rows_of_a(switch: FakeSwitch) -> list[Change]:
    """Everything, a included, leaves the switch, as if it had been started again."""
    switch.held.clear()
    switch.packets.clear()
    return [A, B]


@pytest.mark.parametrize(
    "ask",
    [
        lambda switch: [A, B],
        lambda switch: [A, B, job("c", 3, 3, 512, 8)],
        lambda switch: [A],
        lambda switch: [A, {**B, "quorum": 1}],
        no_rows_of_a,
    ],
    ids=["the same", "one more", "an unused one leaves", "an unused one changes", "a fresh switch"],
)
def test_what_needs_no_force(ask: Callable[[FakeSwitch], list[Change]]) -> None:
    switch = ran()
    jobs = ask(switch)
    admitted = switch.held.get(("job", (1,)))
    bring(switch, *jobs, now=NOW + 9)
    assert admitted in (None, switch.held["job", (1,)])


def test_a_job_that_is_admitted_again_has_not_run() -> None:
    switch = ran()
    bring(switch, {**A, "quorum": 3}, B, force=True)
    assert switch.packets == {}
    bring(switch, {**A, "quorum": 2}, B)


def test_renew_is_a_wish_for_its_job_alone() -> None:
    switch = ran()
    switch.packets[2, 0] = 5
    assert bring(switch, A, B, now=NOW + 9, renew=["a"]).generations["a"] == NOW + 9
    switch.packets[1, 0] = 70
    (found,) = refused(switch, {**A, "quorum": 3}, {**B, "quorum": 1}, renew=["a"])
    assert found.name == "b"
    bring(switch, {**A, "quorum": 3}, B, renew=["a"])


def test_lanes_are_renewed_by_the_name_of_their_job() -> None:
    switch = FakeSwitch()
    laned = {**A, "lanes": 2}
    bring(switch, laned)
    switch.packets = {(1, 0): 1, (2, 0): 1}
    assert [found.name for found in refused(switch, {**laned, "quorum": 3})] == ["a/0", "a/1"]
    bring(switch, {**laned, "quorum": 3}, renew=["a"])


def test_another_program_is_not_replaced_under_jobs_that_have_run() -> None:
    switch = ran()
    switch.running, switch.other = False, "sumwire 0.0.9"
    switch.packets[9, 0] = 3
    found = refused(switch, A, B)
    assert list(map(str, found)) == [
        "switch s1: job a (1), 77 packets: program sumwire 0.0.9 would be replaced",
        "switch s1: job 9, 3 packets: program sumwire 0.0.9 would be replaced",
    ]
    assert switch.pushes == 0
    assert bring(switch, A, B, force=True).program_loaded


def test_another_program_without_such_jobs_is_replaced() -> None:
    switch = FakeSwitch(running=False)
    switch.other = "basic 1"
    assert bring(switch, A, B).program_loaded


# -- trees ----------------------------------------------------------------------------------------------

ALL = tree_job("all", 1, [1, 2, 3, 4], 0, 16, "thc max32")


class Tree:
    """Two leaves and two spines with the job `all`, which has run."""

    def __init__(self) -> None:
        self.switches: dict[str, FakeSwitch] = {}
        self.bring(ALL)
        for switch in self.switches.values():
            switch.packets = {(1, 0): 5}

    def bring(self, *jobs: dict[str, Any], now: int = NOW, force: bool = False) -> tuple[Report, ...]:
        configs = upper_first(configs_of(parse_topology(text({**leaf_spine(2, 2, 2), "jobs": list(jobs)}))))
        targets = [(config, self.switches.setdefault(config.switch.name, FakeSwitch())) for config in configs]
        return bring_all_about(targets, PROGRAM, (), now, force=force)


def test_a_change_is_listed_at_every_switch_of_the_tree() -> None:
    tree = Tree()
    with pytest.raises(RunningJobsError) as caught:
        tree.bring({**ALL, "slots": {"base": 0, "count": 32}}, now=NOW + 9)
    assert [(found.switch, found.differs[0]) for found in caught.value.changes] == [
        (name, "slots 0..15 -> 0..31") for name in ("spine1", "spine2", "leaf1", "leaf2")
    ]


def test_a_job_that_has_run_at_one_switch_has_run_at_all() -> None:
    tree = Tree()
    for name in ("spine1", "spine2", "leaf1"):
        tree.switches[name].packets.clear()
    with pytest.raises(RunningJobsError, match="switch spine1: job 1, 0 packets: would leave"):
        tree.bring()


def test_a_tree_that_lost_a_switch_is_made_whole() -> None:
    tree = Tree()
    tree.switches["spine1"] = FakeSwitch(running=False)
    reports = tree.bring(ALL, now=NOW + 9)
    assert {report.generations["all"] for report in reports} == {NOW + 9}


# -- the command ----------------------------------------------------------------------------------------


def test_the_command_names_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    path = tmp_path / "two words.yaml"
    path.write_text(text(star()))

    def run(configs: object, **options: Any) -> tuple[Report, ...]:
        if not options["force"]:
            raise RunningJobsError([JobChange("s1", 1, "digits", 5, ("quorum 4 -> 3",))])
        return ()

    monkeypatch.setattr(operations, "apply_all", run)
    assert cli.main(["apply", str(path), "--timeout", "3"]) == 1
    assert capsys.readouterr().err.endswith(f"Do it with sumwire-controller apply '{path}' --timeout 3 --force\n")
    assert cli.main(["apply", str(path), "--timeout", "3", "--force"]) == 0
