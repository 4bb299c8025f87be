# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Traces as text, and where they go: a file or the log. The words are bmv2's, where it has an event."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from commonlib.logs import printable

from softswitch.events import SwitchEvent
from softswitch.records import RecordFile
from softswitch.runtime.engine import Packet

_log = logging.getLogger("softswitch.trace")

_DIGITS: Final = 32  # that are shown of a number
_STEP: Final = "  "

Event = Mapping[str, Any]


def _number(text: str) -> str:
    digits = len(text) - len("0x")
    return text if digits <= _DIGITS else f"{text[: _DIGITS // 2 + 2]}...({digits} digits)"


def _fields(pairs: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={_number(value)}" for name, value in pairs.items())


def _numbers(values: list[str]) -> str:
    return ", ".join(map(_number, values))


def _table(event: Event) -> str:
    looked_up = ", ".join(f"{key['name']}={_number(key['value'])}" for key in event["keys"])
    found = "miss"
    if event["hit"]:
        matches = zip(event["keys"], event.get("entry", ()), strict=False)
        entry = ", ".join(f"{key['name']} {key['match']} {match}" for key, match in matches)
        priority = f", priority {event['priority']}" if "priority" in event else ""
        found = f"hit with handle {event['handle']}, {entry}{priority}"
    return f"Applying table '{event['table']}', key ({looked_up}): {found}"


def _condition(event: Event) -> str:
    name = f" ({event['name']})" if event["name"] else ""
    return f'{event["place"]} Condition "{event["condition"]}"{name} is {str(event["value"]).lower()}'


def _register(event: Event) -> str:
    verb, how = ("Read", "read") if event["event"] == "register_read" else ("Wrote", "with")
    value = "nothing, past its end" if event["value"] is None else f"{how} value {_number(event['value'])}"
    return f"{verb} register '{event['register']}' at index {event['index']} {value}"


def _set(event: Event) -> str:
    return f"{event['field']} = {_number(event['value'])}"


_TEXTS: Final[Mapping[str, Callable[[Event], str]]] = {
    "parser_state": lambda e: f"Parser '{e['parser']}' entering state '{e['state']}'",
    "extract": lambda e: f"Extracting header '{e['header']}': {_fields(e['fields'])}",
    "extract_varbit": lambda e: (
        f"Extracting {e['bits']} variable bits of header '{e['header']}': {_number(e['value'])}"
    ),
    "select": lambda e: f"Parser state '{e['state']}': key is {_numbers(e['key'])}",
    "parser_error": lambda e: f"Exception while parsing: {e['error']}",
    "parser_end": lambda e: f"Parser '{e['parser']}': end, {e['bytes']} bytes parsed",
    "checksum": lambda e: f"Verified checksum '{e['checksum']}': {str(e['right']).lower()}",
    "checksum_update": lambda e: f"Updating checksum '{e['checksum']}'",
    "pipeline": lambda e: f"Pipeline '{e['pipeline']}': start",
    "condition": _condition,
    "table": _table,
    "action": lambda e: f"Action entry is {e['action']}({_fields(e['parameters'])})",
    "exit": lambda _: "Packet is marked for exit, interrupting pipeline",
    "assign": _set,
    "random": lambda e: f"{_set(e)}, drawn",
    "meter": lambda e: f"{_set(e)}, the colour of meter '{e['meter']}' at index {e['index']}",
    "hash": lambda e: f"Hash '{e['calculation']}' ({e['algorithm']}) is {e['value']}",
    "copy_header": lambda e: f"{e['target']} = {e['source']}, which is {'valid' if e['valid'] else 'invalid'}",
    "validity": lambda e: f"{e['header']} is now {'valid' if e['valid'] else 'invalid'}",
    "register_read": _register,
    "register_write": _register,
    "count": lambda e: f"Updated counter '{e['counter']}' at index {e['index']}",
    "mark_to_drop": lambda e: f"{e['place']} Primitive mark_to_drop",
    "truncate": lambda e: f"Truncated to {e['length']} bytes",
    "log_message": lambda e: f'Message "{e["text"]}" ({_numbers(e["values"])})',
    "digest": lambda e: f"Digest '{e['digest']}' ({_numbers(e['values'])})",
    "dropped": lambda e: f"Dropping packet at the end of {e['at']}",
    "clone_request": lambda e: (
        f"Cloning packet at {e['at']}, session {e['session']}{'' if e['known'] else ', which does not exist'}"
    ),
    "clone": lambda e: (
        f"Cloning packet to egress port {e['port']}, instance {e['instance']}"
        if "port" in e
        else "The clone, parsed anew"
    ),
    "multicast": lambda e: f"Multicast requested for packet: group {e['group']}, {e['replicas']} replicas",
    "replica": lambda e: f"Replicating packet on port {e['port']}, instance {e['instance']}",
    "egress": lambda e: f"Egress port is {e['port']}",
    "resubmitted": lambda e: f"Resubmitting packet, {e['length']} bytes",
    "recirculated": lambda e: f"Recirculating packet, {e['length']} bytes",
    "too_many_passes": lambda _: "Lost: the frame has caused too many clones and further passes",
    "deparse": lambda e: f"Deparsing header '{e['header']}': {_fields(e['fields'])}",
    "deparse_varbit": lambda e: f"Deparsing {e['bits']} variable bits of header '{e['header']}': {_number(e['value'])}",
    "transmit": lambda e: f"Transmitting packet of size {e['length']} out of port {e['port']}",
}
# Events that stand at the edge, and the depth of what follows them.
_EDGE: Final = {
    "parser_state": 1, "parser_end": 0, "pipeline": 1, "multicast": 0, "clone_request": 0, "clone": 0, "replica": 0,
    "egress": 0, "resubmitted": 0, "recirculated": 0, "too_many_passes": 0, "dropped": 0, "deparse": 0, "transmit": 0,
}  # fmt: skip


def lines(packet: Packet) -> Iterator[str]:
    """Return what happened to a packet as lines of text, without a character that is not printable."""
    yield f"packet {packet['packet']}: {packet['length']} bytes in at port {packet['port']}"
    yield from _lines(packet["events"], 1)


def _lines(events: list[Event], outer: int) -> Iterator[str]:
    depth = 0
    for event in events:
        kind = event["event"]
        own = depth
        if kind in _EDGE:
            own, depth = 0, _EDGE[kind]
        elif kind == "table" or (kind == "condition" and event["name"]):
            own = depth = 1
        elif kind == "action":
            own, depth = 2, 3
        yield _STEP * (outer + own) + printable(_TEXTS[kind](event))
        yield from _lines(event.get("events", []), outer + own + 1)


class TraceFile:
    """Called with each packet. ``name``: a file for text, FILE.jsonl for JSON (one object a packet, in ASCII), or ``-``
    for text on standard error. Raises OSError."""

    def __init__(self, name: str) -> None:
        self._as_json = name.endswith(".jsonl")
        self._file = RecordFile(None if name == "-" else Path(name))

    def __call__(self, packet: Packet) -> None:
        text = json.dumps(packet) if self._as_json else "\n".join(lines(packet))
        self._file.write(f"{text}\n".encode(errors="backslashreplace"))

    def close(self) -> None:
        self._file.close()


def to_log(packet: Packet) -> None:
    """Log each line of the text."""
    for line in lines(packet):
        _log.debug("%s", line, extra=SwitchEvent.PACKET_TRACED())
