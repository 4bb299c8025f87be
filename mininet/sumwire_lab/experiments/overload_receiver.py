# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Counts received datagrams by drop class until no more come.

Run as `python -m sumwire_lab.experiments.overload_receiver SPEC.json`.
"""

from __future__ import annotations

import json
import select
import socket
import sys
from pathlib import Path
from typing import Final

from sumwire_lab.experiments.overload_sender import DROP_CLASSES
from sumwire_lab.system.processes import end_with_parent

READY: Final = "ready"
_FIRST_MS: Final = 60_000
_SILENCE_MS: Final = 1_500
_BUFFER_BYTES: Final = 4 << 20


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec = json.loads(Path(arguments[0]).read_text())
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    udp.bind((spec["receiver"], spec["port"]))
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    received, marked = [0] * DROP_CLASSES, 0
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    poll = select.poll()
    poll.register(udp, select.POLLIN)
    while poll.poll(_SILENCE_MS if any(received) else _FIRST_MS):
        data, control, _, _ = udp.recvmsg(2048, socket.CMSG_SPACE(4))
        received[data[0]] += 1
        marked += any(value[0] & 3 == 3 for _, _, value in control)
    Path(spec["received"]).write_text(json.dumps({"classes": received, "marked": marked}))


if __name__ == "__main__":
    main(sys.argv[1:])
