# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures the paths between ranks, with a TCP stream from each to the next. Called by `sumwire pays` and `auto`.

All ranks send at once, as in an all-reduce, so links that several of them share count as they will in a training.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from sumwire.start.addresses import address_of, machine_id, source_towards
from sumwire.start.errors import PlaceError
from sumwire.start.launchers import RENDEZVOUS, check_numbers, torchrun_variables
from sumwire.start.rendezvous import Rendezvous

_QUESTIONS: Final = 200
_QUESTION: Final = bytes(64)
_LAST_QUESTION: Final = b"\1".ljust(64, b"\0")
# On a long path fewer questions are asked.
_QUESTIONS_S: Final = 0.5
# The first part of a stream is left out: TCP finds the rate meanwhile, and queues fill.
_WARM_S: Final = 0.5
_STREAM_S: Final = 1.5
_PART_BYTES: Final = 1 << 18
_LOOPBACK: Final = "127.0.0.1"
_PATIENCE_S: Final = 20.0
_ENDED: Final = "a rank has ended while paths were measured: see its output, then start all ranks again"
# Bytes on the cable for each of the stream: 1448 of 1538 in a packet of TCP over Ethernet.
_CABLE: Final = 1538 / 1448


@dataclass(frozen=True)
class Paths:
    """``link_bps``: bit/s on the cable of the slowest path. ``rtt_s``: the longest median of a question and its answer,
    from machine to machine."""

    ranks: int
    link_bps: float
    rtt_s: float


def meeting() -> Rendezvous | None:
    """Return the ranks that a launcher has started; None for a program by itself. Raises PlaceError."""
    told = {**os.environ, **torchrun_variables(os.environ)}
    if "RANK" not in told or told.get("WORLD_SIZE", "1") == "1":
        return None
    missing = [name for name in RENDEZVOUS if name not in told]
    if missing:
        raise PlaceError(
            f"RANK and WORLD_SIZE, but no {', '.join(missing)} in the environment: start the ranks by torchrun, srun "
            "or mpirun, or leave RANK out and give --rate"
        )
    os.environ.update(told)
    check_numbers()
    timeout = dist.default_pg_timeout
    store, rank, ranks = next(rendezvous("env://", timeout=timeout))
    return Rendezvous(store, rank, ranks, timeout)


def are_on_one_machine(meeting: Rendezvous) -> bool:
    """Return whether all ranks are on one machine: a collective call of all ranks."""
    return len({*meeting.gather(machine_id())}) == 1


def measured(meeting: Rendezvous, *, within: bool = False) -> Paths:
    """Measure for two seconds: a collective call of all ranks. ``within``: of one machine, by loopback. Raises
    PlaceError."""
    if not within:
        machines = meeting.gather(machine_id())
        meeting.telling(lambda: _check_places(machines))
    own = _LOOPBACK if within else _own_address(meeting)
    try:
        found = _by_rank(meeting, own)
    except OSError as error:
        raise PlaceError(_ENDED) from error
    return Paths(meeting.ranks, min(rate for rate, _ in found), max(rtt for _, rtt in found))


def _own_address(meeting: Rendezvous) -> str:
    """The address by which this machine and that of rank 0 reach each other. On Debian rank 0's machine knows itself
    by 127.0.1.1, and only the others know better."""
    known = meeting.gather(meeting.telling(_master))
    outside = next((one for one in known if one and not IPv4Address(one).is_loopback), None)
    return meeting.telling(lambda: source_towards(outside or known[meeting.rank]))


def _master() -> str:
    if "MASTER_ADDR" not in os.environ:
        raise PlaceError(
            "no MASTER_ADDR in the environment, by which ranks on several machines find each other to measure paths: "
            "set it to an address of rank 0's machine on all ranks"
        )
    return address_of(os.environ["MASTER_ADDR"])


def _by_rank(meeting: Rendezvous, own: str) -> list[Any]:
    """Return what each rank has measured: bit/s of the stream that came to it, and seconds of a question.

    Raises OSError where a rank ends meanwhile.
    """
    with _next_and_previous(meeting, own) as (following, previous), ThreadPoolExecutor(1) as beside:
        answering = beside.submit(_answer, previous)
        rtt_s = meeting.telling(lambda: _asked(following))
        meeting.telling(answering.result)
        # Streams would stand in the way of questions.
        meeting.gather(None)
        receiving = beside.submit(_received, previous)
        meeting.telling(lambda: _stream(following))
        return meeting.gather((meeting.telling(receiving.result), rtt_s))


def _check_places(machines: list[str]) -> None:
    for number, one in enumerate(machines):
        if machines.index(one) != number:
            raise PlaceError(
                f"ranks {machines.index(one)} and {number} are on one machine, so no link is between them: start one "
                "rank on each machine; or give --rate and --rtt to a single `sumwire pays`, or leave system= out of "
                "sumwire.init()"
            )


@contextlib.contextmanager
def _next_and_previous(meeting: Rendezvous, own: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Streams to the next rank and from the previous one."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(meeting.telling(lambda: _listening(own)))
        at = meeting.gather(listener.getsockname())
        number = (meeting.rank + 1) % meeting.ranks
        following = stack.enter_context(meeting.telling(lambda: _connected(at[number], number)))
        previous = stack.enter_context(meeting.telling(lambda: listener.accept()[0]))
        for one in (following, previous):
            one.settimeout(_PATIENCE_S)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield following, previous


def _listening(own: str) -> socket.socket:
    listener = socket.create_server((own, 0), backlog=1)
    listener.settimeout(_PATIENCE_S)
    return listener


def _connected(at: Sequence[Any], rank: int) -> socket.socket:
    try:
        return socket.create_connection((at[0], at[1]), _PATIENCE_S)
    except OSError as error:
        raise PlaceError(
            f"rank {rank} at {at[0]}, TCP port {at[1]}: {error.strerror or error}: let TCP pass between the machines"
        ) from error


def _answer(peer: socket.socket) -> None:
    question = b""
    while question != _LAST_QUESTION:
        question = _read(peer)
        peer.sendall(question)


def _read(peer: socket.socket) -> bytes:
    read = b""
    while len(read) < len(_QUESTION):
        part = peer.recv(len(_QUESTION) - len(read))
        if not part:
            raise PlaceError(_ENDED)
        read += part
    return read


def _asked(peer: socket.socket) -> float:
    took: list[float] = []
    end, is_last = time.perf_counter() + _QUESTIONS_S, False
    while not is_last:
        began = time.perf_counter()
        is_last = len(took) + 1 == _QUESTIONS or began >= end
        peer.sendall(_LAST_QUESTION if is_last else _QUESTION)
        _read(peer)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _stream(peer: socket.socket) -> None:
    part, end = bytes(_PART_BYTES), time.perf_counter() + _STREAM_S
    while time.perf_counter() < end:
        peer.sendall(part)
    peer.shutdown(socket.SHUT_WR)


def _received(peer: socket.socket) -> float:
    """Bit/s on the cable, of the stream without its first part."""
    room, began = bytearray(_PART_BYTES), 0.0
    counted, since, now = 0, 0.0, 0.0
    while count := peer.recv_into(room):
        now = time.perf_counter()
        began = began or now
        if since:
            counted += count
        elif now >= began + _WARM_S:
            since = now
    if not counted:
        raise PlaceError(_ENDED)
    return 8 * _CABLE * counted / (now - since)
