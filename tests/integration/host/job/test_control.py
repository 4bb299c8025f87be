# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The control thread on real gloo ranks: ranks that are killed, stopped or interrupted, and a switch that returns."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commonlib.events import ProgramEvent
from golden import model
from helpers.gloo import control_cases
from helpers.gloo.ranks import Ranks
from helpers.logs import of
from helpers.transport.udp_bridge import SILENCE_S, Bridge, golden_switch, job_mapping
from helpers.waiting import until
from sumwire_protocol.events import Event


class Outage:
    """A switch that hears nothing from a certain datagram on, until it was asked by HELLO alone ``hellos`` times in a
    row: then no exchange is under way any more."""

    def __init__(self, begin: Callable[[int], bool], hellos: int) -> None:
        self.begin = begin
        self.hellos = hellos
        self.state = "before"
        self.heard = 0

    def __call__(self, number: int, datagram: bytes) -> bool:
        if self.state == "before" and self.begin(number):
            self.state = "silent"
        if self.state != "silent":
            return False
        self.heard = self.heard + 1 if model.decode(datagram).op == 0 else 0
        if self.heard == self.hellos:
            self.state = "after"
        return True


RANKS = 3


@pytest.fixture
def mortal_ranks(tmp_path: Path) -> Iterator[Ranks]:
    """Of one test, which kills one."""
    with Ranks(RANKS, tmp_path) as started:
        yield started


def assert_equal(outcomes: list[dict[str, Any]]) -> None:
    for outcome in outcomes:
        assert outcome["error"] == ""
        assert outcome["results"] == outcomes[0]["results"]


# -- fall-back and return ------------------------------------------------------------------------------


def test_fall_back_and_return(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    with Bridge(mapping, golden_switch(mapping), deaf=Outage(lambda number: number > 60, 2 * RANKS)):
        outcomes = ranks.run(control_cases.until_returned, mapping, 3, {})
    assert_equal(outcomes)
    for outcome in outcomes:
        assert [change.kind for change in outcome["changes"]] == ["fallback", "return"]
        assert outcome["changes"] == outcomes[0]["changes"]
        fallen, returned = outcome["changes"]
        assert "worker" in fallen.reason
        assert outcome["stats"]["fallback_operations"] == returned.operation - fallen.operation > 0
        assert (outcome["stats"]["fallbacks"], outcome["stats"]["returns"]) == (1, 1)
    for worker, outcome in enumerate(outcomes):
        lines = outcome["lines"]
        assert {(line["job"], line["worker"]) for line in lines} == {(mapping["job"], worker)}
        told = [line["event"] for line in lines if line["event"] != ProgramEvent.THREAD_FAILED.word]
        assert told == [
            event.word
            for event in (
                Event.JOB_OPENED, Event.RUN_JOINED, Event.FALLEN_BACK, Event.RETURNED, Event.RUN_JOINED,
                Event.JOB_CLOSED,
            )
        ]  # fmt: skip
        assert [line["again"] for line in of(lines, Event.RUN_JOINED)] == [False, True]
        assert of(lines, Event.FALLEN_BACK)[0]["operation"] == fallen.operation
        (closed,) = of(lines, Event.JOB_CLOSED)
        assert (closed["operations"], closed["reason"]) == (len(outcome["results"]), None)
        # The test's callback raises at each change.
        assert ["RuntimeError" in line["traceback"] for line in of(lines, ProgramEvent.THREAD_FAILED)] == [True, True]


def test_a_switch_that_comes_back_with_another_job_is_told_once(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    other = golden_switch(mapping, digest=1)
    outage = Outage(lambda number: number > 60, 2 * RANKS)
    with Bridge(mapping, golden_switch(mapping), deaf=outage) as bridge:
        ranks.begin(control_cases.until_returned, mapping, 3, {})
        until(lambda: outage.state == "silent")
        right, bridge.switch = bridge.switch, other
        until(lambda: outage.state == "after")
        heard = bridge.heard
        until(lambda: bridge.heard > heard + 3 * RANKS)
        bridge.switch = right
        outcomes = ranks.outcomes()
    assert_equal(outcomes)
    for outcome in outcomes:
        (line,) = of(outcome["lines"], Event.SWITCH_UNFIT)
        assert "job file" in line["reason"]


def test_one_worker_loses_its_path(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    victim = mapping["addresses"][1]["ip"]
    with Bridge(mapping, golden_switch(mapping)) as bridge:
        outage = Outage(lambda number: number > 60, hellos=3)
        bridge.deaf = lambda number, datagram: bridge.seen[-1][0] == victim and outage(number, datagram)
        outcomes = ranks.run(control_cases.until_returned, mapping, 3, {})
    assert_equal(outcomes)
    assert [change.kind for change in outcomes[2]["changes"]] == ["fallback", "return"]
    assert outcomes[2]["changes"][0].reason.startswith("worker 1: ")


def test_without_fall_back_a_lost_switch_is_an_error_on_all(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    with Bridge(mapping, golden_switch(mapping), deaf=lambda number, _: number > 60):
        outcomes = ranks.run(control_cases.fixed_operations, mapping, 50, {"fallback": "never"})
    for outcome in outcomes:
        assert outcome["error"].startswith("SwitchLostError: ")
        assert outcome["error"] == outcomes[0]["error"] == outcome["again"]


def test_no_switch_at_the_start_is_the_same_error_on_all(ranks: Ranks) -> None:
    outcomes = ranks.run(control_cases.fixed_operations, job_mapping(RANKS, 8), 2, {})
    for outcome in outcomes:
        assert outcome["error"].startswith("SwitchLostError: ")
        assert f"6 questions in {SILENCE_S} s" in outcome["error"]
        assert outcome["error"] == outcomes[0]["error"] == outcome["again"]


def test_a_worker_without_a_socket_is_the_same_error_on_all(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    with Bridge(mapping, golden_switch(mapping)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((mapping["addresses"][1]["ip"], mapping["addresses"][1]["udp_port"]))
        outcomes = ranks.run(control_cases.fixed_operations, mapping, 2, {})
    for outcome in outcomes:
        assert outcome["error"].startswith("JobBusyError: ")
        assert outcome["error"] == outcomes[0]["error"]


# -- ranks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [False, True], ids=["through the switch", "during the fall-back"])
def test_a_killed_rank_is_an_error_on_the_others(mortal_ranks: Ranks, silent: bool) -> None:
    mapping = job_mapping(RANKS, 8)
    with Bridge(mapping, golden_switch(mapping), deaf=lambda number, _: silent and number > 60) as bridge:
        mortal_ranks.begin(control_cases.fixed_operations, mapping, 10**9, {})
        hello = Outage(lambda _: True, 2 * RANKS)
        if silent:
            until(lambda: any(hello(0, datagram) for _, datagram in [*bridge.seen]) and hello.state == "after", 30)
        else:
            until(lambda: bridge.heard > 100, 30)
        mortal_ranks.signal(1, signal.SIGKILL)
        outcomes = mortal_ranks.outcomes(without=1)
    for outcome in outcomes:
        assert outcome["error"].startswith("PeerLostError: ")
        assert "start the training on every worker again" in outcome["error"]
        assert outcome["again"] == outcome["error"]
        # At once, from the group that has broken, and agreed by those that are left.
        assert of(outcome["lines"], Event.WORKER_LOST)
        (failed,) = of(outcome["lines"], Event.JOB_FAILED)
        assert (failed["error"], f"PeerLostError: {failed['reason']}") == ("PeerLostError", outcome["error"])
    shortest = min(len(outcome["results"]) for outcome in outcomes)
    assert outcomes[0]["results"][:shortest] == outcomes[1]["results"][:shortest]


def test_a_stopped_rank_is_waited_for(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    hellos = 0

    def listen(_: int, datagram: bytes) -> bool:
        nonlocal hellos
        hellos += model.decode(datagram).op == 0
        return False

    with Bridge(mapping, golden_switch(mapping), deaf=listen) as bridge:
        ranks.begin(control_cases.fixed_operations, mapping, 100, {})
        until(lambda: bridge.heard > 100, 30)
        ranks.signal(1, signal.SIGSTOP)
        before = hellos
        # Twelve questions of each: a switch is lost after six without an answer, an exchange stalled after ten.
        until(lambda: hellos > before + 24, 30)
        ranks.signal(1, signal.SIGCONT)
        outcomes = ranks.outcomes()
    assert_equal(outcomes)
    assert [outcome["stats"]["fallbacks"] for outcome in outcomes] == [0] * RANKS


def test_ctrl_c_ends_one_rank_and_then_the_others(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    interrupted, withheld = (mapping["addresses"][worker]["ip"] for worker in (1, 2))
    asks = False

    def withhold(number: int, datagram: bytes) -> bool:
        """Worker 2's contributions, so that no operation ends and the signal meets one."""
        nonlocal asks
        if number <= 100:
            return False
        sender, question = bridge.seen[-1][0], model.decode(datagram).op == 0
        asks = asks or (question and sender == interrupted)
        return sender == withheld and not question

    with Bridge(mapping, golden_switch(mapping), deaf=withhold) as bridge:
        ranks.begin(control_cases.fixed_operations, mapping, 10**9, {})
        until(lambda: asks, 30)
        ranks.signal(1, signal.SIGINT)
        ended, others = (outcomes := ranks.outcomes()).pop(1), outcomes
    assert ended["error"] == "KeyboardInterrupt: "
    assert ended["again"].startswith("InterruptedJobError: ")
    for outcome in others:
        assert outcome["error"].startswith("PeerLostError: job test: worker 1 has left: ")
        assert "KeyboardInterrupt" in outcome["error"]


def test_a_job_that_is_closed_after_an_error_leaves_nobody_hanging(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    with Bridge(mapping, golden_switch(mapping)):
        first, *others = ranks.run(control_cases.close_in_the_middle, mapping)
    assert first == ["ClosedError"]
    for errors in others:
        assert errors[0].startswith("PeerLostError: job test: worker 0 has left")


def test_a_forked_child_keeps_no_port_of_the_job(ranks: Ranks) -> None:
    """As a DataLoader's workers, which live on for a while when their rank is killed."""
    mapping = {**job_mapping(RANKS, 8), "quorum": RANKS - 1}
    with Bridge(mapping, golden_switch(mapping)):
        assert ranks.run(control_cases.ports_beside_a_child, mapping) == [[]] * RANKS


# -- calls that differ ---------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [False, True], ids=["through the switch", "during the fall-back"])
@pytest.mark.parametrize(
    "by_rank", [[2000, 6000, 2000], [0, 2000, 2000], [2000, 0, 0]], ids=["lengths", "one is empty", "one is not"]
)
def test_calls_that_differ_are_refused_on_all_ranks(ranks: Ranks, silent: bool, by_rank: list[int]) -> None:
    mapping = job_mapping(RANKS, 8)
    with Bridge(mapping, golden_switch(mapping), deaf=lambda *_: silent):
        texts = ranks.run(control_cases.lengths, mapping, by_rank, {"fallback": "always"})
        assert ranks.run(control_cases.lengths, mapping, [0] * RANKS, {"fallback": "always"}) == [""] * RANKS
    for text in texts:
        assert text == texts[0]
        assert text.startswith("OrderError: ")
        assert all(f"mean by thc of {length} values, bucket 3" in text for length in by_rank)


# -- before there is a job -----------------------------------------------------------------------------


def test_a_rank_that_cannot_make_its_job_is_named_to_the_others(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    with Bridge(mapping, golden_switch(mapping)):
        for _ in range(2):
            own, *others = ranks.run(control_cases.without_a_job, mapping, "raises")
            assert own.startswith("ConfigError: job test: deadline_s = 0")
            for text in others:
                assert text.startswith("PeerLostError: job test: rank 0 cannot take part: ConfigError: job test: dead")
                assert text.endswith("; mend that, then start all workers again")
        # Nothing of it is left in the group.
        assert_equal(ranks.run(control_cases.fixed_operations, mapping, 3, {}))


def test_a_rank_that_ends_before_its_job_is_named_to_the_others(mortal_ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    mortal_ranks.begin(control_cases.without_a_job, mapping, "ends")
    for text in mortal_ranks.outcomes(without=0):
        # Gloo's words are "Connection closed by peer" or "Read error", with an address.
        assert text.startswith("PeerLostError: job test: ranks [0] did not come to make the job (")
        assert "127.0.0.1" in text and "GLHF" not in text
        assert text.endswith("); see the log there, then start the training on every worker again")


def test_a_rank_that_raises_and_ends_before_the_others_come_is_named_with_its_reason(mortal_ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    mortal_ranks.begin(control_cases.without_a_job, mapping, "raises and ends")
    for text in mortal_ranks.outcomes(without=0):
        assert text.startswith("PeerLostError: job test: rank 0 cannot take part: ConfigError: job test: deadline_s")


def test_who_has_not_come_is_named_after_10_s(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    with Bridge(mapping, golden_switch(mapping)):
        waited, *_ = ranks.run(control_cases.late_job, mapping)
    (line,) = waited
    assert (line["event"], line["ranks"], line["name"]) == (Event.RANKS_AWAITED.word, [2], "test")
    assert line["message"] == "job test: waits 10 s for ranks [2] to make it"
