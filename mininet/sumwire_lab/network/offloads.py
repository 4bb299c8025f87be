# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Segmentation and checksum offloads of the hosts' interfaces.

Every real host has them, and a process that sends trains of packets pays many times less per packet with them. A host
of the lab keeps them wherever what it talks to takes trains and partial checksums.
"""

from __future__ import annotations

from typing import Final

from sumwire_lab.network.switches import choose_engine
from sumwire_lab.options.run_options import AGGREGATOR, RunOptions

OFFLOADS: Final = ("tx", "rx", "sg", "tso", "gso", "gro")
"""Offloads by the names of `ethtool -K`."""


def kept(kind: str | None, options: RunOptions) -> bool:
    """Whether hosts keep their offloads in a network with this kind of switch; None: kernel bridges.

    bmv2 and the soft switch's Python engine read frames one by one, as they are. Random loss, and queues by priority
    that are full, act on what crosses a link as one frame, so they would take whole trains.
    """
    whole_trains_lost = options.conditions.loss > 0 or options.conditions.gray is not None or options.link.priorities
    takes_trains = kind in (None, AGGREGATOR) or (kind == "soft" and choose_engine(options.engine) == "native")
    return takes_trains and not whole_trains_lost


def off_command(interface: str) -> list[str]:
    """Command after which frames leave as on a real wire: not joined or split, and with their checksums."""
    return ["ethtool", "-K", interface, *(word for name in OFFLOADS for word in (name, "off"))]
