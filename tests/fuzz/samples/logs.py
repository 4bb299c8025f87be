# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""bmv2's log of level trace, and the soft switch's trace, as the same events.

A packet becomes its passes: a pass is the parser with ingress, or one egress. The passes of a packet run at the same
time in bmv2, so they have no order; the events of one have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Event = tuple[Any, ...]
Passes = list[list[Event]]

NO_ACTION = "NoAction (no default action)"
_CLOCKS = ("timestamp", "timedelta")
_EGRESS: Event = ("pipeline", "egress")
_RECORD = re.compile(r"\[[\d:.]+\] \[bmv2\] \[\w\] \[thread \d+\] ")
_PACKET = re.compile(r"\[(\d+)\.(\d+)\] \[cxt \d+\] (.*)", re.DOTALL)
_ARRIVES = re.compile(r"Processing packet received on port (\d+)")

_Made = Callable[[re.Match[str]], Event]
_LINES: tuple[tuple[re.Pattern[str], _Made], ...] = tuple(
    (re.compile(pattern, re.DOTALL), made)
    for pattern, made in (
        (r"Parser '.*' entering state '(.*)'", lambda m: ("state", m[1])),
        (r"Extracting (?:variable-sized )?header '(.*)'", lambda m: ("extract", m[1])),
        (r"Extracting to header (?:union )?stack \d+, next header is (\d+)", lambda m: ("extract", int(m[1]))),
        (r"Parser state '(.*)': key is ([0-9a-fA-F]*)", lambda m: ("select", m[1], int(m[2] or "0", 16))),
        (r"Exception while parsing: (.*)", lambda m: ("parser_error", m[1])),
        (r"Parser '(?:.*)': end", lambda _: ("parsed", None)),
        (r"Verified checksum '(.*)': (passed|failed)", lambda m: ("checksum", m[1], m[2] == "passed")),
        (r"Pipeline '(.*)': start", lambda m: ("pipeline", m[1])),
        (r'.*Condition ".*" \((.*)\) is (true|false)', lambda m: ("condition", m[1], m[2] == "true")),
        (r"Table '(.*)': hit with handle (\d+)", lambda m: ("table", m[1], int(m[2]))),
        (r"Table '(.*)': miss", lambda m: ("table", m[1], None)),
        (r"Action entry is NULL", lambda _: ("action", NO_ACTION, ())),
        (r"Action entry is (.*) - ?(.*)", lambda m: ("action", m[1], _numbers(m[2]))),
        (r"Read register '(.*)' at index (\d+) read value (\S+)", lambda m: _cell("register_read", m)),
        (r"Wrote register '(.*)' at index (\d+) with value (\S+)", lambda m: _cell("register_write", m)),
        (r"Attempted to (read|write) register '(.*)' with size \d+ at out-of-bounds index (\d+)\..*",
         lambda m: (f"register_{m[1]}", m[2], int(m[3]), None)),
        (r"Updated counter '(.*)' at index (\d+)", lambda m: ("count", m[1], int(m[2]))),
        (r"Multicast requested for packet", lambda _: ("multicast",)),
        (r"Replicating packet on port (\d+)", lambda m: ("replica", int(m[1]))),
        (r"Cloning packet at (ingress|egress)", lambda m: ("clone_request", m[1])),
        (r"Cloning packet to egress port (\d+)", lambda m: ("clone", int(m[1]))),
        (r"Egress port is (\d+)", lambda m: ("egress", int(m[1]))),
        (r"Dropping packet at the end of (ingress|egress)", lambda m: ("dropped", m[1])),
        (r"Resubmitting packet", lambda _: ("resubmitted",)),
        (r"Recirculating packet", lambda _: ("recirculated",)),
        (r"Updating checksum '(.*)'", lambda m: ("checksum_update", m[1])),
        (r"Deparsing header '(.*)'", lambda m: ("deparse", m[1])),
        (r"Transmitting packet of size (\d+) out of port (\d+)", lambda m: ("transmit", int(m[2]), int(m[1]))),
    )
)  # fmt: skip


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each, 16) for each in text.split(",") if each)


def _field(name: str, value: str) -> int | None:
    """The value of a key's field; None of a clock, which says another time in each switch."""
    return None if any(word in name for word in _CLOCKS) else int(value or "0", 16)


def _cell(kind: str, m: re.Match[str]) -> Event:
    return kind, m[1], int(m[2]), int(m[3], 0)


def _records(text: str) -> Iterator[str]:
    """What each record of a log says, without the last one if its line has no end yet."""
    said: list[str] = []
    for line in text[: text.rfind("\n") + 1].splitlines():
        if found := _RECORD.match(line):
            if said:
                yield "\n".join(said)
            said = [line[found.end() :]]
        elif said and line.startswith("* "):  # a field of a key
            said.append(line)
    if said:
        yield "\n".join(said)


class Log:
    """A log of bmv2, by packet. ``headers``: names by the number that the log has of headers in stacks."""

    def __init__(self, text: str, headers: Mapping[int, str]) -> None:
        self._headers = headers
        self._copies: dict[int, dict[int, list[Event]]] = {}
        self._key: dict[tuple[int, int], tuple[int | None, ...]] = {}
        self._parsed: dict[tuple[int, int], int] = {}
        self.ports: dict[int, int] = {}
        """The ports where packets came in, by number of the packet."""
        for record in _records(text):
            if found := _PACKET.fullmatch(record):
                self._add(int(found[1]), int(found[2]), found[3])

    def _add(self, packet: int, copy: int, said: str) -> None:
        events = self._copies.setdefault(packet, {}).setdefault(copy, [])
        if found := _ARRIVES.fullmatch(said):
            self.ports[packet] = int(found[1])
        elif said.startswith("Looking up key:"):
            self._key[packet, copy] = tuple(
                _field(line, line.rpartition(":")[2].strip(" *")) for line in said.splitlines()[1:]
            )
        elif said.startswith("Bytes parsed: "):
            self._parsed[packet, copy] = int(said.rpartition(" ")[2])
        else:
            made = next((make(m) for line, make in _LINES if (m := line.fullmatch(said))), None)
            if made is not None:
                events.append(self._completed(packet, copy, made))

    def _completed(self, packet: int, copy: int, made: Event) -> Event:
        """An event with what earlier records of the same packet said."""
        match made:
            case ("extract", int(number)):
                return "extract", self._headers.get(number, f"header {number}")
            case ("parsed", _):
                return "parsed", self._parsed.pop((packet, copy), 0)
            case ("table", name, handle):
                return "table", name, self._key.pop((packet, copy), ()), handle
        return made

    def passes(self, packet: int) -> Passes:
        return _comparable(list(self._copies[packet].values()))


def passes_of(traced: Mapping[str, Any]) -> Passes:
    """Return the passes of a packet that the soft switch has traced."""
    streams: Passes = []
    _walk(traced["events"], streams, [])
    return _comparable(streams)


def _walk(
    events: Sequence[Mapping[str, Any]], streams: Passes, stream: list[Event], cloned: list[Event] | None = None
) -> None:
    """``cloned``: the stream of the packet of which this is the clone, parsed anew. bmv2 tells there where it goes."""
    streams.append(stream)
    for event in events:
        made = _of_trace(event)
        if made is not None:
            (stream if cloned is None or made[0] != "clone" else cloned).append(made)
        if "events" in event:
            anew = event["event"] == "clone" and "port" not in event
            _walk(event["events"], streams, [], stream if anew else None)


def _of_trace(e: Mapping[str, Any]) -> Event | None:  # noqa: PLR0912 - one line for each kind of event
    match e["event"]:
        case "parser_state":
            return "state", e["state"]
        case "extract" | "deparse" as kind:
            return kind, e["header"]
        case "select":
            return "select", e["state"], int("".join(_whole_bytes(part) for part in e["key"]) or "0", 16)
        case "parser_error":
            return "parser_error", e["error"]
        case "parser_end":
            return "parsed", e["bytes"]
        case "checksum":
            return "checksum", e["checksum"], e["right"]
        case "pipeline":
            return "pipeline", e["pipeline"]
        case "condition":
            return ("condition", e["name"], e["value"]) if e["name"] else None
        case "table":
            return "table", e["table"], tuple(_field(key["name"], key["value"]) for key in e["keys"]), e.get("handle")
        case "action":
            return "action", e["action"], tuple(int(value, 16) for value in e["parameters"].values())
        case "register_read" | "register_write" as kind:
            return kind, e["register"], e["index"], None if e["value"] is None else int(e["value"], 16)
        case "count":
            return "count", e["counter"], e["index"]
        case "multicast" | "resubmitted" | "recirculated" as kind:
            return (kind,)
        case "replica" | "egress" as kind:
            return kind, e["port"]
        case "clone":
            return ("clone", e["port"]) if "port" in e else None
        case "clone_request":
            return "clone_request", e["at"]
        case "dropped":
            return "dropped", e["at"]
        case "checksum_update":
            return "checksum_update", e["checksum"]
        case "transmit":
            return "transmit", e["port"], e["length"]
    return None


def _whole_bytes(number: str) -> str:
    digits = number.removeprefix("0x")
    return digits if len(digits) % 2 == 0 else f"0{digits}"


def _comparable(streams: Passes) -> Passes:
    """Passes in an order of their own, without what the two tell differently by design (docs/trace.md)."""
    passes: Passes = []
    for stream in streams:
        at = 0
        for number, event in enumerate(stream):
            if event == _EGRESS and number > at:
                passes.append(stream[at:number])
                at = number
        passes.append(stream[at:])
    return sorted((made for one in passes if (made := _told_by_both(one))), key=repr)


def _told_by_both(events: list[Event]) -> list[Event]:
    kept: list[Event] = []
    failed = False
    for number, event in enumerate(events):
        follows = events[number + 1] if number + 1 < len(events) else None
        if event[0] == "egress" and follows == ("dropped", "ingress"):
            continue  # the drop port
        if event[0] == "checksum" and ("pipeline", "ingress") not in events:
            continue  # of a clone of ingress, which is parsed anew
        if event[0] == "parser_error":  # one side tells an extraction that fails, and the other how far it got
            failed = True
            while kept and kept[-1][0] == "extract":
                kept.pop()
        kept.append(("parsed", None) if event[0] == "parsed" and failed else event)
    return kept
