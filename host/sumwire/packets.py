# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Many packets at once: the layout of :mod:`sumwire.wire` for whole exchanges.

`wire.pack` and `wire.unpack` are the definition, one packet a call; here the same fields are laid out as a numpy
record and a struct, both derived from the generated field list, because an exchange has thousands of packets.
"""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sumwire import _p4 as p4
from sumwire.wire import HEADER_BYTES, WORD_BYTES

UpWords = NDArray[np.uint8]

# Words of payload of each op: from a host up, and down.
OP_WORDS: Final = {
    p4.OP_THC: (p4.THC_WORDS_UP, p4.THC_WORDS_DOWN),
    p4.OP_MAX32: (p4.MAX32_WORDS, p4.MAX32_WORDS),
    p4.OP_SUM32: (p4.SUM32_WORDS, p4.SUM32_WORDS),
    p4.OP_SIGN: (p4.SIGN_WORDS, p4.SIGN_WORDS),
    p4.OP_VOTE: (p4.VOTE_WORDS_UP, p4.VOTE_WORDS_DOWN),
}


def _byte_fields() -> list[tuple[str, int]]:
    """(name, bytes) in wire order; version and kind share the first byte."""
    (version, version_bits), (kind, kind_bits), *rest = p4.SUMWIRE_FIELDS
    joined = [(f"{version}_{kind}", version_bits + kind_bits), *rest]
    return [(name, bits // 8) for name, bits in joined]


def _offsets() -> list[int]:
    return list(accumulate((size for _, size in _byte_fields()), initial=0))[:-1]


_CODES: Final = {1: "B", 2: "H", 4: "I"}
HEADER: Final = struct.Struct("!" + "".join(_CODES[size] for _, size in _byte_fields()))
_RECORD: Final[list[Any]] = [(name, f">u{size}") for name, size in _byte_fields()]

# Where a datagram has its flags.
FLAGS_AT: Final = next(at for at, (name, _) in zip(_offsets(), _byte_fields(), strict=True) if name == "flags")


def first_byte(kind: int) -> int:
    """Version and kind as they stand in the first byte."""
    return p4.SUMWIRE_VERSION << 4 | kind


def contributions(
    payload: UpWords, *, op: int, job: int, seat: int, slots: int, first_sequence: int, bucket: int
) -> NDArray[np.uint8]:
    """All CONTRIBUTE datagrams of an exchange, shape (chunks, bytes of one).

    ``payload`` has shape (chunks, up words, 128); chunk k is number ``first_sequence + k`` of the job.
    ``seat`` is the worker's number at its own switch.
    """
    chunks, words = payload.shape[0], payload.shape[1]
    packets = np.zeros(chunks, dtype=[*_RECORD, ("payload", "u1", (words, WORD_BYTES))])
    # uint64 is enough for 2**64 chunks, some 10**16 steps.
    sequence = np.uint64(first_sequence) + np.arange(chunks, dtype=np.uint64)
    packets["version_kind"] = first_byte(p4.KIND_CONTRIBUTE)
    packets["op"] = op
    packets["job"] = job
    packets["slot"] = sequence % np.uint64(slots)
    packets["worker"] = seat
    packets["count"] = 1
    packets["round"] = (sequence // np.uint64(slots)) & np.uint64(0xFFFFFFFF)
    packets["contributors"] = 1 << seat
    packets["words"] = words
    packets["bucket"] = bucket
    packets["chunk"] = np.arange(chunks)
    packets["payload"] = payload
    return packets.view(np.uint8).reshape(chunks, HEADER_BYTES + words * WORD_BYTES)
