# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A switch program on one veth pair, 16 hosts behind its one port: a source of merged signs, and their rate.

`python tests/statistics/wired.py [soft] [bmv2]` prints SIGN packets per second (root).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

if __package__ in (None, ""):  # run as a script
    sys.path.insert(0, str(Path(__file__).parents[1]))

import grpc
import numpy as np
from packet import rigs
from sumwire import _p4 as p4
from sumwire.multihop.statistics import Signs, signs_of
from sumwire.wire import unpack
from sumwire_controller.operations import apply
from sumwire_controller.parse import parse_config

if __package__ in (None, ""):
    from networks import LOWER_BYTES, PAYLOAD_AT, SLOTS, VALUES, Node, seats_of, star_config
else:
    from .networks import LOWER_BYTES, PAYLOAD_AT, SLOTS, VALUES, Node, seats_of, star_config

ANSWER_S: Final = 5.0
# Nothing here is sent again: what is in flight must fit the smallest buffer on the way.
PACKETS_IN_FLIGHT: Final = 16
SO_RCVBUFFORCE: Final = 33
BUFFER_BYTES: Final = 4 << 20
RATE_WORKERS: Final = 4
RATE_SECONDS: Final = 4.0
RATE_REPEATS: Final = 3
COMMANDS: Final = {"soft": rigs.soft_command, "bmv2": rigs.bmv2_command}


class Wired:
    """One running switch and the far end of its cable."""

    def __init__(self, trees: Sequence[Node], link: socket.socket) -> None:
        self._trees = trees
        self._link = link
        self._sequence = [0] * len(trees)

    def rounds(self, job: int, signs: Signs, rounds: int) -> Signs:
        """A source, as Network.rounds is; some slots are in flight."""
        seats = seats_of(self._trees, job, signs)
        first = self._sequence[job]
        self._sequence[job] = first + rounds
        merged: dict[int, bytes] = {}
        sent = 0
        in_flight = max(1, min(SLOTS // 2, PACKETS_IN_FLIGHT // len(seats)))
        while len(merged) < rounds:
            while sent < rounds and sent - len(merged) < in_flight:
                round_, slot = divmod(first + sent, SLOTS)
                for seat in seats:
                    self._link.send(seat.at(slot, round_))
                sent += 1
            number, payload = self._result(len(seats))
            merged[number - first] = payload
        packed = np.stack([np.frombuffer(merged[k], np.uint8) for k in range(rounds)])
        return np.unpackbits(packed, axis=1).astype(np.bool_)

    def _result(self, workers: int) -> tuple[int, bytes]:
        """The next slot's result: as many equal copies as workers, all at this port, one after the other."""
        copies = set()
        for _ in range(workers):
            ready, _, _ = select.select([self._link], [], [], ANSWER_S)
            if not ready:
                raise AssertionError(f"no result for {ANSWER_S} s")
            copies.add(self._link.recv(2048)[LOWER_BYTES:])
        headers = {unpack(copy)[0] for copy in copies}
        (header,) = {(header.round, header.slot, header.count, header.kind) for header in headers}
        round_, slot, count, kind = header
        if (count, kind) != (workers, p4.KIND_RESULT):
            raise AssertionError(f"count {count}, kind {kind}: not the result of {workers} workers")
        (payload,) = {copy[PAYLOAD_AT - LOWER_BYTES :] for copy in copies}
        return round_ * SLOTS + slot, payload


@contextlib.contextmanager
def wired(kind: str, trees: Sequence[Node], log: Path) -> Iterator[Wired]:
    """Start a switch program, give it its entries, end it afterwards."""
    address = f"127.0.0.1:{rigs.free_port()}"
    with contextlib.ExitStack() as stack:
        ours, theirs = stack.enter_context(rigs.veth_pair(f"sgn{os.getpid() % 10000}"))
        output = stack.enter_context(log.open("wb"))
        process = subprocess.Popen(COMMANDS[kind]([ours], address), stdout=output, stderr=output)
        stack.callback(process.wait, 10)
        stack.callback(process.terminate)
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(rigs.READY_S)
        apply(parse_config(star_config(trees, address)))
        link = stack.enter_context(rigs.raw_socket(theirs))
        link.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        yield Wired(trees, link)


def rate(kind: str, seconds: float) -> float:
    """SIGN packets per second into the switch, 4 workers, half of 8 slots in flight, all 4 copies of a result read."""
    with tempfile.TemporaryDirectory() as folder, wired(kind, [Node("a", RATE_WORKERS)], Path(folder, "log")) as switch:
        signs = signs_of(RATE_WORKERS, VALUES)
        rounds = 200
        switch.rounds(0, signs, rounds)
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            switch.rounds(0, signs, rounds)
            done += rounds
        return done * RATE_WORKERS / (time.perf_counter() - began)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=["soft", "bmv2"], help="soft, bmv2")
    kinds = parser.parse_args(arguments).kinds
    for _ in range(RATE_REPEATS):
        for kind in kinds:
            packets = rate(kind, RATE_SECONDS)
            sys.stdout.write(f"{kind}: {packets:,.0f} SIGN packets/s, {packets * VALUES / 1e6:,.0f} million signs/s\n")


if __name__ == "__main__":
    main(sys.argv[1:])
