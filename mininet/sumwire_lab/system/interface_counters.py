# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes and packets that the kernel has counted on interfaces of this process's network namespace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Counters of this network namespace. /sys may show those of another one.
_COUNTERS: Final = Path("/proc/self/net/dev")
_RX_BYTES, _RX_PACKETS, _TX_BYTES, _TX_PACKETS = 0, 1, 8, 9


@dataclass(frozen=True)
class LinkBytes:
    """Traffic of an interface: bytes, Ethernet headers included, and packets."""

    rx: int
    tx: int
    rx_packets: int = 0
    tx_packets: int = 0

    def __sub__(self, other: LinkBytes) -> LinkBytes:
        return LinkBytes(
            self.rx - other.rx,
            self.tx - other.tx,
            self.rx_packets - other.rx_packets,
            self.tx_packets - other.tx_packets,
        )


def parse_counters(text: str, interface: str) -> LinkBytes:
    """Counters of one interface, from the text of /proc/net/dev. Raises ValueError if it is not listed."""
    for line in text.splitlines():
        name, colon, values = line.partition(":")
        if colon and name.strip() == interface:
            columns = [int(value) for value in values.split()]
            return LinkBytes(columns[_RX_BYTES], columns[_TX_BYTES], columns[_RX_PACKETS], columns[_TX_PACKETS])
    raise ValueError(f"interface {interface} is not in {_COUNTERS}")


def link_bytes(interface: str) -> LinkBytes:
    """Traffic so far of an interface in this namespace."""
    return parse_counters(_COUNTERS.read_text(), interface)


def counters_of(interfaces: Iterable[str]) -> dict[str, LinkBytes]:
    """Traffic so far of interfaces in this namespace, all read at once."""
    text = _COUNTERS.read_text()
    return {name: parse_counters(text, name) for name in interfaces}
