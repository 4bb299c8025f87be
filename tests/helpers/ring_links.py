# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Links between the ranks of a ring on this machine, over real sockets, that lose and mark packets by rule."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from sumwire.multihop.bounded_ring import BoundedRing, Reduced, Tagger
from sumwire.multihop.neighbours import Neighbours

HOST = "127.0.0.1"
TOKEN = 0x1234_5678_9ABC_DEF0
# From linux/in.h.
IP_RECVTOS = 13


@dataclass(frozen=True)
class Seen:
    """A datagram on link number ``link``: whether it goes to the next rank (else it is an answer), its place among
    those
    of this direction, from 0, its bytes and its TOS byte."""

    link: int
    onward: bool
    place: int
    data: bytes
    tos: int


# What becomes of it: the TOS byte that it goes on with, or None if it is lost.
Rule = Callable[[Seen], int | None]


def passes(seen: Seen) -> int | None:
    return seen.tos


@dataclass
class Link:
    """Between two ranks: ``to_next`` is where the one sends values, ``to_before`` where the other sends answers."""

    number: int
    rule: Rule
    seen: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.to_next, self.to_before = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        for end in (self.to_next, self.to_before):
            end.bind((HOST, 0))
            end.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)

    def forward(self, sender: tuple[str, int], receiver: tuple[str, int], stop: threading.Event) -> None:
        """Until ``stop``: pass on what comes, from and to these addresses."""
        places = {True: 0, False: 0}
        while not stop.is_set():
            for end in select.select([self.to_next, self.to_before], [], [], 0.05)[0]:
                data, ancillary, _, _ = end.recvmsg(2048, socket.CMSG_SPACE(4))
                tos = next((value[0] for _, kind, value in ancillary if kind == socket.IP_TOS), 0)
                onward = end is self.to_next
                seen = Seen(self.number, onward, places[onward], data, tos)
                places[onward] += 1
                self.seen.append(seen)
                given = self.rule(seen)
                if given is None:
                    continue
                # The ends are connected, so what goes on comes from the other end of the link.
                other, target = (self.to_before, receiver) if onward else (self.to_next, sender)
                control = [(socket.IPPROTO_IP, socket.IP_TOS, bytes([given]))]
                other.sendmsg([data], control, 0, target)


@dataclass
class Ring:
    """``links``: number r is between rank r and the next one."""

    ranks: list[BoundedRing]
    neighbours: list[Neighbours]
    links: list[Link]
    pool: ThreadPoolExecutor

    def reduce(self, values: Sequence[np.ndarray], tag: Tagger | None = None) -> list[Reduced]:
        """All ranks at once."""
        calls = [self.pool.submit(rank.reduce, x, tag) for rank, x in zip(self.ranks, values, strict=True)]
        return [call.result(30) for call in calls]


@contextmanager
def ring(ranks: int, bound: float = 0.0, rule: Rule = passes, silence_s: float = 10.0) -> Iterator[Ring]:
    """A ring of so many ranks in this process; every link has the rule."""
    stop = threading.Event()
    ends = [Neighbours(HOST, silence_s=silence_s) for _ in range(ranks)]
    links = [Link(number, rule) for number in range(ranks)]
    with ThreadPoolExecutor(3 * ranks) as pool:
        for rank, end in enumerate(ends):
            after, link, behind = ends[(rank + 1) % ranks], links[rank], links[rank - 1]
            end.connect(behind.to_before.getsockname(), link.to_next.getsockname(), TOKEN)
            pool.submit(link.forward, (HOST, end.ports.answers), (HOST, after.ports.values), stop)
        try:
            yield Ring([BoundedRing(end, ranks, n, bound) for n, end in enumerate(ends)], ends, links, pool)
        finally:
            list(pool.map(Neighbours.close, ends))
            stop.set()
    for link in links:
        link.to_next.close()
        link.to_before.close()
