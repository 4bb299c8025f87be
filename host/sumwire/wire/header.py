# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The Sumwire packet: the UDP payload between workers and switches (docs/wire-format.md).

The layout is defined in p4src/include/headers.p4. Codes and sizes are the P4 program's, from
`sumwire_protocol.constants`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from sumwire_protocol import constants as p4

HEADER_BYTES: Final = p4.SUMWIRE_BYTES
WORD_BYTES: Final = p4.WORD_BYTES
VALUES_PER_PLANE: Final = p4.WORD_BITS
# Bytes in front of the Sumwire header on an Ethernet link.
LOWER_HEADER_BYTES: Final = p4.ETHERNET_BYTES + p4.IPV4_BYTES + p4.UDP_BYTES

_LAYOUT: Final = struct.Struct("!BBHHBBIIBBHIQ")
_CHUNK_BITS: Final = dict(p4.SUMWIRE_FIELDS)["chunk"]
_KINDS: Final = frozenset(
    {p4.KIND_CONTRIBUTE, p4.KIND_RESULT, p4.KIND_STALE, p4.KIND_PROBE, p4.KIND_INFORM, p4.KIND_REFUSED}
)


class WireError(ValueError):
    """The bytes are no Sumwire packet, or a value does not fit its field."""


@dataclass(frozen=True, slots=True)
class Header:
    """The 32 bytes in front of the payload, without the version, which is always SUMWIRE_VERSION."""

    kind: int
    op: int
    job: int
    slot: int
    worker: int
    count: int = 1
    round: int = 0
    contributors: int = 0
    flags: int = 0
    words: int = 0
    bucket: int = 0
    chunk: int = 0
    cut: int = 0
    token: int = p4.TOKEN_NONE


def pack(header: Header, payload: bytes | memoryview = b"") -> bytes:
    """A datagram of header and payload.

    Raises WireError for a value that does not fit its field, or a payload that is not `words` x 128 bytes.
    """
    if len(payload) != header.words * WORD_BYTES:
        raise WireError(f"payload of {len(payload)} bytes: words={header.words} needs {header.words * WORD_BYTES}")
    h = header
    try:
        if not 0 <= h.kind <= 0xF:
            raise struct.error("kind is 4 bits wide")
        if not 0 <= h.chunk < 1 << _CHUNK_BITS:
            raise struct.error(f"chunk is {_CHUNK_BITS} bits wide")
        if not 0 <= h.cut <= 0xFF:
            raise struct.error("cut is 8 bits wide")
        head = _LAYOUT.pack(
            p4.SUMWIRE_VERSION << 4 | h.kind, h.op, h.job, h.slot, h.worker, h.count,
            h.round, h.contributors, h.flags, h.words, h.bucket, h.cut << _CHUNK_BITS | h.chunk, h.token,
        )  # fmt: skip
    except struct.error as error:
        raise WireError(f"{header} does not fit the wire: {error}") from error
    return head + payload


def unpack(datagram: bytes | memoryview) -> tuple[Header, memoryview]:
    """Header and payload of a datagram. The payload is a view, not a copy.

    Raises WireError for a wrong version, kind or length. It does not check the op.
    """
    if len(datagram) < HEADER_BYTES:
        raise WireError(f"{len(datagram)} bytes: a Sumwire packet has at least {HEADER_BYTES}")
    fields = _LAYOUT.unpack_from(datagram)
    first, op, job, slot, worker, count, round_, contributors, flags, words, bucket, last, token = fields
    version, kind = first >> 4, first & 0xF
    if version != p4.SUMWIRE_VERSION:
        raise WireError(f"version {version}: this library speaks {p4.SUMWIRE_VERSION}")
    if kind not in _KINDS:
        raise WireError(f"kind {kind} is none of {sorted(_KINDS)}")
    payload = memoryview(datagram)[HEADER_BYTES:]
    if len(payload) != words * WORD_BYTES:
        raise WireError(f"{len(payload)} bytes of payload: words={words} needs {words * WORD_BYTES}")
    cut, chunk = last >> _CHUNK_BITS, last & (1 << _CHUNK_BITS) - 1
    header = Header(kind, op, job, slot, worker, count, round_, contributors, flags, words, bucket, chunk, cut, token)
    return header, payload
