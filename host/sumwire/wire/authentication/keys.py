# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job's keys as numbers that numpy and C compute tags with."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.authentication import tag_keys

_NUMBERS: Final = p4.SLOT_WORDS * p4.WORD_BYTES // 8
KEY: Final = np.dtype(
    [("hash", np.uint64, _NUMBERS), ("sip", np.uint64, 2), ("address", np.uint32), ("present", np.uint32)], align=True
)
"""struct tags_key. ``present`` is 0 for a job without a key."""


def key_record(key: bytes | None, job: int, switch: str, *, recovery: bool = False) -> NDArray[Any]:
    """A record of KEY, (), for a job's packets to and from one switch, or to and from the recovery port of a worker.

    ``switch``: its address, or that worker's.
    """
    record = np.zeros((), KEY)
    if key is not None:
        keys = tag_keys(key, job)
        words = b"".join(word.to_bytes(p4.WORD_BYTES, "big") for word in keys.words)
        record["hash"] = np.frombuffer(words, ">u8")
        record["sip"] = keys.recovery if recovery else keys.sip
        record["address"] = int(IPv4Address(switch))
        record["present"] = 1
    return record
