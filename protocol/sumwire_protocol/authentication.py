# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The keys of a job whose packets have authentication tags, derived from the 32 bytes that its configuration names.

Host, software aggregator and controller derive the same: the controller writes them into the job's row at the switch.
docs/security.md says how tags are computed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from sumwire_protocol import constants as p4

KEY_BYTES: Final = 32
"""Bytes of a job's key."""
_BLOCK_BYTES: Final = 64
_SIP_BYTES: Final = 16


@dataclass(frozen=True)
class TagKeys:
    """What tags are computed with. None of it is in the ``repr``.

    ``words``: the key of the universal hash, a number of 1024 bits for each word of a payload. ``sip``: SipHash's key
    between workers and switches, its first and its second 8 bytes as numbers. ``recovery``: the same between workers.
    """

    words: tuple[int, ...] = field(repr=False)
    sip: tuple[int, int] = field(repr=False)
    recovery: tuple[int, int] = field(repr=False)


def tag_keys(key: bytes, job: int) -> TagKeys:
    """The keys of a job, or of a lane, with this number. ``key``: 32 bytes.

    Every block is BLAKE2b (RFC 7693), keyed, of the job's number (2 bytes) and a counter (2 bytes), both big endian.
    Blocks 0 to 15 are the words' key, block 16 begins with SipHash's, block 17 with that of recovery.
    Raises ValueError for a key of another length.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key of {len(key)} bytes: must have {KEY_BYTES}")
    hash_blocks = p4.SLOT_WORDS * p4.WORD_BYTES // _BLOCK_BYTES
    stream = b"".join(_block(key, job, number) for number in range(hash_blocks))
    words = [stream[at : at + p4.WORD_BYTES] for at in range(0, len(stream), p4.WORD_BYTES)]
    return TagKeys(
        words=tuple(int.from_bytes(word, "big") for word in words),
        sip=_sip_key(_block(key, job, hash_blocks)),
        recovery=_sip_key(_block(key, job, hash_blocks + 1)),
    )


def _block(key: bytes, job: int, number: int) -> bytes:
    message = job.to_bytes(2, "big") + number.to_bytes(2, "big")
    return hashlib.blake2b(message, key=key, digest_size=_BLOCK_BYTES, person=b"sumwire tags 1").digest()


def _sip_key(block: bytes) -> tuple[int, int]:
    """SipHash reads numbers with their least significant byte first."""
    half = _SIP_BYTES // 2
    return int.from_bytes(block[:half], "little"), int.from_bytes(block[half:_SIP_BYTES], "little")
