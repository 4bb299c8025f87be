# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What whoever shows packets must know of them: names of codes, headers beside Sumwire's, and how payloads hold values.

All of it follows from the constants of the P4 program. The scapy layer, the Wireshark dissector's table and `sumwire
decode` take it from here, so that a field, code or header that is new in the P4 sources is known to all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sumwire_protocol import constants as p4
from sumwire_protocol.ops import BY_CODE, Op

_FRAME: Final = ("ethernet", "arp", "ipv4", "udp")
_OWN: Final = "sumwire"
_ELEMENT_BYTES: Final = p4.ELEMENT_BITS // 8


def codes(prefix: str) -> dict[int, str]:
    """Names of the codes that begin so, by number. Example: ``codes("KIND_")[2]`` is "RESULT"."""
    return {value: name.removeprefix(prefix) for name, value in vars(p4).items() if name.startswith(prefix)}


KINDS: Final[Mapping[int, str]] = codes("KIND_")
OP_NAMES: Final[Mapping[int, str]] = codes("OP_")
REASONS: Final[Mapping[int, str]] = codes("REJECT_")
# By bit, lowest first. FLAGS_OF_SWITCHES is a set of them.
FLAGS: Final[Mapping[int, str]] = dict(sorted(codes("FLAG_").items()))


def meaning(name: str) -> str:
    """What a kind, flag or reject reason means, in the words of the P4 sources; "" where its name says all."""
    return p4.MEANINGS.get(name, "")


def flag_names(flags: int) -> tuple[str, ...]:
    """The names of the bits that are set."""
    return tuple(name for bit, name in FLAGS.items() if flags & bit)


@dataclass(frozen=True, slots=True)
class ExtraHeader:
    """A header that some packets have beside Sumwire's own: those that are longer by as much as it takes.

    ``fields``: (name, width in bits). ``before_words``: it lies between Sumwire's header and the payload, not behind.
    """

    name: str
    fields: tuple[tuple[str, int], ...]
    before_words: bool

    @property
    def bytes(self) -> int:
        """Its length."""
        return sum(width for _, width in self.fields) // 8


def extra_headers(
    headers: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = p4.HEADERS,
) -> tuple[ExtraHeader, ...]:
    """The optional headers in wire order. None is known to this version unless the P4 sources have one."""
    words_seen, found = False, []
    for name, fields in headers:
        if all(width == p4.WORD_BITS for _, width in fields):
            words_seen = True
        elif name not in (*_FRAME, _OWN):
            found.append(ExtraHeader(name, fields, before_words=not words_seen))
    return tuple(found)


EXTRA: Final = extra_headers()


def parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    """What lies behind Sumwire's header: optional headers, the payload, and what is left.

    ``data`` begins with Sumwire's header. What is left is empty in a packet that keeps the rules.
    """
    words = data[_WORDS_AT] if len(data) > _WORDS_AT else 0
    behind, length = data[p4.SUMWIRE_BYTES :], words * p4.WORD_BYTES
    extra = sum(header.bytes for header in EXTRA)
    if not extra or len(behind) != length + extra:
        return b"", behind[:length], behind[length:]
    before = sum(header.bytes for header in EXTRA if header.before_words)
    return behind[:before] + behind[before + length :], behind[before : before + length], b""


def packets_of(data: bytes) -> list[bytes]:
    """The packets in a UDP payload: one, or those of a train, which a capture at a host that sends or receives trains
    has in one piece. All but the last of a train have the length of the first.

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
    """Whether a header is there whose codes are known."""
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
    """The fields of Sumwire's header at the beginning of ``data``, which has all its bytes."""
    number, left = int.from_bytes(data[: p4.SUMWIRE_BYTES]), 8 * p4.SUMWIRE_BYTES
    found = {}
    for name, width in p4.SUMWIRE_FIELDS:
        left -= width
        found[name] = number >> left & (1 << width) - 1
    return found


def values(op: int, payload: bytes) -> list[int]:
    """The values that a payload holds: elements of 32 bits, or numbers of as many bits as there are planes.

    VOTE's partial results have counters, as many as a packet has values. Empty for an op that is not known and for a
    payload that cannot be cut into its values.
    """
    found = BY_CODE.get(op)
    if found is None or not payload or len(payload) % p4.WORD_BYTES:
        return []
    if found.value_bits == p4.ELEMENT_BITS:
        cells = range(0, len(payload), _ELEMENT_BYTES)
        return [int.from_bytes(payload[at : at + _ELEMENT_BYTES], signed=found.signed) for at in cells]
    return list(_from_planes(found, payload))


def groups_of(op: Op) -> int:
    """Groups of 1024 values in a packet of an op with planes."""
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
