# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Questions to the switch from the worker's own address: HELLO, and one of a contribution's length.

Both change nothing at the switch. The long one is no question that there is, so the switch refuses it (reason WORDS),
and that answer shows that whole packets pass. As root the device is watched meanwhile, below any firewall of this host.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import OP_CODES, Address, JobConfig
from sumwire.see.captures import Frame
from sumwire.see.packets import Counts, packets_of
from sumwire.transport.switch_answers import SwitchState, hello_packet, is_hello_answer, state_of
from sumwire.wire.authentication import Tags, key_record
from sumwire.wire.messages import forbid_fragments
from sumwire.wire.packets import HEADER_BYTES, OP_WORDS, WORD_BYTES, Header, first_byte, headers, pack

_REFUSED: Final = first_byte(p4.KIND_REFUSED)
# The switch tells a port of one refusal in 10 ms.
_WAIT_S: Final = 0.25
_TRIES: Final = 4
_TIMED: Final = 5
_ALL_PROTOCOLS: Final = 3
_OUTGOING: Final = 4
_ETHERNET: Final = 1
_DATAGRAM_MOST: Final = 2048


@dataclass
class Answers:
    """What came of the questions. ``state``: the answer to HELLO. ``refused``: a refusal's reason.

    ``failure``: the latest error of the socket. ``watched``: the device was watched, and then ``seen_out`` and
    ``seen_in`` say whether questions left by it and answers came. ``long_passes``: whether a packet of ``long_bytes``
    arrives; None if that was not asked. ``own_port``: the questions came from the worker's own UDP port.
    """

    state: SwitchState | None = None
    refused: int | None = None
    failure: OSError | None = None
    times_s: list[float] = field(default_factory=list)
    watched: bool = False
    seen_out: bool = False
    seen_in: bool = False
    long_passes: bool | None = None
    long_bytes: int = 0
    own_port: bool = True

    @property
    def answered(self) -> bool:
        """Whether the switch has said anything."""
        return self.state is not None or self.refused is not None


def ask(config: JobConfig, device: str) -> Answers:
    """Ask the switch: from the worker's UDP port, or, where a run has it, from any other."""
    answers = Answers()
    with ExitStack() as stack:
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        try:
            forbid_fragments(udp)
            answers.own_port = _bound(udp, config.own_address)
            udp.connect((config.aggregator, p4.SUMWIRE_PORT))
        except OSError as error:
            answers.failure = error
            return answers
        tap = _tap(device)
        if tap is not None:
            stack.enter_context(tap)
            answers.watched = True
        asker = _Asker(config, udp, tap, answers)
        asker.hello()
        if answers.answered:
            asker.long()
    return answers


def _bound(udp: socket.socket, own: Address) -> bool:
    """Bind to a worker's address; whether at its own port. Raises OSError."""
    try:
        udp.bind((own.ip, own.udp_port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        udp.bind((own.ip, 0))
        return False
    return True


class _Asker:
    def __init__(self, config: JobConfig, udp: socket.socket, tap: socket.socket | None, answers: Answers) -> None:
        self._config = config
        self._udp = udp
        self._tap = tap
        self._answers = answers

    def hello(self) -> None:
        """Ask until an answer comes, and then some times more for the time that it takes."""
        packet, answers = self._tagged(hello_packet(self._config)), self._answers
        for _ in range(_TRIES):
            self._once(packet)
            if answers.answered or self._is_final(answers.failure):
                break
        while answers.state is not None and 0 < len(answers.times_s) < _TIMED:
            before = len(answers.times_s)
            self._once(packet)
            if len(answers.times_s) == before:
                break

    @staticmethod
    def _is_final(failure: OSError | None) -> bool:
        """Whether asking again would not help: nobody listens there."""
        return failure is not None and failure.errno == errno.ECONNREFUSED

    def long(self) -> None:
        """Ask with as many words as the longest contribution has."""
        code = max((OP_CODES[name] for name in self._config.ops), key=lambda op: OP_WORDS[op][0])
        words = OP_WORDS[code][0]
        header = Header(p4.KIND_PROBE, code, self._config.job, slot=0, worker=self._config.seat, words=words)
        packet = self._tagged(np.frombuffer(pack(header, bytes(words * WORD_BYTES)), np.uint8))
        answers = self._answers
        answers.long_bytes = p4.IPV4_BYTES + p4.UDP_BYTES + len(packet)
        answers.long_passes = False
        for _ in range(_TRIES):
            if self._once(packet):
                answers.long_passes = True
                return

    def _tagged(self, packet: NDArray[np.uint8]) -> bytes:
        """With the authentication tag of a job that has a key."""
        config = self._config
        if config.key is None:
            return packet.tobytes()
        return Tags(key_record(config.key, config.job, config.aggregator)).tagged(packet).tobytes()

    def _once(self, packet: bytes) -> bool:
        """One question; whether an answer came in time."""
        sent_at, answers = time.monotonic(), self._answers
        try:
            self._udp.send(packet)
        except OSError as error:
            answers.failure = error
        until = sent_at + _WAIT_S
        answered = False
        while not answered and (left := until - time.monotonic()) > 0:
            ready = select.select([one for one in (self._udp, self._tap) if one is not None], [], [], left)[0]
            if self._tap in ready:
                self._look()
            if self._udp in ready:
                answered = self._take(len(packet) > HEADER_BYTES + p4.TAG_BYTES, sent_at)
                if self._is_final(answers.failure):
                    break
        self._look()
        return answered

    def _take(self, long: bool, sent_at: float) -> bool:
        """Take a datagram in; whether it is the answer."""
        answers, config = self._answers, self._config
        try:
            data = self._udp.recv(_DATAGRAM_MOST)
        except OSError as error:
            answers.failure = error
            return False
        # An answer has no payload, and maybe a tag.
        if len(data) not in (HEADER_BYTES, HEADER_BYTES + p4.TAG_BYTES):
            return False
        record = headers(np.frombuffer(data[:HEADER_BYTES], np.uint8).reshape(1, HEADER_BYTES))[0]
        refusal = int(record["version_kind"]) == _REFUSED and int(record["job"]) == config.job
        if long:
            return refusal and int(record["op"]) != p4.OP_NONE
        if is_hello_answer(config, HEADER_BYTES, record):
            answers.state = state_of(record)
            answers.times_s.append(time.monotonic() - sent_at)
            return True
        if refusal and int(record["op"]) == p4.OP_NONE:
            answers.refused = int(record["count"])
            return True
        return False

    def _look(self) -> None:
        """What the device has carried since."""
        for frame, outgoing in self._carried():
            ends = (self._config.own_address.ip, self._config.aggregator)
            for seen in packets_of(frame, Counts()):
                if seen.job != self._config.job:
                    continue
                if outgoing and (seen.ends.source, seen.ends.target) == ends:
                    self._answers.seen_out = True
                elif not outgoing and (seen.ends.target, seen.ends.source) == ends:
                    self._answers.seen_in = True

    def _carried(self) -> Iterator[tuple[Frame, bool]]:
        while self._tap is not None:
            try:
                data, where = self._tap.recvfrom(_DATAGRAM_MOST)
            except OSError:
                return
            yield Frame(0.0, "", _ETHERNET, data), where[2] == _OUTGOING


def _tap(device: str) -> Any:
    """A socket that sees all frames of a device, where this user may; else None."""
    if not device:
        return None
    try:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    except PermissionError:
        return None
    tap.setblocking(False)
    try:
        tap.bind((device, 0))
    except OSError:
        tap.close()
        return None
    return tap
