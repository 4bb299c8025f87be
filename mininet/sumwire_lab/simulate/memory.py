# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a simulation by packets takes of memory, estimated before it takes any."""

from __future__ import annotations

import os
from typing import Final

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fabric import Fabric

_GB: Final = 1e9
# Measured: a task with its edges in Python and in C, a worker with its links, a place of a window with its packet.
TASK_BYTES: Final = 500
_WORKER_BYTES: Final = 4000
_PLACE_BYTES: Final = 100
_ROUTE_BYTES: Final = 8
_SLOT_BYTES: Final = 10
_WORD_BITS: Final = 64


def machine_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def of_network(fabric: Fabric, slots: int) -> float:
    """Return the bytes of a network with a job that has so many slots, 0 for none."""
    top = len(fabric.levels)
    counts = [fabric.spines if level == top else fabric.nodes(level) for level in range(1, top + 1)]
    nodes = fabric.workers + sum(counts)
    seats = (_SLOT_BYTES + 8 * -(-fabric.children(level) // _WORD_BITS) for level in range(1, top + 1))
    trees = sum(slots * count * seat for count, seat in zip(counts, seats, strict=True))
    return sum(counts) * nodes * _ROUTE_BYTES + fabric.workers * (_WORKER_BYTES + slots * _PLACE_BYTES) + trees


def check(workers: int, what: str, octets: float) -> None:
    """Raise OptionError if this machine has no room for so many bytes."""
    room = machine_bytes()
    if octets > room:
        told = f"{what} would take {octets / _GB:.3g} GB of memory, of which this machine has {room / _GB:.3g}"
        raise OptionError(f"workers={workers}: {told}; give fewer workers or steps, or --engine flows")
