# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The P4 program in this process: a soft switch, a job that the controller installs, and three packets of one chunk.

    python examples/soft_switch.py

No interface and no root: frames go in and come out by a function call.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import sumwire_controller as controller
from softswitch.p4runtime.server import serve
from softswitch.switch import SoftSwitch
from sumwire.wire import Header, pack, unpack
from sumwire_protocol import constants as p4

CONFIG = Path(__file__).with_name("soft_switch.yaml").read_text()
HEADERS = 42  # Ethernet, IPv4 and UDP


def contribution(worker: int, value: int) -> bytes:
    """A MAX32 contribution to slot 2 in round 0: 32 times the same number."""
    header = Header(p4.KIND_CONTRIBUTE, p4.OP_MAX32, job=1, slot=2, worker=worker, words=p4.ELEMENTWISE_WORDS)
    return pack(header, struct.pack("!32I", *[value] * 32))


def frame(datagram: bytes, worker: int) -> bytes:
    """A worker's datagram as it arrives at the switch."""
    udp = struct.pack("!4H", 21335, 21335, 8 + len(datagram), 0)
    addresses = socket.inet_aton(f"10.0.0.{1 + worker}") + socket.inet_aton("10.0.0.100")
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp + datagram), 0, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack("!10H", ip))
    checksum = ~(total + (total >> 16)) & 0xFFFF
    ip = ip[:10] + struct.pack("!H", checksum) + ip[12:]
    ethernet = bytes.fromhex("025357000064") + bytes([0, 0, 0, 0, 0, 1 + worker]) + b"\x08\x00"
    return ethernet + ip + udp + datagram


def main() -> None:
    switch = SoftSwitch(seed=1)
    server = serve(switch, "127.0.0.1:0", device_id=1)
    try:
        config = controller.parse_config(CONFIG.replace("127.0.0.1:9559", f"127.0.0.1:{server.port}"))
        report = controller.apply(config)
        print(f"program loaded: {report.program_loaded}")
        for worker, value in ((0, 7), (0, 7), (1, 9)):
            replies = switch.process(1 + worker, frame(contribution(worker, value), worker))
            print(f"worker {worker} sends {value}: {len(replies)} replies")
        for port, reply in replies:
            result, payload = unpack(reply[HEADERS:])
            largest = struct.unpack("!32I", payload)
            assert set(largest) == {9}
            print(f"to port {port}: maximum {largest[0]} of {result.count} workers")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
