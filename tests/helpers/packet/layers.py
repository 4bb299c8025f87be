# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets for the switches under test, built by the scapy layer, which follows the P4 sources.

The golden model takes them apart by the page. So where page and sources disagree, packet tests fail.
"""

from __future__ import annotations

from golden.packets import Packet
from scapy.packet import Raw
from sumwire_protocol.scapy_layer import EXTRA_LAYERS, Sumwire

_FIELDS = tuple(name for name in Packet._fields if name not in ("payload", "tag"))
(_Auth,) = EXTRA_LAYERS


def encoded(packet: Packet) -> bytes:
    """A packet as the layer builds it, whatever its fields are."""
    layer = Sumwire(**{name: getattr(packet, name) for name in _FIELDS}, data=packet.payload)
    if not packet.tag:
        return bytes(layer)
    whole = len(packet.tag) == len(_Auth())
    return bytes(layer / (_Auth(tag=int.from_bytes(packet.tag)) if whole else Raw(packet.tag)))
