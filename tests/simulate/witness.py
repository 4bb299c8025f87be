# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sees every frame at a star's switch and what it answers: a result is the golden sum of what contributors sent."""

from __future__ import annotations

import numpy as np
from golden import model, ops
from golden.model import Packet
from golden.tags import tag_of

from simulate.network import KEY, TABLE, Network
from simulate.switches import Frames

Place = tuple[int, int, int, int]


class Witness:
    """Tells the world's violations."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._given: dict[Place, dict[int, list[Packet]]] = {}
        self._results: dict[Place, Packet] = {}
        if not network.shape.above:
            network.on_frame = self.see

    def see(self, name: str, port: int, frame: bytes, leaving: Frames) -> None:
        packet = _sumwire(frame)
        if packet is None:
            return
        place = self._network.generation, packet.job, packet.slot, packet.round
        if packet.kind == model.CONTRIBUTE and self._is_genuine(packet, frame):
            given = self._given.setdefault(place, {}).setdefault(packet.worker, [])
            if packet not in given:
                given.append(packet)
        for _, sent in leaving:
            answer = _sumwire(sent)
            if answer is not None and answer.kind == model.RESULT:
                self._check(answer)

    def _is_genuine(self, packet: Packet, frame: bytes) -> bool:
        """Whether a packet is as a worker has sent it. Where no bits change on the way, all are."""
        if not self._network.weather.flip:
            return True
        tag = tag_of(KEY, packet._replace(tag=b"").encode(), frame[30:34])
        return packet.tag == tag.to_bytes(8, "big")

    def _check(self, result: Packet) -> None:
        place = self._network.generation, result.job, result.slot, result.round
        if result.count != result.contributors.bit_count():
            text = f"{_place(result)}: {result.count} contributions of {result.contributors:b}"
            self._network.world.violate(text, of_sums=True)
            return
        result = result._replace(worker=0, tag=b"")
        degraded = result.op == model.THC and self._network.terms.degrade
        if degraded:
            # What is cut the first time is whole when it is asked for again.
            result = result._replace(payload=b"", words=0, cut=0, flags=0)
        known = self._results.setdefault(place, result)
        if known != result:
            self._network.world.violate(f"{_place(result)} has two results", of_sums=True)
            return
        if known is result and not degraded and not self._is_sum(place, result):
            text = f"{_place(result)}: the result is not the sum of what its contributors sent"
            self._network.world.violate(text, of_sums=True)

    def _is_sum(self, place: Place, result: Packet) -> bool:
        """For signs, whether it may be drawn of them."""
        given = self._given.get(place, {})
        total: ops.Content | None = None
        for seat in range(32):
            if result.contributors >> seat & 1:
                own = [
                    packet
                    for packet in given.get(seat, ())
                    if (packet.op, packet.bucket, packet.chunk) == (result.op, result.bucket, result.chunk)
                ]
                if len(own) != 1:
                    return len(own) > 1
                content = ops.read(result.op, own[0].payload, TABLE, False)
                total = content if total is None else ops.fold(result.op, total, content)[0]
        if total is None:
            return not result.count
        if isinstance(total, ops.Signs):
            return total.allows(np.frombuffer(result.payload, np.uint8))
        return ops.result(result.op, total, result.count) == result.payload


def _place(packet: Packet) -> str:
    return f"slot {packet.slot} round {packet.round}"


def _sumwire(frame: bytes) -> Packet | None:
    if len(frame) < model.BARE or model.UDP_PORT not in (int.from_bytes(frame[34:36]), int.from_bytes(frame[36:38])):
        return None
    return model.decode(frame[42:])
