# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sumwire's packets as layers of scapy: build, dissect and send them. Needs scapy: `pip install 'sumwire[scapy]'`.

    >>> from sumwire_protocol.scapy_layer import Sumwire
    >>> packet = Sumwire(kind="CONTRIBUTE", op="MAX32", job=1, slot=2, worker=1, data=bytes(128))
    >>> packet.words, len(packet)

The fields are those of `headers.p4`. A header that the P4 sources add later is a layer of its own behind this one.
"""

from __future__ import annotations

from typing import Any, Final

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    Field,
    FieldLenField,
    FlagsField,
    IntField,
    ShortField,
    ThreeBytesField,
    XByteField,
    XIntField,
    XLongField,
    XStrFixedLenField,
    XStrLenField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw, bind_bottom_up, bind_layers, bind_top_down

from sumwire_protocol import constants as p4
from sumwire_protocol import layout

_DEFAULTS: Final = {"version": p4.SUMWIRE_VERSION, "kind": p4.KIND_CONTRIBUTE, "count": 1}
_OF_BYTES: Final = {1: ByteField, 2: ShortField, 3: ThreeBytesField, 4: IntField, 8: XLongField}
# Kinds that a switch answers with.
_ANSWERS: Final = (p4.KIND_RESULT, p4.KIND_STALE, p4.KIND_INFORM, p4.KIND_REFUSED)


def _field(name: str, bits: int) -> Field[Any, Any]:
    """The field of scapy for one of the header's."""
    default = _DEFAULTS.get(name, 0)
    special: dict[str, Field[Any, Any]] = {
        "kind": BitEnumField(name, default, bits, dict(layout.KINDS)),
        "op": ByteEnumField(name, default, dict(layout.OP_NAMES)),
        "contributors": XIntField(name, default),
        "flags": FlagsField(name, default, bits, list(layout.FLAGS.values())),
        "words": FieldLenField(name, None, fmt="B", length_of="data", adjust=lambda _, length: length // p4.WORD_BYTES),
        "cut": XByteField(name, default),
    }
    return special.get(name) or _plain(name, bits, default)


def _plain(name: str, bits: int, default: int = 0) -> Field[Any, Any]:
    kind = _OF_BYTES.get(bits // 8) if bits % 8 == 0 else None
    if kind is not None:
        return kind(name, default)
    return BitField(name, default, bits) if bits < 8 else XStrFixedLenField(name, bytes(bits // 8), bits // 8)


def _header_layer(header: layout.ExtraHeader) -> type[Packet]:
    """A layer for an extra header."""
    fields = [_plain(name, bits) for name, bits in header.fields]
    parts = {"name": f"Sumwire {header.name}", "fields_desc": fields, "guess_payload_class": _next_of_train}
    return type(f"Sumwire{header.name.title()}", (Packet,), parts)


def _next_of_train(_: Packet, payload: bytes) -> type[Packet]:
    """What lies behind an extra header."""
    return Sumwire if layout.begins_as_packet(payload) else Raw


EXTRA_LAYERS: Final = tuple(_header_layer(header) for header in layout.EXTRA)


class Sumwire(Packet):
    """Sumwire's header and its payload. ``words`` is computed from ``data`` unless it is given."""

    name = "Sumwire"
    fields_desc = [  # noqa: RUF012 - scapy's way to say it
        *(_field(name, bits) for name, bits in p4.SUMWIRE_FIELDS),
        XStrLenField("data", b"", length_from=lambda packet: packet.words * p4.WORD_BYTES),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Return the layer after the payload: an extra header, if as many bytes are left as it takes, or the next
        packet of a train."""
        if layout.begins_as_packet(payload):
            return Sumwire
        for header, layer in zip(layout.EXTRA, EXTRA_LAYERS, strict=True):
            if len(payload) == header.bytes or layout.begins_as_packet(payload[header.bytes :]):
                return layer
        return Raw

    @property
    def values(self) -> list[int]:
        """The values in the payload, see :func:`sumwire_protocol.layout.values`."""
        return layout.values(int(self.op), bytes(self.data))

    @property
    def reason(self) -> str:
        """Name of the reason in a REFUSED; "" in packets of other kinds."""
        return layout.REASONS.get(int(self.count), str(self.count)) if self.kind == p4.KIND_REFUSED else ""

    def hashret(self) -> bytes:
        """Return a hash that is equal for a packet and its answer."""
        return bytes([self.job >> 8, self.job & 0xFF, self.slot >> 8, self.slot & 0xFF, self.worker])

    def answers(self, other: Packet) -> bool:
        """Return whether this packet is a switch's answer to the other one. A STALE has another round than the packet
        that it answers."""
        if not isinstance(other, Sumwire) or self.kind not in _ANSWERS or other.kind in _ANSWERS:
            return False
        same = all(getattr(self, name) == getattr(other, name) for name in ("op", "job", "slot", "worker", "token"))
        another_round = self.kind == p4.KIND_STALE or other.op == p4.OP_NONE
        return same and (another_round or self.round == other.round)

    def mysummary(self) -> str:
        """Return the packet in one line."""
        kind = layout.KINDS.get(self.kind, f"kind {self.kind}")
        op = layout.OP_NAMES.get(self.op, f"op {self.op}")
        place = f"job {self.job} slot {self.slot} round {self.round} worker {self.worker} chunk {self.chunk}"
        return " ".join(filter(None, (f"Sumwire {kind}", self.reason, op, place, *layout.flag_names(int(self.flags)))))


bind_bottom_up(UDP, Sumwire, dport=p4.SUMWIRE_PORT)
bind_bottom_up(UDP, Sumwire, sport=p4.SUMWIRE_PORT)
bind_top_down(UDP, Sumwire, sport=p4.SUMWIRE_PORT, dport=p4.SUMWIRE_PORT)
for _layer in EXTRA_LAYERS:
    bind_layers(Sumwire, _layer)
