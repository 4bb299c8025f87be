# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""After the deadline: ask the switch which workers are missing.

The oldest open chunk is sent once more with FLUSH, which closes its slot whoever has contributed. If the switch still
works, it then sends all workers an incomplete result (flag INCOMPLETE), whose header says who is in it. No worker takes
an incomplete result for a sum: all of them raise DeadlineError with the missing workers.

Example: 4 workers, and worker 2 has crashed. After the deadline worker 0 flushes chunk 5. All three remaining workers
receive an incomplete result with the contributors {0, 1, 3}, and raise DeadlineError with missing = (2,).
"""

from __future__ import annotations

from typing import Final

from sumwire.errors import DeadlineError, SwitchLostError
from sumwire.transport.buffers import Buffers
from sumwire.transport.connection import Connection
from sumwire.transport.receiving import Receiver
from sumwire.transport.switch_errors import silence

# How often, and how long each time.
_QUESTIONS: Final = 3
_ANSWER_S: Final = 0.2


def ask_who_is_missing(connection: Connection, buffers: Buffers, receiver: Receiver, error: DeadlineError) -> None:
    """Returns if a new result arrives after all, so that the exchange continues. Raises ``error`` with details, or the
    DeadlineError of an incomplete result."""
    window, link, catch_up = connection.window, connection.link, connection.catch_up
    if not window.contributes:
        raise error.with_detail("this worker only waits for what the others do")
    if catch_up is not None and (lost := catch_up.recovery.missing):
        raise error.with_detail(
            f"no other worker gave the results of {lost} chunks, which the switch has no more: the others ended, or "
            "another run of the job has begun"
        )
    open_chunks = window.open_chunks
    question, tos = buffers.closing_flush(error.chunk), buffers.protected_tos(error.chunk)
    for _ in range(_QUESTIONS):
        link.send_one(question, tos)
        until = connection.clock() + _ANSWER_S
        while (left_ms := int((until - connection.clock()) * 1000)) > 0:
            link.wait(left_ms, room=False)
            receiver.discard_late_answers()
            receiver.recover()
            receiver.receive()
            if window.open_chunks < open_chunks:
                return
    raise SwitchLostError(
        silence(connection.config, error.waited_s, _QUESTIONS, link.last_failure),
        job=error.job,
        slot=error.slot,
        round_=error.round,
        chunk=error.chunk,
        open_chunks=error.open_chunks,
        waited_s=error.waited_s,
    )
