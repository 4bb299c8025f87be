# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the switch's answers say, or their absence."""

from __future__ import annotations

import errno
import json
import statistics
from collections.abc import Iterator
from typing import Final

from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.doctor.asking import Answers
from sumwire.doctor.findings import Finding, bad, good, unknown
from sumwire.doctor.machine import words_of
from sumwire.doctor.place import Place, devices_of
from sumwire.errors import MismatchError
from sumwire.transport.switch_answers import SwitchState, check_switch, refused, too_narrow

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


def judged(config: JobConfig, answers: Answers, place: Place) -> Iterator[Finding]:
    """Findings about one lane of the job."""
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


def _firewall(answers: Answers, neighbour: str) -> Finding:
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


def _neighbour(place: Place) -> str:
    """How far ARP has come with the next address on the way: REACHABLE, STALE, FAILED ... "" if that is not known."""
    if not place.hop or not place.device:
        return ""
    told = words_of(["ip", "-json", "neigh", "show", "to", place.hop, "dev", place.device])
    rows = json.loads(told) if told else []
    return str(rows[0].get("state", [""])[0]) if rows else ""


def _silence(config: JobConfig, answers: Answers, place: Place, neighbour: str) -> Finding:
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


def _no_arp(config: JobConfig, where: str, place: Place) -> Finding:
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


def _reached(config: JobConfig, answers: Answers) -> Finding:
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
