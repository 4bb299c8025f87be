# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Batches of datagrams from and to sockets, by recvmmsg and sendmmsg over arrays made once (see sumwire.batch)."""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sumwire.aggregator.batches import ROW_BYTES, Batch, Replies
from sumwire.aggregator.core import reply_arrays
from sumwire.aggregator.kernels import MessageArrays
from sumwire.batch import (
    JOINED_ROWS,
    MESSAGE,
    NO_SEGMENTS,
    NOTHING_THERE,
    UDP_SEGMENT,
    VECTOR,
    address_of,
    calls,
    checked,
)

# struct sockaddr_in, and where it has the address.
_NAME_BYTES: Final = 16
_ADDRESS_AT: Final = 4
# struct cmsghdr with a number of 16 bits, padded: tells the kernel what size to cut a message into.
_CONTROL: Final = np.dtype(
    [("length", np.uintp), ("level", np.int32), ("type", np.int32), ("size", np.uint16), ("", np.uint8, (6,))]
)
_CONTROL_LENGTH: Final = 18
# Messages that one call of the kernel takes.
_MESSAGES_MAX: Final = 1024
# How long a reply may wait for room in the socket before it is given up; its worker asks again.
_PATIENCE_S: Final = 0.1


class UdpReceiver:
    """Datagrams and their senders' addresses, from a UDP socket."""

    def __init__(self, udp: socket.socket, batch: int) -> None:
        self._socket = udp
        self._receive = calls()[1]
        self._messages = np.zeros(batch, MESSAGE)
        names = np.zeros((batch, _NAME_BYTES), np.uint8)
        rows = np.zeros((batch, ROW_BYTES), np.uint8)
        self._vectors = np.zeros(batch, VECTOR)
        self._vectors["base"] = address_of(rows) + np.arange(batch) * ROW_BYTES
        self._vectors["length"] = ROW_BYTES
        header = self._messages["header"]
        header["name"] = address_of(names) + np.arange(batch) * _NAME_BYTES
        header["name_length"] = _NAME_BYTES
        header["vectors"] = address_of(self._vectors) + np.arange(batch) * VECTOR.itemsize
        header["vectors_length"] = 1
        sources = names[:, _ADDRESS_AT:][:, :4].view(np.uint32)[:, 0]
        self.batch = Batch(rows, self._messages["length"], sources, 0)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> Batch:
        """What is there, up to a batch; the next call overwrites it."""
        batch = self.batch
        batch.count = received(self._receive, self.fileno(), self._messages)
        return batch


class HandOver:
    """One process's inbox for datagrams that came to another one, each with its sender's address in front.

    A pair of connected sockets: any process may write to it, one reads.
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
        """Pass on some of a batch. How many there was room for."""
        send = calls()[0]
        sources, vectors = batch.sources[which], np.zeros((len(which), 2), VECTOR)
        vectors["base"][:, 0] = address_of(sources) + np.arange(len(which)) * sources.itemsize
        vectors["length"][:, 0] = sources.itemsize
        vectors["base"][:, 1] = address_of(batch.rows) + which * ROW_BYTES
        vectors["length"][:, 1] = np.minimum(batch.sizes[which], ROW_BYTES)
        messages = np.zeros(len(which), MESSAGE)
        messages["header"]["vectors"] = address_of(vectors) + np.arange(len(which)) * 2 * VECTOR.itemsize
        messages["header"]["vectors_length"] = 2
        try:
            return checked(send(self._writer.fileno(), address_of(messages), len(which), socket.MSG_DONTWAIT))
        except BlockingIOError:
            return 0


class HandOverReceiver:
    """What others have put into a process's inbox."""

    def __init__(self, inbox: HandOver, batch: int) -> None:
        self._inbox = inbox
        self._receive = calls()[1]
        self._messages = np.zeros(batch, MESSAGE)
        sources, rows = np.zeros(batch, np.uint32), np.zeros((batch, ROW_BYTES), np.uint8)
        self._vectors = np.zeros((batch, 2), VECTOR)
        self._vectors["base"][:, 0] = address_of(sources) + np.arange(batch) * sources.itemsize
        self._vectors["length"][:, 0] = self._in_front = sources.itemsize
        self._vectors["base"][:, 1] = address_of(rows) + np.arange(batch) * ROW_BYTES
        self._vectors["length"][:, 1] = ROW_BYTES
        self._messages["header"]["vectors"] = address_of(self._vectors) + np.arange(batch) * 2 * VECTOR.itemsize
        self._messages["header"]["vectors_length"] = 2
        self.batch = Batch(rows, np.zeros(batch, np.uint32), sources, 0)

    def fileno(self) -> int:
        return self._inbox.fileno()

    def receive(self) -> Batch:
        """What is there, up to a batch; the next call overwrites it."""
        batch = self.batch
        batch.count = received(self._receive, self.fileno(), self._messages)
        np.subtract(self._messages["length"], self._in_front, out=batch.sizes)
        return batch


def received(call: Any, descriptor: int, messages: NDArray[np.void]) -> int:
    """recvmmsg without waiting. How many messages came."""
    count = int(call(descriptor, address_of(messages), len(messages), socket.MSG_DONTWAIT, None))
    return 0 if count < 0 and ctypes.get_errno() in NOTHING_THERE else checked(count)


class Sender:
    """Sends replies to workers' places; several of one size for one worker are one message, which the kernel cuts.

    ``sent`` and ``unsent`` count replies; what could not be sent is as a packet lost.
    """

    def __init__(
        self,
        udp: socket.socket,
        places: Sequence[tuple[str, int]],
        replies: Replies,
        library: ctypes.CDLL | None,
        *,
        joined: int = JOINED_ROWS,
    ) -> None:
        self.sent = self.unsent = 0
        self._socket, self._send = udp, calls()[0]
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 0, int(_PATIENCE_S * 1e6)))
        self._joined, self._library = joined, library
        room = len(replies.sizes)
        self._names = np.frombuffer(b"".join(map(_name, places)), np.uint8)
        self._vectors, self._messages = np.zeros(room, VECTOR), np.zeros(room, MESSAGE)
        self._controls = np.zeros(room, _CONTROL)
        self._starts = np.zeros(len(places) + 1, np.uint64)
        self._replies, self._reply_arrays = replies, reply_arrays(replies)
        self._arrays = MessageArrays(
            messages=address_of(self._messages),
            vectors=address_of(self._vectors),
            names=address_of(self._names),
            name_bytes=_NAME_BYTES,
            controls=address_of(self._controls),
            control_bytes=_CONTROL.itemsize,
            place_count=len(places),
            starts=address_of(self._starts),
        )

    def send(self) -> None:
        """Send all replies there are. Waits for room, but not for long."""
        count = self.arrange()
        at = 0
        while at < count:
            try:
                at += self._some(at, min(count - at, _MESSAGES_MAX))
            except OSError as error:
                if error.errno in NO_SEGMENTS and self._joined > 1:
                    # This socket does not cut. What went out already goes again, this once.
                    self._joined, at, count = 1, 0, 0
                    count = self.arrange()
                elif error.errno != errno.EINTR:
                    self.unsent += int(self._messages["header"]["vectors_length"][at])
                    at += 1

    def _some(self, first: int, count: int) -> int:
        address = address_of(self._messages) + first * MESSAGE.itemsize
        done = checked(self._send(self._socket.fileno(), address, count, 0))
        self.sent += int(self._messages["header"]["vectors_length"][first : first + done].sum())
        return done

    def arrange(self) -> int:
        """Lay the replies out as messages: by place, and in order within one. How many messages."""
        if self._library is None:
            return self._arrange()
        return int(
            self._library.aggregator_arrange(self._reply_arrays, self._replies.count, self._joined, self._arrays)
        )

    def _arrange(self) -> int:
        """What aggregator_arrange does."""
        count = self._replies.count
        order = np.argsort(self._replies.places[:count], kind="stable")
        places, sizes = self._replies.places[order].astype(np.intp), self._replies.sizes[order]
        self._vectors["base"][:count] = address_of(self._replies.rows) + order * self._replies.rows.strides[0]
        self._vectors["length"][:count] = sizes
        firsts = np.flatnonzero(_begins(places, sizes, self._joined))
        lengths = np.diff(firsts, append=count)
        header, controls = self._messages["header"][: len(firsts)], self._controls[: len(firsts)]
        header["name"] = address_of(self._names) + places[firsts] * _NAME_BYTES
        header["name_length"] = _NAME_BYTES
        header["vectors"] = address_of(self._vectors) + firsts * VECTOR.itemsize
        header["vectors_length"] = lengths
        controls["length"], controls["level"], controls["type"] = _CONTROL_LENGTH, socket.IPPROTO_UDP, UDP_SEGMENT
        controls["size"] = sizes[firsts]
        at = address_of(self._controls) + np.arange(len(firsts)) * _CONTROL.itemsize
        header["control"] = np.where(lengths > 1, at, 0)
        header["control_length"] = np.where(lengths > 1, _CONTROL.itemsize, 0)
        return len(firsts)


def _begins(places: NDArray[np.intp], sizes: NDArray[np.uint32], joined: int) -> NDArray[np.bool_]:
    """Where a message begins: at another place or size, and after every ``joined`` replies."""
    numbers = np.arange(len(places))
    other = np.ones(len(places), np.bool_)
    other[1:] = (places[1:] != places[:-1]) | (sizes[1:] != sizes[:-1])
    since = numbers - np.maximum.accumulate(np.where(other, numbers, 0))
    return np.asarray(since % joined == 0)


def _name(place: tuple[str, int]) -> bytes:
    ip, port = place
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(ip) + bytes(8)
