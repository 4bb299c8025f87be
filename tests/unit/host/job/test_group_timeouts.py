# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import cast

import pytest
from helpers.logs import lines_of
from sumwire.errors import ClosedError
from sumwire.job.control import Control
from sumwire.job.group_session import GroupTimeouts
from sumwire.job.session import AloneTimeouts
from sumwire_protocol.events import Event


class FakeControl:
    def __init__(self) -> None:
        self.paused: set[int] = set()
        self.stalled: list[bool] = []
        self.completed = 12
        self.place = {"job": 7, "worker": 0, "name": "digits"}

    def check_exchange(self, *, stalled: bool) -> None:
        self.stalled.append(stalled)

    def paused_workers(self) -> set[int]:
        return self.paused


@pytest.fixture
def control() -> FakeControl:
    return FakeControl()


@pytest.fixture
def timeout_policy(control: FakeControl) -> GroupTimeouts:
    return GroupTimeouts(cast(Control, control), "digits")


def test_who_is_waited_for_after_10_s_and_then_every_30_s(
    timeout_policy: GroupTimeouts, caplog: pytest.LogCaptureFixture
) -> None:
    for quarter in range(1, 4 * 75):
        timeout_policy.waiting(quarter / 4, (2, 1))
    lines = lines_of(caplog.records)
    assert [(line["event"], line["operation"], line["missing"]) for line in lines] == [
        (Event.WORKERS_AWAITED.word, 12, [1, 2])
    ] * 3
    texts = [record.getMessage() for record in caplog.records]
    assert ["has waited 10 s for workers [1, 2]" in text for text in texts] == [True, False, False]
    assert ["has waited 40 s" in text for text in texts] == [False, True, False]


def test_no_warning_for_workers_that_pause(
    timeout_policy: GroupTimeouts, control: FakeControl, caplog: pytest.LogCaptureFixture
) -> None:
    control.paused = {1, 2}
    timeout_policy.waiting(15.0, (2, 1))
    assert not caplog.records


def test_an_exchange_stalls_only_by_what_was_really_waited_for(
    timeout_policy: GroupTimeouts, control: FakeControl
) -> None:
    timeout_policy.waiting(60.0, None)
    for quarter in range(1, 19):
        timeout_policy.waiting(60 + quarter / 4, None)
    assert not any(control.stalled)
    timeout_policy.waiting(66.0, None)
    assert control.stalled[-1]
    timeout_policy.waiting(0.25, None)
    assert not control.stalled[-1], "a result has come"


def test_a_job_that_was_given_up_waits_no_longer() -> None:
    timeout_policy = AloneTimeouts("digits", 10.0)
    timeout_policy.waiting(1.0, None)
    timeout_policy.end()
    with pytest.raises(ClosedError, match="digits"):
        timeout_policy.waiting(1.25, None)
