# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Virtual queues of the P4 switches for tagged packets: their configuration and their decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import Fabric

if TYPE_CHECKING:
    from sumwire_lab.run.session import Session

_FRAME_BYTES: Final = 1500
# Thresholds of a virtual queue as shares of the link's real queue: for marks, for dropping classes 3, 2, 1 and 0, and
# for dropping everything. The real queue, which knows no classes, must not fill before the virtual one. Marks begin
# above one train (64 KB, of the 384 KB that 256 frames are): a train that meets an empty queue is no congestion, and a
# window that shrinks for it leaves the link to others.
_MARK: Final = 3 / 16
_DROP: Final = (1 / 4, 1 / 2, 5 / 8, 3 / 4)
_DROP_ALL: Final = 7 / 8


def virtual_queues(fabric: Fabric, *, drops: bool = True, trims: bool = False) -> list[dict[str, Any]]:
    """The controller's entry for each limited port of the P4 switches, drained at the link's rate.

    `drops`: whether packets are dropped by their class; otherwise all are kept until the queue is full. `trims`:
    whether contributions of THC are cut instead of being dropped.
    """
    ports = [(h.switch, h.port, fabric.link_of(h)) for h in fabric.limited_hosts]
    ports += [(t.lower, t.lower_port, fabric.trunk_link(t)) for t in fabric.trunks]
    ports += [(t.upper, t.upper_port, fabric.trunk_link(t)) for t in fabric.trunks]
    several = len(fabric.switches) > 1
    return [
        {
            **({"switch": switch} if several else {}),
            "port": port,
            "rate_mbit": link.mbit,
            "trim": trims,
            **thresholds(link.queue_packets * _FRAME_BYTES, drops=drops),
        }
        for switch, port, link in sorted(ports, key=lambda one: one[:2])
    ]


def thresholds(queue_bytes: int, *, drops: bool = True) -> dict[str, Any]:
    """Thresholds of a virtual queue, for a link whose real queue holds `queue_bytes`."""
    return {
        "mark_bytes": int(_MARK * queue_bytes),
        "drop_bytes": [int((share if drops else _DROP_ALL) * queue_bytes) for share in _DROP],
        "drop_all_bytes": int(_DROP_ALL * queue_bytes),
    }


def no_queues(fabric: Fabric) -> list[dict[str, Any]]:
    """For systems whose packets have no tags."""
    return []


def drops(session: Session, *, queues: bool) -> dict[str, dict[str, int]]:
    """Tagged packets lost so far in links' queues, by priority.

    With virtual queues, also the tagged packets that these marked, dropped or trimmed, by drop class. Raises LabError.
    """
    told = {"link_priorities": {str(key): count for key, count in session.network.priority_drops().items()}}
    if queues:
        told["queue_classes"] = by_class(control_plane.queue_decisions(session.folder, tagged=True))
    return told


def by_class(decisions: Mapping[tuple[int, int, str], int]) -> dict[str, int]:
    """Packets of all ports, by class and decision as in `3 drop`. The class that is dropped first comes first."""
    found: dict[tuple[int, str], int] = {}
    for (_, drop_class, decision), packets in decisions.items():
        if decision != "pass":
            key = (-drop_class, decision)
            found[key] = found.get(key, 0) + packets
    return {f"{-negative} {decision}": found[negative, decision] for negative, decision in sorted(found)}
