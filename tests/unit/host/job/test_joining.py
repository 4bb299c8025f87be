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
from sumwire.transport.hello import SwitchState
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
