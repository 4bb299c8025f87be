# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The Sumwire packet, the UDP payload between workers and switches (docs/wire-format.md): one at a time, and whole
exchanges.

The layout is defined in p4src/include/headers.p4. Codes, sizes and the list of fields come from the P4 program, by
`sumwire_protocol.constants`. :func:`pack` and :func:`unpack` handle one packet a call. An exchange has thousands, whose
headers are read and written as numpy records.

All chunks of a job share one sequence number K. It counts from 0 over all exchanges and is equal on all workers. Chunk
K uses slot ``K mod S`` in round ``K div S``, where S is the job's number of slots. Packets carry the round in 32 bits,
so rounds are compared in serial-number arithmetic (RFC 1982).

Example: with S = 5 slots, chunk 7 uses slot 2 in round 1, and chunk 12 uses slot 2 again in round 2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import OPS

ROUND_BITS: Final = 32
ROUNDS: Final = 1 << ROUND_BITS
_HALF_ROUNDS: Final = 1 << (ROUND_BITS - 1)

# (slot, round)
Place = tuple[int, int]


def place_of(sequence: int, slots: int) -> Place:
    """Return the slot and round of a chunk."""
    return sequence % slots, sequence // slots % ROUNDS


def round_newer(a: int, b: int) -> bool:
    """Return True if round ``a`` comes after round ``b``: round 0 comes after round 2**32 - 1."""
    return a != b and (a - b) % ROUNDS < _HALF_ROUNDS


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
    """Return a datagram of header and payload.

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
    """Return header and payload of a datagram. The payload is a view, not a copy.

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


# By op code: words of payload in a host's contribution, and in a result.
OP_WORDS: Final = {op.code: (op.up.words, op.down.words) for op in OPS}


def _byte_fields() -> list[tuple[str, int]]:
    """(name, bytes) in wire order. Version and kind share the first byte, cut and chunk four bytes: numpy has no
    integers of three bytes.
    """
    (version, version_bits), (kind, kind_bits), *rest, (cut, cut_bits), (chunk, chunk_bits), last = p4.SUMWIRE_FIELDS
    first, shared = (f"{version}_{kind}", version_bits + kind_bits), (f"{cut}_{chunk}", cut_bits + chunk_bits)
    return [(name, bits // 8) for name, bits in (first, *rest, shared, last)]


_NAMES: Final = [name for name, _ in _byte_fields()]
_FORMATS: Final = [f">u{size}" for _, size in _byte_fields()]
_OFFSETS: Final = list(accumulate((size for _, size in _byte_fields()), initial=0))[:-1]

CHUNK_MASK: Final = (1 << _CHUNK_BITS) - 1


def offset_of(field: str) -> int:
    """Return where a field of the header begins in a datagram."""
    return _OFFSETS[_NAMES.index(field)]


# Where these fields begin in a datagram.
TOKEN_AT: Final = offset_of("token")
FLAGS_AT: Final = offset_of("flags")


def first_byte(kind: int) -> int:
    """Return the first byte of a packet: version and kind."""
    return p4.SUMWIRE_VERSION << 4 | kind


_CONTRIBUTION: Final = first_byte(p4.KIND_CONTRIBUTE)
_RESULT: Final = first_byte(p4.KIND_RESULT)


@cache
def _record(packet_bytes: int) -> np.dtype[Any]:
    # numpy's typing asks for a plain dict of lists.
    return np.dtype({"names": _NAMES, "formats": _FORMATS, "offsets": _OFFSETS, "itemsize": packet_bytes})


def headers(packets: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the headers of packets (n, packet bytes) as records (n,) in the packets' memory."""
    return packets.view(_record(packets.shape[1])).reshape(len(packets))


def chunks_of(records: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the chunk numbers of header records of any shape."""
    return records["cut_chunk"].astype(np.uint32) & np.uint32(CHUNK_MASK)


def cuts_of(records: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the field ``cut`` of header records of any shape: the planes that results lack (CUT_* of types.p4)."""
    return (records["cut_chunk"].astype(np.uint32) >> np.uint32(_CHUNK_BITS)).astype(np.uint8)


def _mask(*fields: str) -> NDArray[np.uint64]:
    """A head with ones in these fields and zeros in the others."""
    octets = np.zeros(HEADER_BYTES, np.uint8)
    for name, size in _byte_fields():
        if name in fields:
            octets[offset_of(name) :][:size] = 0xFF
    return octets.view(np.uint64)


def heads(packets: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the headers of packets (n, packet bytes) as heads (n, 4): 64-bit numbers in the packets' memory, in its
    byte order.

    With heads many fields are compared at once.
    """
    return packets[:, :HEADER_BYTES].view(np.uint64)


def number_of(head: NDArray[np.uint64]) -> int:
    """Return the chunk number of one head."""
    return int(head.view(">u4")[offset_of("cut_chunk") // 4]) & CHUNK_MASK


# The fields of a result that are known beforehand: those of the chunk's contribution, no flag, and nothing cut. Of a
# complete result the count is known too.
RESULT_MASK: Final = ~_mask("count", "contributors")
COMPLETE_MASK: Final = ~_mask("contributors")
# Of the first number of a head.
COUNT_MASK: Final = _mask("count")[0]


def without_flags(mask: NDArray[np.uint64], flags: int) -> NDArray[np.uint64]:
    """Return the mask of a head, with zeros at the places of these flags."""
    octets = mask.copy().view(np.uint8)
    octets[offset_of("flags")] &= 0xFF & ~flags
    return octets.view(np.uint64)


def result_heads(packets: NDArray[np.uint8], down_words: int, count: int = 0) -> NDArray[np.uint64]:
    """Return the expected heads of the results of contributions, for the fields in RESULT_MASK. With ``count``, return
    those of complete results of so many contributions, for the fields in COMPLETE_MASK."""
    results = packets[:, :HEADER_BYTES].copy()
    records = headers(results)
    records["version_kind"] = _RESULT
    records["words"] = down_words
    if count:
        records["count"] = count
    return results.view(np.uint64) & (COMPLETE_MASK if count else RESULT_MASK)


def write_headers(
    packets: NDArray[np.uint8],
    *,
    op: int,
    job: int,
    seat: int,
    slots: int,
    first_sequence: int,
    bucket: int,
    quorum: int = 0,
    token: int = p4.TOKEN_NONE,
) -> None:
    """Write the headers of an exchange's contributions, (chunks, packet bytes).

    Chunk k is number ``first_sequence + k`` of the job. ``seat``: the worker's number at its switch. ``quorum`` and
    ``token``: those of the run; a quorum of 0 is the job's.
    """
    records = headers(packets)
    # uint64 has room for 2**64 chunks, some 10**16 steps.
    sequence = np.uint64(first_sequence) + np.arange(len(packets), dtype=np.uint64)
    records["version_kind"] = _CONTRIBUTION
    records["op"] = op
    records["job"] = job
    records["slot"] = sequence % np.uint64(slots)
    records["worker"] = seat
    records["count"] = 1
    records["round"] = (sequence // np.uint64(slots)) & np.uint64(0xFFFFFFFF)
    records["contributors"] = quorum
    records["flags"] = 0
    records["words"] = OP_WORDS[op][0]
    records["bucket"] = bucket
    # There are at most CHUNKS_MAX, so that cut is 0.
    records["cut_chunk"] = np.arange(len(packets))
    records["token"] = token
