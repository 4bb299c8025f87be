# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Authentication tags, from docs/security.md and the papers it names: nothing of the project's code, plain integers."""

from __future__ import annotations

import hashlib

HEADER = 32
WORD = 128
TAG = 8
CONTRIBUTE, PROBE = 1, 4
RECOVERY_QUESTION_BYTES = HEADER + 8
_M64, _M128 = (1 << 64) - 1, (1 << 128) - 1


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> 64 - by) & _M64


def siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4 (Aumasson and Bernstein 2012) of bytes, as a number."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:16], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = v[0] + v[1] & _M64
            v[1] = _rotate(v[1], 13) ^ v[0]
            v[0] = _rotate(v[0], 32)
            v[2] = v[2] + v[3] & _M64
            v[3] = _rotate(v[3], 16) ^ v[2]
            v[0] = v[0] + v[3] & _M64
            v[3] = _rotate(v[3], 21) ^ v[0]
            v[2] = v[2] + v[1] & _M64
            v[1] = _rotate(v[1], 17) ^ v[2]
            v[2] = _rotate(v[2], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) & 0xFF])
    for at in range(0, len(padded), 8):
        number = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= number
        rounds(2)
        v[0] ^= number
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def blocks(key: bytes, job: int, first: int, count: int) -> bytes:
    """The derived bytes: keyed BLAKE2b of the job's number and a counter."""
    made = b""
    for number in range(first, first + count):
        message = bytes([job >> 8, job & 0xFF, number >> 8, number & 0xFF])
        made += hashlib.blake2b(message, key=key, digest_size=64, person=b"sumwire tags 1").digest()
    return made


def universal(key: bytes, job: int, payload: bytes) -> int:
    """NH (Black et al. 1999) with numbers of 64 bits, most significant byte first."""
    derived, total = blocks(key, job, 0, 16), 0
    for at in range(0, len(payload), 16):
        one, other = (
            int.from_bytes(payload[k : k + 8], "big") + int.from_bytes(derived[k : k + 8], "big") & _M64
            for k in (at, at + 8)
        )
        total += one * other
    return total & _M128


def tag_of(key: bytes, datagram: bytes, switch: bytes) -> int:
    """The tag of a datagram without one. ``switch``: the four bytes of the address of the switch that is asked or that
    replies."""
    job = int.from_bytes(datagram[2:4], "big")
    head = bytearray(datagram[:HEADER])
    if head[0] & 0xF not in (CONTRIBUTE, PROBE):
        # Replies may be for all workers.
        head[6] = 0
    numbers = [bytes(head[at : at + 8]) for at in range(0, HEADER, 8)]
    hashed = universal(key, job, datagram[HEADER:]).to_bytes(16, "big")
    numbers += [hashed[:8], hashed[8:], switch]
    # SipHash's bytes: every number with its least significant byte first.
    return siphash(blocks(key, job, 16, 1)[:16], b"".join(number[::-1] for number in numbers))


def tagged(key: bytes, datagram: bytes, switch: bytes) -> bytes:
    return datagram + tag_of(key, datagram, switch).to_bytes(TAG, "big")
