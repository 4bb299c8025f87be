# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The state that all exchanges of one transport share, and HELLO between exchanges: the worker asks for slot 0, and
waits for the switch's answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.errors import RefusedError
from sumwire.transport.link import Link
from sumwire.transport.recovery import CatchUp
from sumwire.transport.stats import JobStats
from sumwire.transport.switch_answers import SwitchState, hello_packet, is_hello_answer, refused, state_of
from sumwire.transport.window import Window
from sumwire.wire.batch import Pace
from sumwire.wire.packets import HEADER_BYTES, first_byte

# The time-out policy is asked so often before the switch counts as lost.
TICKS: Final = 12


@dataclass(frozen=True)
class Connection:
    """The state shared by a transport's exchanges. ``catch_up``: None if slots close only with all workers. ``clock``:
    a monotonic clock, in seconds. ``silence_s``: see TransportOptions."""

    config: JobConfig
    stats: JobStats
    link: Link
    window: Window
    catch_up: CatchUp | None
    clock: Callable[[], float]
    silence_s: float
    pace: Pace = field(default_factory=Pace)

    @cached_property
    def tick_s(self) -> float:
        """Seconds without a new result after which the timeout policy is called, and again after each further such
        time."""
        return self.silence_s / TICKS

    @cached_property
    def closing_contributions(self) -> int:
        """The number of contributions that close a slot at this worker's switch: the quorum, or in a tree all workers
        there."""
        config = self.config
        return config.quorum if len(config.seats) == config.workers else len(config.seats)

    def say_hello(self) -> None:
        """Ask the switch for its configuration and slot 0. The answer comes like any datagram."""
        self.link.asked_at = self.clock()
        self.window.counters.probes += 1
        self.link.send_one(hello_packet(self.config), None)

    @property
    def next_sequence(self) -> int:
        """Sequence number of the first chunk that no exchange has used."""
        return self.window.base + self.window.chunks


_REFUSED: Final = first_byte(p4.KIND_REFUSED)
# Seconds after which a question is asked again.
_AGAIN_S: Final = 0.1
# So many refusals are believed in a job with a key: a single one may be that of a copy that the network has changed.
_REFUSALS_WITH_KEY: Final = 2


def say_hello(connection: Connection, timeout_s: float) -> SwitchState | None:
    """Return the state of slot 0 at the switch; None if it does not answer in time.

    A refusal is only raised, as RefusedError, if the switch still refuses at the end of that time, because its
    configuration may be being written. Results that arrive meanwhile for later exchanges are kept.
    """
    ask_at, refusals = connection.clock(), list[RefusedError]()
    until = ask_at + timeout_s
    while (now := connection.clock()) < until:
        if now >= ask_at:
            connection.say_hello()
            ask_at = now + _AGAIN_S
        left_s = min(ask_at, until) - now
        if not connection.link.wait(int(left_s * 1000) + 1, room=False):
            # Another worker's late answer ends the wait at once for as long as it is unread.
            if connection.catch_up is not None:
                connection.catch_up.recovery.discard()
            continue
        count = connection.link.receive()
        answer = _answer(connection, count)
        if isinstance(answer, SwitchState):
            return answer
        refusals += [] if answer is None else [answer]
    if len(refusals) >= (1 if connection.config.key is None else _REFUSALS_WITH_KEY):
        raise refusals[-1]
    return None


def _answer(connection: Connection, count: int) -> SwitchState | RefusedError | None:
    """The latest answer among the datagrams that have just been received."""
    config, link = connection.config, connection.link
    records, sizes = link.records[:count], link.sizes[:count]
    if connection.catch_up is not None:
        connection.catch_up.ahead.put(connection.next_sequence, records, link.received[:count], sizes)
    answer: SwitchState | RefusedError | None = None
    for record, size in zip(records, sizes.tolist(), strict=True):
        if is_hello_answer(config, size, record):
            answer = state_of(record)
        elif _is_refusal(config.job, size, record):
            answer = refused(config, int(record["count"]))
    return answer


def _is_refusal(job: int, size: int, record: Any) -> bool:
    """Whether this is the switch's refusal of a HELLO."""
    kind = (int(record["version_kind"]), int(record["op"]), int(record["job"]))
    return size == HEADER_BYTES and kind == (_REFUSED, p4.OP_NONE, job)
