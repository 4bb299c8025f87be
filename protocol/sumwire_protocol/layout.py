# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The packet layout for tools that display packets: names of codes, optional headers, and how payloads hold values.

All of it follows from the constants of the P4 program. The scapy layer, the Wireshark dissector's table and `sumwire
decode` use it, so that all of them know a field, code or header that is new in the P4 sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sumwire_protocol import constants as p4
from sumwire_protocol.ops import BY_CODE, Op

_FRAME: Final = ("ethernet", "arp", "ipv4", "udp")
_OWN: Final = "sumwire"


def codes(prefix: str) -> dict[int, str]:
    """Return the names of the codes that begin with ``prefix``, by number. Example: ``codes("KIND_")[2]`` is
    "RESULT"."""
    return {value: name.removeprefix(prefix) for name, value in vars(p4).items() if name.startswith(prefix)}


KINDS: Final[Mapping[int, str]] = codes("KIND_")
OP_NAMES: Final[Mapping[int, str]] = codes("OP_")
REASONS: Final[Mapping[int, str]] = codes("REJECT_")
# By bit, lowest first. FLAGS_OF_SWITCHES is a set of them.
FLAGS: Final[Mapping[int, str]] = dict(sorted(codes("FLAG_").items()))


def meaning(name: str) -> str:
    """Return the meaning of a kind, flag or reject reason, in the words of the P4 sources; "" if its name suffices."""
    return p4.MEANINGS.get(name, "")


def flag_names(flags: int) -> tuple[str, ...]:
    """Return the names of the bits that are set."""
    return tuple(name for bit, name in FLAGS.items() if flags & bit)


@dataclass(frozen=True, slots=True)
class ExtraHeader:
    """An optional header. A packet has it if it is longer by the header's size.

    ``fields``: (name, width in bits). ``before_words``: it lies between Sumwire's header and the payload, not after the
    payload.
    """

    name: str
    fields: tuple[tuple[str, int], ...]
    before_words: bool

    @property
    def bytes(self) -> int:
        """Length of the header in bytes."""
        return sum(width for _, width in self.fields) // 8


def extra_headers(
    headers: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = p4.HEADERS,
) -> tuple[ExtraHeader, ...]:
    """Return the optional headers in wire order. There are none unless the P4 sources define one."""
    words_seen, found = False, []
    for name, fields in headers:
        if all(width % p4.WORD_BITS == 0 for _, width in fields):
            words_seen = True
        elif name not in (*_FRAME, _OWN):
            found.append(ExtraHeader(name, fields, before_words=not words_seen))
    return tuple(found)


EXTRA: Final = extra_headers()


def parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Split the bytes after Sumwire's header: optional headers, the payload, and the remainder.

    ``data`` begins with Sumwire's header. The remainder is empty in a valid packet.
    """
    words = data[_WORDS_AT] if len(data) > _WORDS_AT else 0
    behind, length = data[p4.SUMWIRE_BYTES :], words * p4.WORD_BYTES
    extra = sum(header.bytes for header in EXTRA)
    if not extra or len(behind) != length + extra:
        return b"", behind[:length], behind[length:]
    before = sum(header.bytes for header in EXTRA if header.before_words)
    return behind[:before] + behind[before + length :], behind[before : before + length], b""


def packets_of(data: bytes) -> list[bytes]:
    """Return the packets in a UDP payload: one, or those of a train. A capture at a host that sends or receives trains
    has each train in one piece. All packets of a train but the last have the length of the first.

    Example: 1216 bytes begin with a packet of 4 words, which has 544 bytes. If a header is at byte 544, they are
    packets of 544, 544 and 128 bytes. Otherwise they are one packet with 672 bytes too many.
    """
    if len(data) <= p4.SUMWIRE_BYTES:
        return [data]
    bare = p4.SUMWIRE_BYTES + data[_WORDS_AT] * p4.WORD_BYTES
    extra = sum(header.bytes for header in EXTRA)
    for length in dict.fromkeys((bare, bare + extra)):
        if begins_as_packet(data[length:]):
            return [data[at : at + length] for at in range(0, len(data), length)]
    return [data]


def begins_as_packet(data: bytes) -> bool:
    """Return whether the data begins with a header whose codes are known."""
    if len(data) < p4.SUMWIRE_BYTES:
        return False
    fields = unpacked(data)
    return fields["version"] == p4.SUMWIRE_VERSION and fields["kind"] in KINDS and fields["op"] in OP_NAMES


def _byte_of(field: str) -> int:
    bits = 0
    for name, width in p4.SUMWIRE_FIELDS:
        if name == field:
            return bits // 8
        bits += width
    raise KeyError(field)


_WORDS_AT: Final = _byte_of("words")


def unpacked(data: bytes) -> dict[str, int]:
    """Return the fields of Sumwire's header at the beginning of ``data``, which must be complete."""
    number, left = int.from_bytes(data[: p4.SUMWIRE_BYTES]), 8 * p4.SUMWIRE_BYTES
    found = {}
    for name, width in p4.SUMWIRE_FIELDS:
        left -= width
        found[name] = number >> left & (1 << width) - 1
    return found


def values(op: int, payload: bytes) -> list[int]:
    """Return the values in a payload: elements, or numbers of as many bits as there are planes.

    A partial result of VOTE has one counter per value. The list is empty for an unknown op, and for a payload that
    cannot be divided into values.
    """
    found = BY_CODE.get(op)
    if found is None or not payload or len(payload) % p4.WORD_BYTES:
        return []
    if size := found.element_bytes:
        cells = range(0, len(payload), size)
        return [int.from_bytes(payload[at : at + size], signed=found.signed) for at in cells]
    return list(_from_planes(found, payload))


def groups_of(op: Op) -> int:
    """Return the number of groups in a packet of an op with planes. The planes of a group follow one another."""
    return op.values // p4.WORD_BITS


def _from_planes(op: Op, payload: bytes) -> Iterator[int]:
    groups = groups_of(op)
    planes, rest = divmod(len(payload) // p4.WORD_BYTES, groups)
    if rest:
        return
    for group in range(groups):
        at = group * planes
        words = [int.from_bytes(payload[p4.WORD_BYTES * k :][: p4.WORD_BYTES]) for k in range(at, at + planes)]
        for bit in reversed(range(p4.WORD_BITS)):
            value = 0
            for word in words:
                value = value << 1 | word >> bit & 1
            yield value
