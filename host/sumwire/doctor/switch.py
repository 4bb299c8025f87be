# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends test packets to the switch from the worker's own address, and judges the answers. Used by `examination`.

There are two, neither of which changes anything at the switch: HELLO, and a probe as long as a contribution. The switch
refuses the long probe (reason WORDS), and that answer shows that packets of full length arrive. As root the device is
also captured, below any firewall of this host.
"""

from __future__ import annotations

import errno
import json
import select
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import OP_CODES, Address, JobConfig
from sumwire.doctor.findings import Finding, bad, good, unknown
from sumwire.doctor.machine import NetworkPlace, devices_of, words_of
from sumwire.errors import MismatchError
from sumwire.see.captures import CaptureCounts, Frame, packets_of
from sumwire.transport.switch_answers import (
    SwitchState,
    check_switch,
    hello_packet,
    is_hello_answer,
    refused,
    state_of,
    too_narrow,
)
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
_START: Final = (
    "start the switch and bring it the job: `sumwire-controller apply CONFIG`; or start sumwire-aggregator with this "
    "job file"
)
_PASS: Final = f"let UDP port {p4.SUMWIRE_PORT} pass both ways"
_BITMAP_BITS: Final = 32
# What Linux says of a neighbour that has not answered ARP, and of one that has within half a minute or so.
_NO_ARP: Final = ("INCOMPLETE", "FAILED")
_ARP: Final = "REACHABLE"
_RULES_SHOWN: Final = 3


@dataclass
class SwitchAnswers:
    """The answers of the switch. ``state``: the answer to HELLO. ``refused``: the reason of a refusal.

    ``failure``: the latest error of the socket. ``watched``: the device was captured; if so, ``seen_out`` and
    ``seen_in`` tell whether test packets left and answers came. ``long_passes``: whether a packet of ``long_bytes``
    arrives; None if not tested. ``own_port``: the test packets came from the worker's own UDP port.
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


def ask(config: JobConfig, device: str) -> SwitchAnswers:
    """Send the test packets to the switch, from the worker's UDP port or, if a run holds that, from any other port."""
    answers = SwitchAnswers()
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
    def __init__(
        self, config: JobConfig, udp: socket.socket, tap: socket.socket | None, answers: SwitchAnswers
    ) -> None:
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
            for seen in packets_of(frame, CaptureCounts()):
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


def judged(config: JobConfig, answers: SwitchAnswers, place: NetworkPlace) -> Iterator[Finding]:
    """Return the findings about one lane of the job."""
    neighbour = "" if answers.answered else _neighbour(place)
    wall = _firewall(answers, neighbour)
    yield wall
    if not answers.answered:
        if wall.state != "bad":
            yield _silence(config, answers, place, neighbour)
        return
    yield _reached(config, answers)
    if answers.refused is not None:
        yield from _refusal(config, answers.refused, answers.own_port)
    else:
        assert answers.state is not None
        yield good("admission", f"job {config.job} takes worker {config.worker} at this port and address")
        yield from _state(config, answers.state)
    if answers.long_passes:
        yield good("width", f"packets of {answers.long_bytes} bytes arrive at the switch")
    # A device that takes no such packet was named already.
    elif answers.long_passes is False and not place.narrow:
        yield bad("width", too_narrow(config).partition(": ")[2])


def _firewall(answers: SwitchAnswers, neighbour: str) -> Finding:
    if answers.failure is not None and answers.failure.errno == errno.EPERM:
        text = f"this host's firewall drops what is sent to UDP port {p4.SUMWIRE_PORT}{_rules()}"
        return bad("firewall", text, f"{_PASS}: nft list ruleset")
    if answers.answered:
        return good("firewall", f"UDP port {p4.SUMWIRE_PORT} passes both ways")
    if not answers.watched:
        return unknown("firewall", "only root can tell: run it with sudo, or look at `nft list ruleset`")
    if answers.seen_in:
        text = f"the switch's answers arrive, and this host's firewall drops them{_rules()}"
        return bad("firewall", text, f"{_PASS}: nft list ruleset")
    if not answers.seen_out and answers.failure is None and neighbour not in _NO_ARP:
        text = f"what is sent to UDP port {p4.SUMWIRE_PORT} does not leave this host{_rules()}"
        return bad("firewall", text, "look at `nft list ruleset` and `tc qdisc`")
    return good("firewall", "this host's lets the questions out, and no answer arrives that it could drop")


def _rules() -> str:
    """Rules that may be the ones, where this user may read them."""
    told = words_of(["nft", "list", "ruleset"]) or ""
    drops = [
        line.strip() for line in told.splitlines() if ("drop" in line or "reject" in line) and "policy" not in line
    ]
    near = [line for line in drops if str(p4.SUMWIRE_PORT) in line] or drops
    return f": {' / '.join(near[:_RULES_SHOWN])}" if near else ""


def _neighbour(place: NetworkPlace) -> str:
    """How far ARP has come with the next address on the way: REACHABLE, STALE, FAILED ... "" if that is not known."""
    if not place.hop or not place.device:
        return ""
    told = words_of(["ip", "-json", "neigh", "show", "to", place.hop, "dev", place.device])
    rows = json.loads(told) if told else []
    return str(rows[0].get("state", [""])[0]) if rows else ""


def _silence(config: JobConfig, answers: SwitchAnswers, place: NetworkPlace, neighbour: str) -> Finding:
    where = f"the switch {config.aggregator} (UDP port {p4.SUMWIRE_PORT}) does not answer"
    if answers.failure is not None and answers.failure.errno == errno.ECONNREFUSED:
        cure = "start sumwire-aggregator there with this job file, at this address: `--listen`"
        return bad("switch", f"{where}: the server is there and refused: no program listens at this UDP port", cure)
    if neighbour in _NO_ARP:
        return _no_arp(config, where, place)
    if neighbour == _ARP and place.hop == config.aggregator:
        text = (
            f"{where}, but has answered ARP at {place.device} lately: it has no entries for this host's address and "
            "port, a firewall there or on the way drops the packets, or the program has stopped"
        )
        return bad("switch", text, f"{_START}; see `sumwire-controller status CONFIG`; {_PASS}")
    failure = f" ({answers.failure.strerror})" if answers.failure is not None else ""
    text = (
        f"{where}{failure}: it is not running, has no entries yet, or does not know this host; or a firewall on the way"
    )
    return bad("switch", text, f"{_START}; see `sumwire-controller status CONFIG`; {_PASS}")


def _no_arp(config: JobConfig, where: str, place: NetworkPlace) -> Finding:
    """Nobody answers ARP: a wrong device, a dead gateway, or a switch that is not there."""
    own, look = config.own_address.ip, f"`ip route get {config.aggregator} from {config.own_address.ip}`"
    others = [name for name, _ in devices_of(own)]
    if others and place.device not in others:
        text = f"packets to {config.aggregator} leave by {place.device}, where nobody answers ARP, and {own} is at"
        return bad("route", f"{text} {', '.join(others)}", f"correct the route, or the address in the job file: {look}")
    if place.hop != config.aggregator:
        text = f"the gateway {place.hop} at {place.device} towards the switch does not answer ARP"
        return bad("route", text, f"start the gateway, or correct the route: {look}")
    text = f"{where}, not even to ARP: it is not running, has no entries, or has this host at another port"
    return bad("switch", text, f"{_START}; then look at cable, port and address")


def _reached(config: JobConfig, answers: SwitchAnswers) -> Finding:
    if not answers.times_s:
        return good("switch", f"{config.aggregator} answers")
    middle, least = statistics.median(answers.times_s) * 1e3, min(answers.times_s) * 1e3
    return good("switch", f"{config.aggregator} answers after {middle:.2f} ms (at best {least:.2f} ms)")


def _refusal(config: JobConfig, reason: int, own_port: bool) -> Iterator[Finding]:
    if reason == p4.REJECT_UDP_PORT and not own_port:
        yield good("admission", f"job {config.job} knows worker {config.worker}, whose port is in use here")
        return
    yield bad("admission", refused(config, reason))


def _state(config: JobConfig, state: SwitchState) -> Iterator[Finding]:
    revision = f"program revision {state.revision}"
    try:
        check_switch(config, state)
    except MismatchError as error:
        yield bad("program" if state.revision != p4.PROGRAM_REVISION else "table", error)
    else:
        yield good("table", f"{revision}, digest {state.digest:08x}: ops, slots, quorum and table are the job file's")
    yield good("generation", f"of the job's entries at the switch: {state.generation}")
    seats = config.seats
    here = [seats.get(bit, bit) for bit in range(_BITMAP_BITS) if state.contributors >> bit & 1]
    who = f"workers {', '.join(map(str, here))} are in it" if here else "nobody is in it"
    yield good(
        "quorum",
        f"{config.quorum} of {config.workers} workers close a chunk; slot 0 is in round {state.round}, {who}, "
        f"{'closed' if state.closed else 'open'}",
    )
