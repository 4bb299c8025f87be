# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Greetings that are begun again and again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from helpers.logs import logged, of
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.errors import PeerLostError, StaleRunError, SwitchLostError
from sumwire.job import joining
from sumwire.transport.switch_answers import SwitchState
from sumwire_protocol import constants as p4
from sumwire_protocol.logs.events import Event


class OvertakenTransport:
    """Its switch always has a newer round than the greeting."""

    silence_s = 3.0
    newest_round = None

    def __init__(self, digest: int) -> None:
        self.round, self.digest, self.next_sequence = 0, digest, 0

    def hello(self, timeout_s: float) -> SwitchState:
        return SwitchState(self.round, 0, False, self.digest, p4.PROGRAM_REVISION, 1)

    def exchange(self, *_: Any) -> Any:
        self.round += joining.ROUNDS_APART
        raise StaleRunError("overtaken", slot=0, round_=self.round)

    def restart(self) -> None:
        """Nothing is under way."""

    def rebase(self, first_round: int) -> None:
        """No packet is sent."""

    def enter_run(self, token: int) -> None:
        """No packet is sent."""


class AnsweringTransport(OvertakenTransport):
    """Its switch answers once for every state, and its greetings are overtaken in the round of ``stale``."""

    def __init__(self, digest: int, states: list[tuple[int, int, bool]], stale: tuple[int, int] = (0, 0)) -> None:
        super().__init__(digest)
        self.states, self.stale = states, stale
        self.begun: list[int] = []

    def hello(self, timeout_s: float) -> SwitchState:
        if not self.states:
            raise PeerLostError("enough; start all workers again")
        round_, contributors, closed = self.states.pop(0)
        return SwitchState(round_, contributors, closed, self.digest, p4.PROGRAM_REVISION, 1)

    def rebase(self, first_round: int) -> None:
        self.begun.append(first_round)

    def exchange(self, *_: Any) -> Any:
        slot, round_ = self.stale
        raise StaleRunError("overtaken", slot=slot, round_=round_)


class Group:
    """The patience of a group that one rank leaves after three questions."""

    def __init__(self) -> None:
        self.asked = 0

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        self.asked += 1
        if self.asked == 3:
            raise PeerLostError("worker 1 has ended; start all workers again")

    def switch_lost(self, error: SwitchLostError) -> None:
        raise error


def test_a_worker_whose_greetings_are_always_overtaken_learns_that_another_has_gone() -> None:
    config = configs(job_mapping(2, 8))[0]
    with logged() as lines, pytest.raises(PeerLostError):
        joining.join(OvertakenTransport(config.digest), config, {}, patience=Group())  # type: ignore[arg-type]
    assert [line["round"] for line in of(lines, Event.GREETING_REPEATED)] == [
        0,
        joining.ROUNDS_APART,
        2 * joining.ROUNDS_APART,
    ]


LAST = 2**32 - 16


@pytest.mark.parametrize(
    ("round_", "contributors", "closed", "first"),
    [
        (0, 0, False, 0),  # nobody has used it
        (48, 0b10, False, 48),  # worker 1 waits there
        (48, 0b01, False, 64),  # a packet of this worker's earlier process does
        (48, 0b11, True, 64),
        (57, 0b11, True, 80),
        (57, 0b10, False, 80),  # worker 1 was killed in the middle of a run
        (LAST, 0b11, True, 0),
        (LAST + 1, 0b11, True, 16),
    ],
)
def test_a_run_begins_in_a_multiple_of_16_rounds(round_: int, contributors: int, closed: bool, first: int) -> None:
    config = configs(job_mapping(2, 8))[0]
    transport = AnsweringTransport(config.digest, [(round_, contributors, closed)])
    with pytest.raises(PeerLostError):
        joining.join(transport, config, {}, patience=Group())  # type: ignore[arg-type]
    assert transport.begun == [first]


@pytest.mark.parametrize(("stale", "first"), [((0, 32), 32), ((0, 35), 64), ((3, 33), 16)])
def test_so_does_one_that_has_been_overtaken(stale: tuple[int, int], first: int) -> None:
    """The answer to the second question was sent before."""
    config = configs(job_mapping(2, 8))[0]
    transport = AnsweringTransport(config.digest, [(0, 0, False), (0, 0b01, False)], stale)
    with pytest.raises(PeerLostError):
        joining.join(transport, config, {}, patience=Group())  # type: ignore[arg-type]
    assert transport.begun == [0, first]
