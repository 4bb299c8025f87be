# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Receives batches of datagrams by recvmmsg, into arrays made once (see sumwire.wire.messages)."""

from __future__ import annotations

import ctypes
import socket
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sumwire.aggregator.batches import ROW_BYTES, Batch
from sumwire.aggregator.kernels import DatagramArrays
from sumwire.wire.batch import receive_trains
from sumwire.wire.controls import CONTROLS_BYTES, ReceivedControls, ask_for_tos
from sumwire.wire.header import HEADER_BYTES
from sumwire.wire.messages import (
    MESSAGE,
    NOTHING_THERE,
    VECTOR,
    address_of,
    calls,
    checked,
)
from sumwire.wire.trains import TRAIN_ROWS, Arrivals

# The size of struct sockaddr_in, and the offsets of its port and address.
_NAME_BYTES: Final = 16
_PORT_AT: Final = 2
_ADDRESS_AT: Final = 4
# More datagrams of one message than any kernel joins; what does not fit is lost.
_TRAIN_MOST: Final = 2 * TRAIN_ROWS
# Precedes each datagram that is handed over.
_ORIGIN: Final = np.dtype([("source", np.uint32), ("port", ">u2"), ("tos", np.uint8), ("", np.uint8)])


class Datagrams:
    """Room for the datagrams of a call, which C takes apart."""

    def __init__(self, library: ctypes.CDLL, room: int) -> None:
        self._take_apart = library.aggregator_take_apart
        at, heads = np.zeros(room, np.uintp), np.zeros((room, HEADER_BYTES), np.uint8)
        sizes, sources = np.zeros(room, np.uint32), np.zeros(room, np.uint32)
        ports, tos = np.zeros(room, ">u2"), np.zeros(room, np.uint8)
        self.batch = Batch(heads, sizes, sources, ports, tos, 0, at=at)
        self.arrays = DatagramArrays(
            room=room,
            control_bytes=CONTROLS_BYTES,
            data=address_of(at),
            heads=address_of(heads),
            sizes=address_of(sizes),
            sources=address_of(sources),
            ports=address_of(ports),
            tos=address_of(tos),
        )

    def take_apart(self, messages: int, count: int) -> Batch:
        """The datagrams of so many messages at an address."""
        return self.taken(int(self._take_apart(messages, count, self.arrays)))

    def taken(self, count: int) -> Batch:
        """So many datagrams, which C has taken apart."""
        self.batch.count, self.batch.longest = count, int(self.arrays.longest)
        return self.batch


class UdpReceiver:
    """Receives datagrams, with their senders' addresses and TOS, from a UDP socket; trains of them in one piece.

    ``messages``: how many messages a call takes at most, each a datagram or a train. ``library``: takes trains apart
    without copying them; numpy, without a library, copies them.
    """

    def __init__(self, udp: socket.socket, messages: int, library: ctypes.CDLL | None = None) -> None:
        self._socket = udp
        ask_for_tos(udp)
        self.receives_trains, self.messages = receive_trains(udp), messages
        self._receive = calls()[1]
        self._messages = np.zeros(messages, MESSAGE)
        names = np.zeros((messages, _NAME_BYTES), np.uint8)
        self._arrivals = Arrivals(messages, row_bytes=ROW_BYTES, usual_bytes=ROW_BYTES, trains=self.receives_trains)
        self.datagrams = None if library is None else Datagrams(library, messages * _TRAIN_MOST)
        memory = self._arrivals.memory
        self._vectors = np.zeros(messages, VECTOR)
        self._vectors["base"] = address_of(memory) + np.arange(messages) * memory.strides[0]
        self._vectors["length"] = memory.shape[1]
        header = self._messages["header"]
        header["name"] = address_of(names) + np.arange(messages) * _NAME_BYTES
        header["name_length"] = _NAME_BYTES
        header["vectors"] = address_of(self._vectors) + np.arange(messages) * VECTOR.itemsize
        header["vectors_length"] = 1
        self.address = address_of(self._messages)
        self._controls = ReceivedControls(header)
        self._sources = names[:, _ADDRESS_AT:][:, :4].view(np.uint32)[:, 0]
        self._ports = names[:, _PORT_AT:][:, :2].view(">u2")[:, 0]

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> Batch:
        """The datagrams that have arrived. The next call overwrites them."""
        count = received(self._receive, self.fileno(), self.address, self.messages)
        return self._copied(count) if self.datagrams is None else self.datagrams.take_apart(self.address, count)

    def _copied(self, count: int) -> Batch:
        """The datagrams of the first messages, taken apart by numpy."""
        arrivals, origins = self._arrivals, [self._sources[:count], self._ports[:count], self._controls.tos(count)]
        arrivals.take_apart(self._messages["length"][:count], self._controls.sizes(count))
        longest = 1
        if arrivals.counts is not None:
            longest = int(arrivals.counts.max())
            origins = [np.repeat(array, arrivals.counts) for array in origins]
        sources, ports, tos = origins
        self._controls.renew(count)
        return Batch(arrivals.rows, arrivals.sizes, sources, ports, tos, len(arrivals.sizes), longest)


class HandOver:
    """A process's inbox for datagrams that other processes received, each preceded by its sender and TOS.

    It is a pair of connected sockets: all processes write, one reads.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._reader, self._writer):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)

    def fileno(self) -> int:
        return self._reader.fileno()

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def put(self, batch: Batch, which: NDArray[np.intp]) -> int:
        """Pass on some datagrams of a batch. Returns how many there was room for."""
        send = calls()[0]
        origins, vectors = np.zeros(len(which), _ORIGIN), np.zeros((len(which), 2), VECTOR)
        origins["source"], origins["port"] = batch.sources[which], batch.ports[which]
        origins["tos"] = batch.tos[which]
        vectors["base"][:, 0] = address_of(origins) + np.arange(len(which)) * _ORIGIN.itemsize
        vectors["length"][:, 0] = _ORIGIN.itemsize
        vectors["base"][:, 1] = batch.addresses()[which]
        vectors["length"][:, 1] = np.minimum(batch.sizes[which], ROW_BYTES)
        messages = np.zeros(len(which), MESSAGE)
        messages["header"]["vectors"] = address_of(vectors) + np.arange(len(which)) * 2 * VECTOR.itemsize
        messages["header"]["vectors_length"] = 2
        try:
            return checked(send(self._writer.fileno(), address_of(messages), len(which), socket.MSG_DONTWAIT))
        except BlockingIOError:
            return 0


class HandOverReceiver:
    """Receives datagrams from a process's inbox."""

    def __init__(self, inbox: HandOver, batch: int) -> None:
        self._inbox = inbox
        self._receive = calls()[1]
        self._messages = np.zeros(batch, MESSAGE)
        origins, rows = np.zeros(batch, _ORIGIN), np.zeros((batch, ROW_BYTES), np.uint8)
        self._vectors = np.zeros((batch, 2), VECTOR)
        self._vectors["base"][:, 0] = address_of(origins) + np.arange(batch) * _ORIGIN.itemsize
        self._vectors["length"][:, 0] = _ORIGIN.itemsize
        self._vectors["base"][:, 1] = address_of(rows) + np.arange(batch) * ROW_BYTES
        self._vectors["length"][:, 1] = ROW_BYTES
        self._messages["header"]["vectors"] = address_of(self._vectors) + np.arange(batch) * 2 * VECTOR.itemsize
        self._messages["header"]["vectors_length"] = 2
        sizes = np.zeros(batch, np.uint32)
        self.batch = Batch(rows, sizes, origins["source"], origins["port"], origins["tos"], 0)

    def fileno(self) -> int:
        return self._inbox.fileno()

    def receive(self) -> Batch:
        """The datagrams that have arrived, a batch at most. The next call overwrites them."""
        batch = self.batch
        batch.count = received(self._receive, self.fileno(), address_of(self._messages), len(self._messages))
        np.subtract(self._messages["length"], _ORIGIN.itemsize, out=batch.sizes)
        return batch


def received(call: Any, descriptor: int, messages: int, room: int) -> int:
    """Call recvmmsg without waiting, for messages at an address. Returns their number."""
    count = int(call(descriptor, messages, room, socket.MSG_DONTWAIT, None))
    return 0 if count < 0 and ctypes.get_errno() in NOTHING_THERE else checked(count)
