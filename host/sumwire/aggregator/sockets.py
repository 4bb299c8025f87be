# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Receives batches of datagrams by recvmmsg and sends replies by sendmmsg, with arrays that are allocated once.

See sumwire.wire.messages for the structures of the kernel. Used by `server`.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from commonlib.events import ProgramEvent
from nativelib.declarations import Native
from numpy.typing import NDArray

from sumwire.aggregator.batches import PAYLOAD_BYTES, PLAIN_REPLY, ROW_BYTES, Batch, Refusal, Replies
from sumwire.aggregator.core import reply_arrays
from sumwire.aggregator.kernels import TO_SINGLES
from sumwire.wire.batch import receive_trains
from sumwire.wire.messages import (
    CONTROLS_BYTES,
    MESSAGE,
    NO_TRAINS,
    NOTHING_THERE,
    UDP_SEGMENT,
    VECTOR,
    ReceivedControls,
    address_of,
    ask_for_tos,
    calls,
    checked,
)
from sumwire.wire.packets import HEADER_BYTES
from sumwire.wire.trains import TRAIN_BYTES, TRAIN_ROWS, Arrivals

# The size of struct sockaddr_in, and the offsets of its port and address.
_NAME_BYTES: Final = 16
_PORT_AT: Final = 2
_ADDRESS_AT: Final = 4
# More datagrams of one message than any kernel joins; what does not fit is lost.
_TRAIN_MOST: Final = 2 * TRAIN_ROWS


class Datagrams:
    """Buffers for the datagrams of one recvmmsg, which C splits from the trains."""

    def __init__(self, library: Native, room: int) -> None:
        self._take_apart = library.aggregator_take_apart
        at, heads = np.zeros(room, np.uintp), np.zeros((room, HEADER_BYTES), np.uint8)
        sizes, sources = np.zeros(room, np.uint32), np.zeros(room, np.uint32)
        ports, tos = np.zeros(room, ">u2"), np.zeros(room, np.uint8)
        self.batch = Batch(heads, sizes, sources, ports, tos, 0, at=at)
        self.arrays = library.aggregator_datagrams(
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
        """Split ``count`` messages at an address into datagrams."""
        return self.taken(int(self._take_apart(messages, count, self.arrays)))

    def taken(self, count: int) -> Batch:
        """Return the batch of ``count`` datagrams that C has split."""
        self.batch.count, self.batch.longest = count, int(self.arrays.longest)
        return self.batch


class UdpReceiver:
    """Receives datagrams with their senders' addresses and TOS from a UDP socket. Trains of datagrams arrive in one
    piece (GRO).

    ``messages``: how many messages, each a datagram or a train, one call takes at most. ``library``: the C library,
    which splits trains without copying them; without it numpy copies them.
    """

    def __init__(self, udp: socket.socket, messages: int, library: Native | None = None) -> None:
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
        """Return the datagrams that have arrived. The next call overwrites them."""
        count = received(self._receive, self.fileno(), self.address, self.messages)
        return self._copied(count) if self.datagrams is None else self.datagrams.take_apart(self.address, count)

    def _copied(self, count: int) -> Batch:
        """Split the first ``count`` messages into datagrams in numpy."""
        arrivals, origins = self._arrivals, [self._sources[:count], self._ports[:count], self._controls.tos(count)]
        arrivals.take_apart(self._messages["length"][:count], self._controls.sizes(count))
        longest = 1
        if arrivals.counts is not None:
            longest = int(arrivals.counts.max())
            origins = [np.repeat(array, arrivals.counts) for array in origins]
        sources, ports, tos = origins
        self._controls.renew(count)
        return Batch(arrivals.rows, arrivals.sizes, sources, ports, tos, len(arrivals.sizes), longest)


def received(call: Any, descriptor: int, messages: int, room: int) -> int:
    """Call recvmmsg without waiting, with ``room`` messages at address ``messages``. Returns how many arrived."""
    count = int(call(descriptor, messages, room, socket.MSG_DONTWAIT, None))
    return 0 if count < 0 and ctypes.get_errno() in NOTHING_THERE else checked(count)


_LOG: Final = logging.getLogger("sumwire.aggregator")
_PARTS: Final = 2
# The size of struct sockaddr_in.
# struct cmsghdr with a number, padded: the size (16 bits) of the datagrams that the kernel cuts a message into, or a
# TOS (32 bits).
CONTROL: Final = np.dtype(
    {
        "names": ["length", "level", "type", "size", "tos"],
        "formats": [np.uintp, np.int32, np.int32, np.uint16, np.int32],
        "offsets": [0, 8, 12, 16, 16],
        "itemsize": 24,
    }
)
_SIZE_LENGTH: Final = 18
_TOS_LENGTH: Final = 20
# The most messages of one sendmmsg.
_MESSAGES_MAX: Final = 1024
# Seconds that a reply waits for room in the socket before it is dropped. Its worker retransmits.
_SEND_TIMEOUT_S: Final = 0.1


class ReplySender:
    """Sends replies. Consecutive replies of one size and TOS to one receiver form one message, which the kernel cuts
    into datagrams (GSO).

    ``sent`` and ``unsent`` count replies. A reply that could not be sent is dropped; its worker retransmits.
    """

    def __init__(
        self, udp: socket.socket, places: Sequence[tuple[str, int]], replies: Replies, library: Native | None
    ) -> None:
        self.sent = self.unsent = 0
        self.sends_trains = True
        self._socket, self._send = udp, calls()[0]
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 0, int(_SEND_TIMEOUT_S * 1e6)))
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, PLAIN_REPLY)
        self._library = library
        room = len(replies.sizes)
        self._names = np.frombuffer(b"".join(map(_name, places)), np.uint8)
        # Of each reply, its header and its payload.
        self._vectors, self._messages = np.zeros((room, _PARTS), VECTOR), np.zeros(room, MESSAGE)
        self._address = address_of(self._messages)
        self._lengths = self._messages["header"]["vectors_length"]
        self._controls, self._tos = np.zeros((room, 2), CONTROL), np.zeros(room, np.uint8)
        self._starts = np.zeros(len(places) + 1, np.uint64)
        self._replies = replies
        if library is None:
            return
        self._reply_arrays = reply_arrays(library, replies)
        self.arrays = library.aggregator_messages(
            messages=self._address,
            vectors=address_of(self._vectors),
            names=address_of(self._names),
            name_bytes=_NAME_BYTES,
            controls=address_of(self._controls),
            control_bytes=self._controls.strides[0],
            place_count=len(places),
            starts=address_of(self._starts),
            tos=address_of(self._tos),
        )

    def send(self, longest: int = TRAIN_ROWS) -> None:
        """Send all replies, in trains of at most ``longest`` datagrams. Waits up to _SEND_TIMEOUT_S for room in the
        socket."""
        joined = (longest if longest > 1 else TO_SINGLES) if self.sends_trains else 1
        self.send_from(0, self.arrange(joined))

    def send_from(self, at: int, count: int) -> None:
        """Send messages ``at`` to ``count`` - 1 of those that :meth:`arrange` prepared."""
        lost = 0
        while at < count:
            try:
                at += self._some(at, min(count - at, _MESSAGES_MAX))
            except OSError as error:
                if error.errno in NO_TRAINS and self.sends_trains:
                    self._stop_joining(error)
                    # Start over: replies that were sent already are sent twice, this once.
                    at, lost, count = 0, 0, self.arrange(1)
                elif error.errno != errno.EINTR:
                    lost += int(self._lengths[at]) // _PARTS
                    at += 1
        self.sent += self._replies.count - lost
        self.unsent += lost

    def tell(self, refusals: Sequence[Refusal]) -> None:
        """Send single datagrams, without waiting for room in the socket."""
        for refusal in refusals:
            control = [(socket.IPPROTO_IP, socket.IP_TOS, struct.pack("@i", refusal.tos))]
            try:
                self._socket.sendmsg([refusal.data], control, socket.MSG_DONTWAIT, refusal.to)
                self.sent += 1
            except OSError:
                self.unsent += 1

    def _some(self, first: int, count: int) -> int:
        address = self._address + first * MESSAGE.itemsize
        return checked(self._send(self._socket.fileno(), address, count, 0))

    def _stop_joining(self, error: OSError) -> None:
        self.sends_trains = False
        _LOG.warning(
            "replies go one by one, at several times the processor time: the kernel, or a device to the workers, takes "
            "no trains of UDP packets (%s); `ethtool -K DEVICE tx on gso on` may help",
            error.strerror,
            extra=ProgramEvent.TRAINS_MISSING(reason=error.strerror),
        )

    def arrange(self, joined: int) -> int:
        """Group the replies into messages of at most ``joined`` replies each, by receiver and in order. Returns the
        number of messages."""
        if self._library is None:
            return self._arrange(joined)
        return int(self._library.aggregator_arrange(self._reply_arrays, self._replies.count, joined, self.arrays))

    def _arrange(self, joined: int) -> int:
        """The numpy form of aggregator_arrange."""
        count = self._replies.count
        order = np.argsort(self._replies.places[:count], kind="stable")
        replies = self._replies
        places, sizes = replies.places[order].astype(np.intp), replies.sizes[order]
        tos = replies.tos[order]
        vectors, payloads = self._vectors[:count], replies.payload_of[order].astype(np.intp)
        vectors["base"][:, 0] = address_of(replies.heads) + order * HEADER_BYTES
        vectors["base"][:, 1] = address_of(replies.payloads) + payloads * PAYLOAD_BYTES
        vectors["length"][:, 0], vectors["length"][:, 1] = HEADER_BYTES, sizes - HEADER_BYTES
        most = np.minimum(joined, TRAIN_BYTES // np.maximum(sizes, 1))
        firsts = np.flatnonzero(_begins(np.stack((places, sizes, tos)), most))
        lengths = np.diff(firsts, append=count)
        header = self._messages["header"][: len(firsts)]
        header["name"] = address_of(self._names) + places[firsts] * _NAME_BYTES
        header["name_length"] = _NAME_BYTES
        header["vectors"] = address_of(self._vectors) + firsts * self._vectors.strides[0]
        header["vectors_length"] = lengths * _PARTS
        self._add_controls(header, lengths > 1, sizes[firsts], tos[firsts])
        return len(firsts)

    def _add_controls(
        self, header: NDArray[Any], cut: NDArray[np.bool_], sizes: NDArray[np.uint32], tos: NDArray[np.uint8]
    ) -> None:
        """Add the control messages: the size of the datagrams that a message is cut into, and behind that its TOS."""
        tagged, controls = tos != PLAIN_REPLY, self._controls[: len(header)]
        size = controls[:, 0]
        size["length"], size["level"], size["type"] = _SIZE_LENGTH, socket.IPPROTO_UDP, UDP_SEGMENT
        size["size"] = sizes
        own = np.zeros(len(header), CONTROL)
        own["length"], own["level"], own["type"] = _TOS_LENGTH, socket.IPPROTO_IP, socket.IP_TOS
        own["tos"] = tos
        which = np.flatnonzero(tagged)
        controls[which, cut[which].astype(np.intp)] = own[which]
        used = cut.astype(np.uintp) + tagged
        at = address_of(self._controls) + np.arange(len(header)) * controls.strides[0]
        header["control"] = np.where(used > 0, at, 0)
        header["control_length"] = used * CONTROL.itemsize


def _begins(keys: NDArray[np.intp], most: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Where messages begin, (n,): where one of the keys (keys, n) changes, and after every ``most`` (n,) replies."""
    numbers = np.arange(keys.shape[1])
    other = np.ones(keys.shape[1], np.bool_)
    other[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    since = numbers - np.maximum.accumulate(np.where(other, numbers, 0))
    return np.asarray(since % most == 0)


def _name(place: tuple[str, int]) -> bytes:
    ip, port = place
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(ip) + bytes(8)
