# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The P4 switches' virtual queues for tagged packets: configuration, and what they have decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import Fabric

if TYPE_CHECKING:
    from sumwire_lab.run.session import Session

_FRAME_BYTES: Final = 1500
# Thresholds of a virtual queue as shares of the link's own queue: marks from the first on, drop classes 3, 2, 1 and 0,
# and all. The real queue must be the last to be full, or it would drop without looking at the class.
_MARK: Final = 1 / 16
_DROP: Final = (1 / 8, 1 / 4, 1 / 2, 3 / 4)
_DROP_ALL: Final = 7 / 8


def virtual_queues(fabric: Fabric) -> list[dict[str, Any]]:
    """One for each limited port of the P4 switches, as the controller reads it: drained at the link's rate."""
    host, trunk = fabric.link, fabric.link.trunk()
    ports = [(h.switch, h.port, host) for h in fabric.hosts]
    ports += [(t.lower, t.lower_port, trunk) for t in fabric.trunks]
    ports += [(t.upper, t.upper_port, trunk) for t in fabric.trunks]
    several = len(fabric.switches) > 1
    return [
        {
            **({"switch": switch} if several else {}),
            "port": port,
            "rate_mbit": link.mbit,
            **thresholds(link.queue_packets * _FRAME_BYTES),
        }
        for switch, port, link in sorted(ports, key=lambda one: one[:2])
    ]


def thresholds(queue_bytes: int) -> dict[str, Any]:
    """A virtual queue's, for a link whose real queue holds so many bytes."""
    return {
        "mark_bytes": int(_MARK * queue_bytes),
        "drop_bytes": [int(share * queue_bytes) for share in _DROP],
        "drop_all_bytes": int(_DROP_ALL * queue_bytes),
    }


def no_queues(fabric: Fabric) -> list[dict[str, Any]]:
    """Of systems whose packets have no tags."""
    return []


def drops(session: Session, *, queues: bool) -> dict[str, dict[str, int]]:
    """Where tagged packets were lost so far: in links' queues by priority, and, where P4 switches have virtual queues,
    what those decided by drop class (packets that simply passed aside). Raises LabError."""
    told = {"link_priorities": {str(key): count for key, count in session.network.priority_drops().items()}}
    if queues:
        told["queue_classes"] = by_class(control_plane.queue_decisions(session.folder))
    return told


def by_class(decisions: Mapping[tuple[int, int, str], int]) -> dict[str, int]:
    """Packets of all ports as `3 drop` and so on, the class that is lost first at the front."""
    found: dict[tuple[int, str], int] = {}
    for (_, drop_class, decision), packets in decisions.items():
        if decision != "pass":
            key = (-drop_class, decision)
            found[key] = found.get(key, 0) + packets
    return {f"{-negative} {decision}": found[negative, decision] for negative, decision in sorted(found)}
