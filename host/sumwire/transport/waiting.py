# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a waiting exchange does: it asks the switch for its state, and the timeout policy whether to go on.

Six times in the transport's ``silence_s``, by default every half second, without a new result, the worker sends two
packets without payload: a HELLO about slot 0, and a PROBE about its oldest open chunk. The answers show:

* Who is missing in that chunk's sum.
* Whether another run of the job has begun: slot 0 is then in a later round than this run can reach.
* Whether the path's MTU is too small: the short packets are answered, but the switch never has this worker's
  contribution, or this worker never gets an existing result. Several copies of the packet are sent before the worker
  concludes this.
* In a job with a key, whether a REFUSED is genuine. It has no authentication tag, so anybody on the path may have
  forged it. It is believed if, after as many packets as for a small MTU, no answer with a tag confirms that the switch
  has this worker's contribution. In a tree the switch may have it, and the refusal come from the switch above. Such a
  refusal is believed only after the deadline, so that a forged one cannot end a run early.

No answer to six such pairs in a row means that the switch is lost. Only time that the worker really waited counts: a
worker that was stopped for a minute has asked once in that time.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from sumwire_protocol import constants as p4

from sumwire.errors import DeadlineError, StaleRunError, SwitchLostError
from sumwire.transport.buffers import Buffers
from sumwire.transport.connection import TICKS, Connection
from sumwire.transport.options import DeadlinePassedError, TimeoutPolicy
from sumwire.transport.retransmission import SendKind
from sumwire.transport.switch_answers import (
    SwitchState,
    check_switch,
    forgotten_run,
    other_call,
    refused,
    silence,
    too_narrow,
)
from sumwire.wire.packets import ROUNDS, Place, round_newer

# Ticks from one question to the switch to the next.
_ASK_EVERY: Final = 2
# The switch is lost when so many questions in a row have no answer.
SILENT_PROBES: Final = TICKS // _ASK_EVERY
# The path is too narrow when so many answers in a row say that a whole packet is needed. From the second of them on,
# copies of it are sent.
_NARROW_PROBES: Final = 6
_COPIES_FROM: Final = 2
_COPIES: Final = 4
# A refusal is believed when it comes again after so many seconds: the configuration may just be written.
REFUSED_AGAIN_S: Final = 0.4
# With a quorum below the workers: how long a worker asks the others for a greeting's result, before the rounds that
# slots have reached mean a newer greeting. All are asked several times in it.
GREETING_RECOVERED_S: Final = 1.0
# Reasons that mean that the switch does not know this worker's run, and those that are believed at once.
_FORGOTTEN: Final = (p4.REJECT_TOKEN, p4.REJECT_ROUND)
_AT_ONCE: Final = (p4.REJECT_CALL, *_FORGOTTEN)


class Waiting:
    """The waiting of one exchange. ``next_at``: when :meth:`check` next has something to do, in seconds of the
    connection's clock.

    ``next_run``: in a handshake, the first round that only another run can have reached.
    """

    def __init__(
        self, connection: Connection, buffers: Buffers, timeout_policy: TimeoutPolicy, next_run: int | None = None
    ) -> None:
        self._connection = connection
        self._window = connection.window
        self._buffers = buffers
        self._timeout_policy = timeout_policy
        self._next_run = next_run
        self._tick_s = connection.tick_s
        self.next_at = self._window.progress_at + self._tick_s
        self._missing: tuple[int, ...] | None = None
        self._refused_at: float | None = None
        # In a job with a key: the latest refusal since the last question (place, op and reason), and whether an answer
        # to that question has shown that the switch has what this worker sends. And the latest reason in this wait.
        self._refusal: tuple[Place, int, int] | None = None
        self._told: int | None = None
        self._proven = False
        self._rest()

    def check(self, now: float) -> None:
        """Ask the switch and the timeout policy if no result has come for long.

        Raises the errors of the timeout policy. The times of :meth:`TimeoutPolicy.waiting` are those of the
        connection's clock.
        """
        progress_at = self._window.progress_at
        waited_s = now - progress_at
        if progress_at != self._waits_from:
            self._rest()
        if waited_s < self._tick_s:
            self.next_at = progress_at + self._tick_s
            return
        stopped = now - self.next_at > self._tick_s
        self.next_at = now + self._tick_s
        self._ticks += 1
        if self._ticks % _ASK_EVERY == 0:
            self._judge(waited_s, stopped=stopped)
            self._ask()
        try:
            self._timeout_policy.waiting(waited_s, self._missing)
        except (DeadlinePassedError, DeadlineError):
            if self._told not in (None, *_AT_ONCE) and not self._window.had_results:
                raise refused(self._connection.config, self._told) from None
            raise

    def hello(self, state: SwitchState) -> None:
        """Process the answer to a HELLO. Raises StaleRunError if another run has begun, MismatchError if the switch has
        another configuration."""
        check_switch(self._connection.config, state)
        if (state.contributors > 0 or state.closed) and self._is_past(state.round):
            raise self._other_run(0, state.round)

    def stale(self, slot: int, round_: int) -> None:
        """Process a STALE: a switch uses ``slot`` for ``round_``. Raises StaleRunError if this shows a newer handshake.

        A handshake that has been overtaken must begin again, even where results of a run could be recovered. But with a
        quorum below the workers, the others may only be ahead in this run: see :meth:`_may_be_left_behind`.
        """
        if self._next_run is not None and self._is_past(round_):
            raise self._other_run(slot, round_)

    def _is_past(self, round_: int) -> bool:
        """Whether a slot is where this run cannot be: others can be one round ahead of what this worker has sent, and
        with early closing by any number."""
        if self._next_run is not None:
            return not round_newer(self._next_run, round_) and not self._may_be_left_behind()
        return not self._window.options.early_closing and round_newer(round_, (self._window.newest_round + 1) % ROUNDS)

    def _may_be_left_behind(self) -> bool:
        """Whether the round may be one of the run that this worker greets in. Where a quorum closes slots the others go
        on without it. They keep the greeting's results too, and give them when asked.
        """
        if not self._window.options.quorum_below_workers:
            return False
        return self._connection.clock() - self._window.progress_at < GREETING_RECOVERED_S

    def _other_run(self, slot: int, round_: int) -> StaleRunError:
        return StaleRunError(
            f"job {self._connection.config.job}: another run of the job has begun: slot {slot} is in round {round_}, "
            f"this worker in round {self._window.newest_round}; was a worker restarted? Then start all workers again",
            slot=slot,
            round_=round_,
        )

    def informed(self, inform: Any) -> None:
        """Process the answer to a PROBE: the header of an INFORM about this exchange's op."""
        config, window = self._connection.config, self._window
        oldest = window.oldest()
        if (int(inform["slot"]), int(inform["round"])) != window.place(oldest):
            return
        contributors, closed = int(inform["contributors"]), bool(int(inform["flags"]) & p4.FLAG_CLOSED)
        missing = tuple(worker for seat, worker in sorted(config.seats.items()) if not contributors >> seat & 1)
        # In a tree nothing is known of workers at other switches.
        known = missing or closed or len(config.seats) == config.workers
        self._missing = (() if closed else missing) if known else None
        inside = bool(contributors >> config.seat & 1)
        if inside:
            # What was refused before was a copy that the network had changed.
            self._refused_at = None
        # Nothing that this worker sends is refused by its own switch.
        sent = window.contributes and oldest < window.filled
        self._proven = self._proven or closed or inside or not sent
        self._needed = closed or (window.contributes and not inside)

    def refused(self, record: Any) -> bool:
        """Process a refusal. Returns False if the refused packet did not belong to this exchange.

        Raises OrderError if other workers make another call. If the switch does not know this worker's run, the switch
        is lost. Any other reason that persists is a RefusedError before the job's first result; after it, the switch is
        lost. In a job with a key :meth:`check` raises these, once the refusal is believed.
        """
        config, window, buffers = self._connection.config, self._window, self._buffers
        reason, op, bucket = int(record["count"]), int(record["op"]), int(record["bucket"])
        slot, round_ = int(record["slot"]), int(record["round"])
        own_call = (op, bucket, int(record["token"])) == (buffers.op, buffers.bucket, buffers.token)
        if op != p4.OP_NONE and not (own_call and window.waits_for(slot, round_)):
            return False
        now = self._connection.clock()
        if config.key is not None:
            self._refusal, self._told = ((slot, round_), op, reason), reason
        elif reason in _AT_ONCE or (self._refused_at is not None and now - self._refused_at >= REFUSED_AGAIN_S):
            self._refused_at = None
            self._believe((slot, round_), op, reason, now - window.progress_at)
        elif self._refused_at is None:
            self._refused_at = now
        return True

    def _believe(self, place: Place, op: int, reason: int, waited_s: float) -> None:
        """The switch does refuse what this worker sends. Raises as :meth:`refused`."""
        config = self._connection.config
        if reason == p4.REJECT_CALL:
            raise other_call(config, *place, op)
        if reason in _FORGOTTEN:
            self._timeout_policy.switch_lost(forgotten_run(config, *place, waited_s))
            return
        error = refused(config, reason)
        if not self._window.had_results:
            raise error
        self._timeout_policy.switch_lost(self._lost(str(error), waited_s))

    def _rest(self) -> None:
        """A result has come: a wait begins anew."""
        self._waits_from = self._window.progress_at
        self._ticks = 0
        self._unanswered = 0
        self._narrow = 0
        self._needed = False
        self._asked = False
        self._heard = 0
        self._missing = None
        self._refusal, self._told, self._proven = None, None, False

    def _judge(self, waited_s: float, *, stopped: bool) -> None:
        """What became of the last question. ``stopped``: this process did not run while it should have waited."""
        connection = self._connection
        if not self._asked or stopped:
            return
        if connection.stats.packets_received == self._heard:
            self._unanswered += 1
            self._narrow = 0
        else:
            self._unanswered = 0
            vain = self._needed or (self._refusal is not None and not self._proven)
            self._narrow = self._narrow + 1 if vain else 0
        if self._unanswered >= SILENT_PROBES:
            text = silence(connection.config, waited_s, self._unanswered, connection.link.last_failure)
            self._unanswered = 0
            self._timeout_policy.switch_lost(self._lost(text, waited_s))
        elif self._narrow >= _NARROW_PROBES:
            self._narrow = 0
            if self._refusal is not None:
                self._believe(*self._refusal, waited_s)
            else:
                self._timeout_policy.switch_lost(self._lost(too_narrow(connection.config), waited_s))

    def _ask(self) -> None:
        connection, buffers, oldest = self._connection, self._buffers, self._window.oldest()
        link, tos = connection.link, buffers.protected_tos(oldest)
        self._asked, self._needed = True, False
        self._refusal, self._proven = None, False
        self._heard = connection.stats.packets_received
        connection.say_hello()
        link.send_one(buffers.probe(oldest), tos)
        self._window.counters.probes += 1
        if self._narrow >= _COPIES_FROM and self._window.contributes and oldest < self._window.filled:
            buffers.prepare(np.array([oldest]), SendKind.RESEND, 0)
            for _ in range(_COPIES):
                link.send_one(buffers.contribution(oldest), tos)

    def _lost(self, text: str, waited_s: float) -> SwitchLostError:
        window = self._window
        chunk = window.oldest()
        slot, round_ = window.place(chunk)
        return SwitchLostError(
            text,
            job=self._connection.config.job,
            slot=slot,
            round_=round_,
            chunk=chunk,
            open_chunks=window.open_chunks,
            waited_s=waited_s,
        )
