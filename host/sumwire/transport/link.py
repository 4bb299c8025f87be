# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker's UDP socket to its switch: sends and receives batches of packets, waits, and tolerates transient
failures."""

from __future__ import annotations

import errno
import functools
import logging
import math
import os
import select
import socket
import time
from typing import Final

import numpy as np
from commonlib.events import ProgramEvent
from commonlib.forking import close_in_children
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.errors import AddressError, JobBusyError, SwitchLostError, TransportError
from sumwire.transport.buffers import Run
from sumwire.transport.stats import JobStats
from sumwire.transport.switch_answers import too_narrow, who
from sumwire.wire.authentication import Tags, key_record, without_tags
from sumwire.wire.batch import BatchSocket, enlarge_buffers
from sumwire.wire.messages import NO_TRAINS, NOTHING_THERE, Compiled, MessagePlaces, forbid_fragments, send_despite_icmp
from sumwire.wire.packets import HEADER_BYTES, LOWER_HEADER_BYTES, first_byte, headers, heads

_LOG: Final = logging.getLogger("sumwire")
# Messages per system call, each a packet or a train of them.
_BATCH: Final = 256
# A packet that is longer than any of the job shows as too long.
_BEYOND_BYTES: Final = 8
_RESULT: Final = first_byte(p4.KIND_RESULT)
_NO_ROUTE: Final = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH})
# From linux/in.h. Older Pythons have no name for it.
_IP_MTU: Final = 14
# Errors of a UDP socket after which a later send can succeed: a full queue, an ICMP error of an earlier packet, which
# anybody can have made up, or a packet filter. EMSGSIZE of a receiving call is such an ICMP error too.
_PASSING: Final = frozenset(
    {
        errno.EMSGSIZE,
        errno.ENOBUFS,
        errno.ECONNREFUSED,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ENETDOWN,
        errno.EHOSTDOWN,
        errno.ENONET,
        errno.ENOPROTOOPT,
        errno.EPROTO,
        errno.EPERM,
    }
)

# How long a path may be too narrow for the job's packets, and how long after its latest refusal a new time begins.
# Routes that change, and tunnels that come up, make it so for a moment.
_NARROW_S: Final = 1.0
_NARROW_ANEW_S: Final = 5.0


class Link:
    """A socket bound to the worker's own address and connected to its switch, so that other senders are filtered out.

    ``places``: where received messages lie; None if unknown. ``received``: uint8 rows with the datagrams of the last
    :meth:`receive`; ``records`` are their headers, ``heads`` the same headers as 64-bit numbers, ``sizes`` the bytes in
    each row, without an authentication tag. ``last_failure``: a text about the last transient error, or "".
    ``packet_bytes``: the size of each loaded packet. ``compiled_tags``: what C needs for their tags, functions, key and
    packets; zeros in a job without a key, and if numpy does it. ``reads_marks``: a result that a queue marked on its
    way here (ECN in its IP header) gets the flag CE in ``records``, like a result of marked contributions; ``marked``:
    whether the latest call brought such messages. Raises AddressError if the worker's address cannot be used here,
    JobBusyError if its port is taken, UsageError on a system that is not Linux.
    """

    def __init__(self, config: JobConfig, stats: JobStats, *, reads_marks: bool = False) -> None:
        self.udp = _open_socket(config)
        longest = HEADER_BYTES + config.longest_bytes + config.tag_bytes
        key = key_record(config.key, config.job, config.aggregator)
        self._tags = None if config.key is None else Tags(key)
        self._rows = np.zeros((0, 0), np.uint8)
        self.compiled_tags = (0, 0, 0, 0)
        self.socket = BatchSocket(
            self.udp,
            row_bytes=longest + _BEYOND_BYTES,
            batch=_BATCH,
            usual_bytes=longest,
            tells_marks=reads_marks,
        )
        self.places: MessagePlaces | None = self.socket.places
        self._show_received()
        self.last_failure = ""
        # Whether the latest receive left nothing behind.
        self.drained = False
        # When the last HELLO was sent, in seconds of the connection's clock.
        self.asked_at = -math.inf
        self._config = config
        self._stats = stats
        self.packet_bytes = 0
        # When the path was first and last found too narrow, since when nothing long has left.
        self._narrow: tuple[float, float] | None = None
        self._note_trains()
        self._poll = select.poll()
        self._events = select.POLLIN
        self._poll.register(self.udp, self._events)

    def close(self) -> None:
        """Close the socket; closing twice is allowed."""
        self.socket.close()

    def watch(self, fileno: int) -> None:
        """Let :meth:`wait` also return when this becomes readable."""
        self._poll.register(fileno, select.POLLIN)

    def load(self, packets: NDArray[np.uint8], tos: NDArray[np.uint8] | None, first_slot: int) -> None:
        """Set the packets (n, packet bytes) that :meth:`send` sends by index, their TOS bytes, and the slot of the
        first."""
        self.socket.load(packets, tos=tos, phase=first_slot)
        self._rows = packets
        if self._tags is not None and (tags := self._tags.compiled) is not None:
            self.compiled_tags = (*tags, packets.ctypes.data)
        self.packet_bytes = packets.shape[1]
        if not self.socket.sends_trains:
            self._note_trains()

    def send(self, chunks: NDArray[np.int64], train: int) -> int:
        """Send loaded packets, in trains of at most ``train``. Returns how many, from the first on, the socket accepted
        or lost by a transient error."""
        done = sent = 0
        if self._tags is not None:
            # Only now: flags of a packet change until it is sent.
            self._tags.write(self._rows, chunks)
        messages = self.socket.messages_sent
        while done < len(chunks):
            try:
                accepted = self.socket.send(chunks[done:], train)
            except BlockingIOError:
                break
            except OSError as error:
                self._note_failure(error)
                done += 1
            else:
                done += accepted
                sent += accepted
                self._narrow = None
        self._stats.packets_sent += sent
        self._stats.messages_sent += self.socket.messages_sent - messages
        self._stats.bytes_sent += sent * (LOWER_HEADER_BYTES + self.packet_bytes)
        self._note_trains()
        return done

    def send_one(self, packet: NDArray[np.uint8], tos: int | None) -> None:
        """Send a single packet, with this TOS byte if it is not None. A full socket loses it."""
        packet = packet if self._tags is None else self._tags.tagged(packet)
        control = [] if tos is None else [(socket.IPPROTO_IP, socket.IP_TOS, bytes([tos]))]
        try:
            send_despite_icmp(lambda: self.udp.sendmsg([packet.data], control, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return
        except OSError as error:
            self._note_failure(error)
        else:
            self._stats.packets_sent += 1
            self._stats.messages_sent += 1
            self._stats.bytes_sent += LOWER_HEADER_BYTES + len(packet)

    def receive(self, wanted: int = 0) -> int:
        """Call :meth:`collect` and :meth:`take_apart`. Returns how many datagrams are in ``received`` now."""
        return self.take_apart() if self.collect(wanted) else 0

    def collect(self, wanted: int = 0) -> int:
        """Receive messages, up to a batch; each is a datagram or a train. Returns how many.

        ``wanted``: wait some milliseconds for so many datagrams, see :meth:`BatchSocket.collect`.
        """
        self.drained = False
        try:
            messages = self.socket.collect(wanted)
        except OSError as error:
            self._note_failure(error, sending=False)
            return 0
        self.drained = messages < _BATCH
        self._stats.messages_received += messages
        if self._tags is not None and self._tags.is_native and self.places is not None:
            self._stats.forged += self._tags.check_messages(self.places, messages)
        return messages

    @property
    def marked(self) -> bool:
        """Whether a queue has marked any of the latest messages."""
        return self.socket.marked_messages > 0

    def take_apart(self) -> int:
        """Split the messages of the latest call into datagrams. Returns how many are in ``received`` now."""
        count = self.socket.take_apart()
        self._show_received()
        self._count(count, int(self.sizes.sum()) + count * self._config.tag_bytes)
        return count

    def stored(self, run: Run) -> int:
        """Note that the messages of the latest call were stored as this run. Returns the number of its datagrams."""
        self.socket.note_longest(run.longest)
        self._count(run.datagrams, run.datagrams * run.datagram_bytes)
        return run.datagrams

    @functools.cached_property
    def compiled(self) -> Compiled | None:
        """What C needs to send and receive on this socket; None if Python must look at each message."""
        by_numpy = self._tags is not None and not self._tags.is_native
        return None if by_numpy else self.socket.compiled

    def failed(self, number: int, *, sending: bool) -> int:
        """Handle an error that C has met. Returns how many packets are lost by it, from the first that were to be sent.

        Raises the errors of :meth:`send` and :meth:`collect`.
        """
        if sending and number in (NOTHING_THERE | NO_TRAINS):
            # To be sent once more, by Python, which knows what to do.
            return 0
        self._note_failure(OSError(number, os.strerror(number)), sending=sending)
        return int(sending)

    def _count(self, packets: int, payload_bytes: int) -> None:
        self._stats.packets_received += packets
        self._stats.bytes_received += payload_bytes + packets * LOWER_HEADER_BYTES

    def wait(self, milliseconds: int, *, room: bool) -> bool:
        """Sleep until something arrives or the time is over; with ``room``, also until the socket has room to send.

        Returns True if the socket ended the sleep.
        """
        events = select.POLLIN | select.POLLOUT if room else select.POLLIN
        if events != self._events:
            self._poll.modify(self.udp, events)
            self._events = events
        return self.udp.fileno() in dict(self._poll.poll(milliseconds))

    def _show_received(self) -> None:
        self.received, self.sizes = self.socket.received, self.socket.sizes
        if self._tags is not None and len(self.sizes):
            if not self._tags.is_native:
                self._stats.forged += self._tags.check(self.received, self.sizes)
            self.sizes = without_tags(self.received, self.sizes)
        self.records, self.heads = headers(self.received), heads(self.received)
        if self.marked:
            self._show_marks()

    def _show_marks(self) -> None:
        """Only now: an authentication tag covers the flags as the switch has sent them."""
        marked = self.socket.marked
        if marked is not None:
            records = self.records[: len(marked)]
            records["flags"][marked & (records["version_kind"] == _RESULT)] |= p4.FLAG_CE

    def _note_trains(self) -> None:
        """Count and log, once each way, that packets go one by one."""
        without = int(not self.socket.sends_trains) + int(not self.socket.receives_trains)
        if without > self._stats.without_trains:
            self._stats.without_trains = without
            way = "receives" if self.socket.sends_trains else "sends"
            _LOG.warning(
                "job %s: this host %s packets one by one, at several times the processor time: its kernel, or the "
                "device to %s, takes no trains of UDP packets; `ip route get %s` names the device, `ethtool -K DEVICE "
                "tx on gso on` may help",
                self._config.job, way, self._config.aggregator, self._config.aggregator,
                extra=ProgramEvent.TRAINS_MISSING(
                    job=self._config.job, worker=self._config.worker, reason=f"this host {way} packets one by one"
                ),
            )  # fmt: skip

    def _note_failure(self, error: OSError, *, sending: bool = True) -> None:
        config = self._config
        if error.errno == errno.EMSGSIZE and sending and self._stays_narrow():
            mtu = self.udp.getsockopt(socket.IPPROTO_IP, _IP_MTU)
            raise SwitchLostError(too_narrow(config, mtu), job=config.job) from error
        if error.errno not in _PASSING:
            raise TransportError(
                f"job {config.job}: the socket of {who(config)} failed: {error}; see `ip address`, then start all "
                "workers again"
            ) from error
        self._stats.send_failures += 1
        self.last_failure = f"last network error: {error.strerror}"

    def _stays_narrow(self) -> bool:
        now = time.monotonic()
        first, last = self._narrow or (now, now)
        self._narrow = (now if now - last > _NARROW_ANEW_S else first), now
        return now - self._narrow[0] >= _NARROW_S


def _open_socket(config: JobConfig) -> socket.socket:
    own = config.own_address
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        enlarge_buffers(udp)
        forbid_fragments(udp)
        udp.bind((own.ip, own.udp_port))
        udp.connect((config.aggregator, p4.SUMWIRE_PORT))
    except OSError as error:
        udp.close()
        raise opening_error(config, own.udp_port, error) from error
    close_in_children(udp)
    return udp


def opening_error(config: JobConfig, port: int, error: OSError) -> AddressError | JobBusyError:
    """Return the error for a worker's socket at ``port`` that could not be opened."""
    where = f"job {config.job}, worker {config.worker}: {config.own_address.ip}, UDP port {port}"
    if error.errno == errno.EADDRINUSE:
        return JobBusyError(
            f"{where}: another process on this host has the port, most likely another run of the job; end it: "
            f"`ss -lunp sport = :{port}` shows it"
        )
    cure = "`ip address` shows what this host has, `sumwire-controller job-file` writes the job file again"
    if error.errno == errno.EADDRNOTAVAIL:
        return AddressError(f"{where}: the address is not this host's: is this the right worker number? {cure}")
    if error.errno in _NO_ROUTE:
        return AddressError(
            f"{where}: no route to the switch {config.aggregator}: {error.strerror}; `ip route get {config.aggregator}`"
        )
    if error.errno == errno.EACCES:
        return AddressError(
            f"{where}: this user may not use the port; choose a udp_port above 1023 in the configuration"
        )
    return AddressError(f"{where}: {error.strerror}; {cure}")
