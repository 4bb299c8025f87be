# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which refusals are believed and when, and the time-out policy of a worker that knows nothing of the others."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.errors import DeadlineError, OrderError, RefusedError, SwitchLostError
from sumwire.transport.connection import Connection, say_hello
from sumwire.transport.options import Alone, DeadlinePassedError
from sumwire.transport.switch_answers import ForgottenRunError
from sumwire.transport.waiting import Waiting
from sumwire.wire.packets import HEADER_BYTES, Header, headers, pack
from sumwire_protocol import constants as p4


class Link:
    """One datagram at each look: REFUSED at the looks given, and otherwise what is for another job."""

    last_failure = None

    def __init__(self, refused_at: set[int], job: int) -> None:
        self.refused_at, self.job = refused_at, job
        self.looks = itertools.count(1)
        self.sizes = np.array([HEADER_BYTES])

    def wait(self, timeout_ms: int, *, room: bool) -> bool:
        return True

    def receive(self) -> int:
        other_job = 0 if next(self.looks) in self.refused_at else 1
        header = Header(p4.KIND_REFUSED, p4.OP_NONE, self.job + other_job, slot=0, worker=0, count=p4.REJECT_COUNT)
        self.received = np.frombuffer(pack(header), np.uint8)[None]
        self.records = headers(self.received)
        return 1


def asked(refused_at: set[int], key: bytes | None) -> Any:
    config = replace(configs(job_mapping(2, 4))[0], key=key)
    ticks = itertools.count()
    connection = SimpleNamespace(
        config=config,
        clock=lambda: next(ticks) / 20,
        link=Link(refused_at, config.job),
        catch_up=None,
        say_hello=lambda: None,
    )
    return say_hello(cast(Connection, connection), 0.5)


def test_one_refusal_is_believed_without_a_key() -> None:
    with pytest.raises(RefusedError, match="COUNT"):
        asked({3}, None)


def test_with_a_key_a_single_refusal_may_be_that_of_a_changed_copy() -> None:
    assert asked({3}, bytes(32)) is None
    with pytest.raises(RefusedError, match="COUNT"):
        asked({2, 4}, bytes(32))


class Links:
    """Takes what is sent."""

    last_failure = None

    def send_one(self, datagram: bytes, tos: int) -> None:
        assert (datagram, tos) == (b"probe", 8)


GREETING_ENDED = DeadlineError(job=7, slot=2, round_=3, chunk=0, open_chunks=1, waited_s=30.0)
REFUSAL = {"count": p4.REJECT_WORDS, "op": p4.OP_THC, "bucket": 5, "token": 6, "slot": 2, "round": 3}


class Waiter:
    """A worker of seat 1 of 2 that waits since 0 s for chunk 0, in slot 2 and round 3."""

    def __init__(self, key: bytes | None, workers: int = 2) -> None:
        self.now = 0.0
        self.window = SimpleNamespace(
            progress_at=0.0,
            contributes=True,
            had_results=False,
            filled=1,
            oldest=lambda: 0,
            place=lambda _: (2, 3),
            waits_for=lambda *_: True,
            counters=SimpleNamespace(probes=0),
        )
        config = replace(configs(job_mapping(2, 4))[1], key=key, workers=workers)
        self.stats = SimpleNamespace(packets_received=0)
        connection = SimpleNamespace(
            config=config,
            window=self.window,
            clock=lambda: self.now,
            tick_s=0.25,
            link=Links(),
            stats=self.stats,
            say_hello=lambda: None,
        )
        buffers = SimpleNamespace(
            op=p4.OP_THC,
            bucket=5,
            token=6,
            probe=lambda _: b"probe",
            protected_tos=lambda _: 8,
            prepare=lambda *_: None,
            contribution=lambda _: b"probe",
        )
        timeout_policy = SimpleNamespace(waiting=lambda *_: None)
        self.waiting = Waiting(cast(Connection, connection), cast(Any, buffers), cast(Any, timeout_policy))

    def until(self, end_s: float) -> None:
        while self.now < end_s:
            self.now += 0.25
            self.waiting.check(self.now)

    def refuse(self, **fields: int) -> None:
        self.stats.packets_received += 1
        assert self.waiting.refused({**REFUSAL, **fields})

    def inform(self, contributors: int, flags: int = 0) -> None:
        self.stats.packets_received += 1
        self.waiting.informed({"slot": 2, "round": 3, "contributors": contributors, "flags": flags})


def refused_twice(informed: int | None) -> None:
    """At 1.0 s and at 1.5 s; an answer in between says who is in the slot."""
    waiter = Waiter(key=None)
    waiter.now = 1.0
    waiter.refuse()
    if informed is not None:
        waiter.inform(informed)
    waiter.now = 1.5
    waiter.refuse()


def test_a_refusal_is_forgotten_once_the_contribution_is_in() -> None:
    refused_twice(0b10)


@pytest.mark.parametrize("informed", [None, 0b01])
def test_a_refusal_that_comes_again_is_believed(informed: int | None) -> None:
    with pytest.raises(RefusedError, match="WORDS"):
        refused_twice(informed)


@pytest.mark.parametrize("reason", [p4.REJECT_WORDS, p4.REJECT_CALL, p4.REJECT_TOKEN])
def test_with_a_key_refusals_count_for_nothing_while_the_contribution_is_in(reason: int) -> None:
    waiter = Waiter(bytes(32))
    for step in range(1, 100):
        waiter.until(0.25 * step)
        waiter.refuse(count=reason)
        waiter.inform(0b10)
        waiter.refuse(count=reason)


@pytest.mark.parametrize("informed", [None, 0b00])
@pytest.mark.parametrize(
    ("reason", "error"),
    [(p4.REJECT_WORDS, RefusedError), (p4.REJECT_CALL, OrderError), (p4.REJECT_TOKEN, ForgottenRunError)],
)
def test_with_a_key_a_refusal_is_believed_after_six_questions(
    informed: int | None, reason: int, error: type[Exception]
) -> None:
    """Where the switch has nothing of this worker, whether it answers the questions or not."""
    waiter = Waiter(bytes(32))

    def lost(error: Exception) -> None:
        raise error

    waiter.waiting._timeout_policy = cast(Any, SimpleNamespace(waiting=lambda *_: None, switch_lost=lost))
    with pytest.raises(error):
        for step in range(1, 20):
            waiter.until(0.25 * step)
            if informed is not None:
                waiter.inform(informed)
            waiter.refuse(count=reason)
    assert waiter.now == 3.5


def test_with_a_key_a_single_refusal_is_not_believed() -> None:
    waiter = Waiter(bytes(32))
    waiter.until(0.5)
    waiter.refuse()
    for step in range(3, 40):
        waiter.until(0.25 * step)
        # Answers about another slot say nothing of this one, and show that the switch is there.
        waiter.stats.packets_received += 1


@pytest.mark.parametrize("reason", [p4.REJECT_WORDS, p4.REJECT_TOKEN, p4.REJECT_CALL])
@pytest.mark.parametrize("ended", [DeadlinePassedError(), GREETING_ENDED], ids=["in a run", "in a greeting"])
def test_with_a_key_refusals_where_the_slot_waits_for_the_switch_above_end_nothing_before_the_deadline(
    reason: int, ended: Exception
) -> None:
    """A lower switch answers questions, whatever becomes of its partial result. Then the reason is told."""
    waiter = Waiter(bytes(32), workers=4)

    def wait(waited_s: float, missing: object) -> None:
        if waited_s >= 10.0:
            raise ended

    waiter.waiting._timeout_policy = cast(Any, SimpleNamespace(waiting=wait))
    with pytest.raises(RefusedError if reason == p4.REJECT_WORDS else type(ended)):
        for step in range(1, 100):
            waiter.until(0.25 * step)
            waiter.inform(0b11)
            waiter.refuse(count=reason)
    assert waiter.now == 10.0


def test_with_a_key_a_deadline_after_results_is_no_refusal() -> None:
    waiter = Waiter(bytes(32), workers=4)
    waiter.window.had_results = True
    waiter.until(1.0)
    waiter.inform(0b11)
    waiter.refuse()
    waiter.waiting._timeout_policy = Alone(2.0)
    with pytest.raises(DeadlinePassedError):
        waiter.until(3.0)


def test_alone_waits_until_its_deadline_and_not_for_a_lost_switch() -> None:
    alone, error = Alone(10.0), SwitchLostError("gone", job=7)
    alone.waiting(9.99, None)
    alone.waiting(9.99, [1, 2])
    with pytest.raises(DeadlinePassedError):
        alone.waiting(10.0, [1])
    with pytest.raises(SwitchLostError, match="gone") as caught:
        alone.switch_lost(error)
    assert caught.value is error
