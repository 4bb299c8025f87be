# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends tagged datagrams at a given rate: `python -m sumwire_lab.experiments.overload_sender SPEC.json SEED`.

Ordinary UDP between two hosts: the switch forwards it, so that what is lost is lost in the queue under test.
"""

from __future__ import annotations

import json
import random
import select
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sumwire.dlcp.tags import Tag

from sumwire_lab.system.processes import end_with_parent

PAYLOAD_BYTES: Final = 1000
FRAME_BYTES: Final = PAYLOAD_BYTES + 42
DROP_CLASSES: Final = 4


def sender_sockets(spec: Mapping[str, Any]) -> list[socket.socket]:
    """One socket for each drop class, because a socket has one tag."""
    sockets = []
    for drop_class in range(DROP_CLASSES):
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, Tag(0, drop_class).tos)
        udp.connect((spec["receiver"], spec["port"]))
        sockets.append(udp)
    return sockets


def send(spec: Mapping[str, Any], seed: int) -> list[int]:
    """Datagrams sent, by drop class. ``spec``: seconds, mbit, shares by class, receiver, port."""
    draw = random.Random(seed)
    sockets = sender_sockets(spec)
    sent = [0] * DROP_CLASSES
    gap_s = FRAME_BYTES * 8 / (spec["mbit"] * 1e6)
    began = now = time.monotonic()
    nothing = select.poll()
    count = 0
    while now - began < spec["seconds"]:
        wait_s = began + count * gap_s - now
        if wait_s > 0:
            nothing.poll(max(1, int(wait_s * 1000)))
        else:
            drop_class = draw.choices(range(DROP_CLASSES), spec["shares"])[0]
            # The payload repeats the class, by which the receiver counts.
            sockets[drop_class].send(bytes([drop_class]) * PAYLOAD_BYTES)
            sent[drop_class] += 1
            count += 1
        now = time.monotonic()
    return sent


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, seed = json.loads(Path(arguments[0]).read_text()), int(arguments[1])
    Path(spec["sent"][seed]).write_text(json.dumps(send(spec, seed)))


if __name__ == "__main__":
    main(sys.argv[1:])
