# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The specification's rules for matches, priorities and actions: what a message says, and which rules it breaks.

Unlike a server, which stops at the first broken rule, this collects them all: a server may name any of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch.fuzz.p4runtime.schema import Field, Table

INVALID = code_pb2.INVALID_ARGUMENT
DENIED = code_pb2.PERMISSION_DENIED
ABSENT = code_pb2.NOT_FOUND
THERE = code_pb2.ALREADY_EXISTS
UNIMPLEMENTED = code_pb2.UNIMPLEMENTED

#: Numbers of each field's match in the table's order; None where the field is left out.
Key = tuple[tuple[int, ...] | None, ...]
Identity = tuple[Key, int]
#: Action id and arguments in the order of the parameters.
Call = tuple[int, tuple[int, ...]]

_PARTS = {
    "exact": ("value",),
    "optional": ("value",),
    "lpm": ("value",),
    "ternary": ("value", "mask"),
    "range": ("low", "high"),
}


@dataclass
class Faults:
    """Broken rules of one update: their codes, and a word for each."""

    codes: set[int] = field(default_factory=set)
    words: list[str] = field(default_factory=list)

    def add(self, code: int, word: str) -> None:
        self.codes.add(code)
        self.words.append(word)

    def __bool__(self) -> bool:
        return bool(self.codes)


def key_of(table: Table, matches: Iterable[Any], faults: Faults) -> Key | None:
    """None where a rule is broken."""
    before = len(faults.words)
    fields = {each.id: each for each in table.fields}
    found: dict[int, tuple[int, ...]] = {}
    for match in matches:
        known = fields.get(match.field_id)
        if known is None:
            faults.add(INVALID, "match field unknown")
        elif match.field_id in found:
            faults.add(INVALID, "match field twice")
        else:
            found[known.id] = _match(known, match, faults)
    if any(each.kind == "exact" and each.id not in found for each in table.fields):
        faults.add(INVALID, "exact match missing")
    return tuple(found.get(each.id) for each in table.fields) if len(faults.words) == before else None


def _match(known: Field, match: Any, faults: Faults) -> tuple[int, ...]:
    kind = match.WhichOneof("field_match_type")
    if kind != known.kind:
        faults.add(INVALID, "match kind")
        return ()
    body = getattr(match, kind)
    before = len(faults.words)
    numbers = tuple(number_of(getattr(body, part), known.width, faults) for part in _PARTS[kind])
    if kind == "lpm":
        numbers = (*numbers, body.prefix_len)
    if len(faults.words) == before and not _sound(known, numbers):
        faults.add(INVALID, f"{kind} match unsound")
    return numbers


def _sound(known: Field, numbers: tuple[int, ...]) -> bool:
    """The rules between a match's numbers; a match of everything must be left out."""
    match known.kind, numbers:
        case "lpm", (value, length):
            return 0 < length <= known.width and value & (known.most >> length) == 0
        case "ternary", (value, mask):
            return mask != 0 and value & ~mask == 0
        case "range", (low, high):
            return low <= high and (low, high) != (0, known.most)
    return True


def number_of(data: bytes, width: int, faults: Faults) -> int:
    value = int.from_bytes(data, "big")
    if not data:
        faults.add(INVALID, "value empty")
    elif value >> width:
        faults.add(INVALID, "value too wide")
    return value


def call_of(table: Table, action: Any, *, is_default: bool, faults: Faults) -> Call | None:
    """None where a rule is broken."""
    before = len(faults.words)
    if action.WhichOneof("type") != "action":
        faults.add(INVALID, "action kind")
        return None
    number = action.action.action_id
    if number not in table.actions:
        faults.add(INVALID, "action unknown")
        return None
    if number not in (table.default_actions if is_default else table.entry_actions):
        faults.add(DENIED, "action scope")
    widths = {each.id: each.width for each in table.actions[number]}
    found: dict[int, int] = {}
    for param in action.action.params:
        if param.param_id not in widths:
            faults.add(INVALID, "parameter unknown")
        elif param.param_id in found:
            faults.add(INVALID, "parameter twice")
        else:
            found[param.param_id] = number_of(param.value, widths[param.param_id], faults)
    if found.keys() != widths.keys():
        faults.add(INVALID, "parameter missing")
    return (number, tuple(found[each] for each in widths)) if len(faults.words) == before else None


# ---------------------------------------------------------------- and back, in canonical form


def shortest(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def matches_of(table: Table, key: Key) -> list[Any]:
    messages = []
    for known, numbers in zip(table.fields, key, strict=True):
        if numbers is None:
            continue
        message = p4runtime_pb2.FieldMatch(field_id=known.id)
        body = getattr(message, known.kind)
        for part, number in zip(_PARTS[known.kind], numbers, strict=False):
            setattr(body, part, shortest(number))
        if known.kind == "lpm":
            body.prefix_len = numbers[1]
        messages.append(message)
    return messages


def action_of(table: Table, call: Call) -> Any:
    number, arguments = call
    message = p4runtime_pb2.TableAction()
    message.action.action_id = number
    for known, value in zip(table.actions[number], arguments, strict=True):
        message.action.params.add(param_id=known.id, value=shortest(value))
    return message
