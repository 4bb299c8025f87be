# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""HELLO: a question about a slot whatever its round, whose answer also says what the switch knows of the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.wire.header import HEADER_BYTES, Header, pack
from sumwire.wire.packets import chunks_of, first_byte

_INFORM: Final = first_byte(p4.KIND_INFORM)
_HALF_BITS: Final = 16


@dataclass(frozen=True)
class SwitchState:
    """What a switch answers to a HELLO about slot 0.

    ``round``: the slot's. ``contributors``: bitmap of the seats at this worker's switch that are in it; 0 for a slot
    that nobody has used. ``closed``: its result is made. ``digest``: of the job's configuration at the switch, 0 if it
    knows none (:func:`sumwire_protocol.digest.job_digest`). ``revision``: of the switch's program. ``generation``:
    of the job's entries; another one once the switch has forgotten its slots.
    """

    round: int
    contributors: int
    closed: bool
    digest: int
    revision: int
    generation: int


def hello_packet(config: JobConfig) -> NDArray[np.uint8]:
    """The HELLO of a worker about slot 0, uint8 (32,)."""
    header = Header(p4.KIND_PROBE, p4.OP_NONE, config.job, slot=0, worker=config.seat)
    return np.frombuffer(pack(header), np.uint8)


def is_hello_answer(config: JobConfig, size: int, record: Any) -> bool:
    """Whether a received datagram, of ``size`` bytes and with this header, answers this worker's HELLO."""
    mine = (int(record["job"]), int(record["worker"]), int(record["slot"])) == (config.job, config.seat, 0)
    kind = (int(record["version_kind"]), int(record["op"])) == (_INFORM, p4.OP_NONE)
    return mine and kind and size == HEADER_BYTES and int(record["token"]) < p4.TOKENS_OF_RUNS


def state_of(record: Any) -> SwitchState:
    """The state that the answer to a HELLO tells."""
    told = int(chunks_of(record))
    return SwitchState(
        round=int(record["round"]),
        contributors=int(record["contributors"]),
        closed=bool(int(record["flags"]) & p4.FLAG_CLOSED),
        digest=int(record["bucket"]) << _HALF_BITS | told & (1 << _HALF_BITS) - 1,
        revision=told >> _HALF_BITS,
        generation=int(record["token"]),
    )
