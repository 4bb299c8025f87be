# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets between two neighbours: values one way, and what has become of them the other way.

All numbers are little-endian. A packet of values (DATA) has a head of 36 bytes and 352 float32, so with IPv4 and UDP it
has 1472 bytes. A STATE has a head of 32 bytes and two bitmaps. A HERE is a head of DATA alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

VALUES: Final = 352
"""Values of a packet."""
MAGIC: Final = 0x5352
DATA: Final = 1
HERE: Final = 2
STATE: Final = 3
# In the flags of a STATE: the sender wants an answer. In those of a HERE: the operation has arrived, as I know.
ASKS: Final = 1
DONE: Final = 1
WINDOW_MAX: Final = 4096
"""The most packets between the oldest one that is not answered and the newest one that is sent."""

# `length`: values of the whole tensor. `sent_below`: all packets with a smaller number have been sent before. `base`:
# all packets with a smaller number have been answered. `count`: contributions in the values.
_HEAD: Final = [
    ("magic", "<u2"), ("kind", "u1"), ("flags", "u1"), ("operation", "<u4"), ("token", "<u8"), ("length", "<u4"),
    ("number", "<u4"), ("sent_below", "<u4"), ("base", "<u4"), ("count", "<u4"),
]  # fmt: skip
HEAD: Final = np.dtype(_HEAD)
PACKET: Final = np.dtype([*_HEAD, ("values", "<f4", (VALUES,))])
# `first`, `covered`: the packets that the bitmaps are of. `arrived`, `marked`: DATA of this operation so far, and those
# with a CE mark.
_STATE: Final = np.dtype(
    [
        ("magic", "<u2"), ("kind", "u1"), ("flags", "u1"), ("operation", "<u4"), ("token", "<u8"),
        ("first", "<u4"), ("covered", "<u4"), ("arrived", "<u4"), ("marked", "<u4"),
    ]
)  # fmt: skip
STATE_MAX: Final = _STATE.itemsize + 2 * WINDOW_MAX // 8

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class State:
    """What has become of packets ``first`` and those after it: ``settled`` ones are not wanted any more, and of these
    ``left_out`` ones were not taken. ``arrived`` packets of the operation came so far, ``marked`` of them with a CE
    mark. ``asks``: the sender wants to hear from the one that it asks."""

    operation: int
    first: int
    settled: Flags
    left_out: Flags
    arrived: int = 0
    marked: int = 0
    asks: bool = False

    def packed(self, token: int) -> bytes:
        """The datagram."""
        head = np.array(
            (
                MAGIC, STATE, ASKS if self.asks else 0, self.operation, token,
                self.first, len(self.settled), self.arrived, self.marked,
            ),
            _STATE,
        )  # fmt: skip
        return head.tobytes() + np.packbits(self.settled).tobytes() + np.packbits(self.left_out).tobytes()


def unpack_state(datagram: NDArray[np.uint8], token: int) -> State | None:
    """The STATE in a datagram; None if it is none, or one of another run."""
    if len(datagram) < _STATE.itemsize:
        return None
    head = datagram[: _STATE.itemsize].view(_STATE)[0]
    if head["magic"] != MAGIC or head["kind"] != STATE or head["token"] != token:
        return None
    covered = int(head["covered"])
    size = -(-covered // 8)
    if len(datagram) != _STATE.itemsize + 2 * size:
        return None
    bits = datagram[_STATE.itemsize :]
    settled, left_out = (np.unpackbits(part, count=covered) == 1 for part in (bits[:size], bits[size:]))
    return State(
        int(head["operation"]), int(head["first"]), settled, left_out, int(head["arrived"]), int(head["marked"]),
        bool(head["flags"] & ASKS),
    )  # fmt: skip


def here(operation: int, token: int, *, done: bool) -> bytes:
    """A HERE of the operation."""
    head = np.zeros(1, HEAD)
    head["magic"], head["kind"], head["flags"] = MAGIC, HERE, DONE if done else 0
    head["operation"], head["token"] = operation, token
    return head.tobytes()
