# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Words of a command line as numbers, keys and action data, and back: the forms of ``simple_switch_CLI``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from commonlib.untrusted import escaped

from softswitch.program import ir
from softswitch.runtime.entries import ActionCall, Exact, KeyMatch, Lpm, Range, Ternary
from softswitch.runtime.tables import prefix_mask

_MAC: Final = re.compile(r"[0-9a-fA-F]{1,2}(:[0-9a-fA-F]{1,2}){5}")
#: Bytes of a request, and of the text of an answer.
LINE_MOST: Final = 64 << 10
ANSWER_MOST: Final = 16 << 20
#: Numbers of a request are int64 in P4Runtime and Thrift.
INT64_MAX: Final = (1 << 63) - 1


class CliCommandError(Exception):
    """A command that is not carried out. ``said``: the line that ``simple_switch_CLI`` prints in this case. ``why``: a
    sentence more, if there is one."""

    def __init__(self, said: str, why: str = "") -> None:
        super().__init__(said)
        self.said = said
        self.why = why


def wrong(what: str) -> CliCommandError:
    """What is wrong with the command line itself."""
    return CliCommandError(f"Error: {what}")


class _BadValueError(ValueError):
    pass


def _number(text: str, width: int) -> int:
    """An address of as many bits, or a number in decimal or with 0x, 0o or 0b."""
    try:
        if width == 32 and "." in text:
            return int(IPv4Address(text))
        if width == 128 and ":" in text:
            return int(IPv6Address(text))
    except AddressValueError:
        raise _BadValueError(f"Invalid IPv{4 if width == 32 else 6} address") from None
    if width == 48 and ":" in text:
        if not _MAC.fullmatch(text):
            raise _BadValueError("Invalid MAC address")
        return int("".join(part.zfill(2) for part in text.split(":")), 16)
    try:
        value = int(text, 0)
    except ValueError:
        raise _BadValueError("Invalid input, could not cast to integer, try in hex with 0x prefix") from None
    if value < 0:
        raise _BadValueError("Parameter is negative")
    if value.bit_length() > width:
        raise _BadValueError(f"Parameter is too large, it should fit within {width} bits")
    return value


def integer(text: str, what: str) -> int:
    """Return a handle, an index, a count or an id. Raises CliCommandError, which calls it ``what``."""
    try:
        value = int(text, 0)
    except ValueError:
        value = INT64_MAX + 1
    if not -INT64_MAX <= value <= INT64_MAX:
        raise CliCommandError(f"Error: Bad format for {what}", f"{escaped(text)} is no whole number of 64 bits")
    return value


def priority(words: list[str]) -> int:
    """Take the priority from the end of a command line. Raises CliCommandError."""
    try:
        value = int(words.pop())
    except (IndexError, ValueError):
        raise wrong("Table is ternary, but could not extract a valid priority from args") from None
    return value


def arguments(action: ir.Action, words: Sequence[str]) -> tuple[int, ...]:
    """Return the action data. Raises CliCommandError."""
    if len(words) != len(action.parameters):
        raise wrong(f"Action {action.name} needs {len(action.parameters)} parameters")
    pairs = zip(action.parameters, words, strict=True)
    return tuple(_value("Invalid runtime data", word, parameter.width) for parameter, word in pairs)


def _value(what: str, word: str, width: int) -> int:
    try:
        return _number(word, width)
    except _BadValueError as error:
        raise CliCommandError(f"{what}: Error while parsing {escaped(word)} - {error}") from None


def check_key(table: ir.Table, name: str, words: Sequence[str]) -> None:
    """Raise CliCommandError unless there is a word for each field."""
    if len(words) != len(table.keys):
        raise wrong(f"Table {escaped(name)} needs {len(table.keys)} key fields")


def key(table: ir.Table, name: str, words: Sequence[str]) -> tuple[KeyMatch, ...]:
    """Return a match for each field. Bits beyond a prefix or a mask are 0. ``name``: the table's, as it was given.

    Raises CliCommandError.
    """
    check_key(table, name, words)
    return tuple(_match(field, word) for field, word in zip(table.keys, words, strict=True))


def _match(field: ir.Key, word: str) -> KeyMatch:
    match field.kind:
        case ir.MatchKind.EXACT:
            return Exact(_value(_BAD_KEY, word, field.width))
        case ir.MatchKind.LPM:
            value, length = _two(word, "/", "LPM value", "prefix and length")
            if not (length.isascii() and length.isdecimal()) or len(length) > 4 or int(length) > field.width:
                raise _bad_key(f"Invalid prefix length {escaped(length)}, it should be in 0..{field.width}")
            number = _value(_BAD_KEY, value, field.width)
            return Lpm(number & prefix_mask(Lpm(0, int(length)), field.width), int(length))
        case ir.MatchKind.TERNARY:
            value, bits = _two(word, "&&&", "ternary value", "key and mask")
            mask = _value(_BAD_KEY, bits, field.width)
            return Ternary(_value(_BAD_KEY, value, field.width) & mask, mask)
        case ir.MatchKind.RANGE:
            first, last = (
                _value(_BAD_KEY, each, field.width) for each in _two(word, "->", "range value", "start and end")
            )
            if first > last:
                raise _bad_key(f"start is not less than end in expression {escaped(word)}")
            return Range(first, last)


_BAD_KEY: Final = "Invalid match key"


def _bad_key(what: str) -> CliCommandError:
    return CliCommandError(f"{_BAD_KEY}: {what}")


def _two(word: str, between: str, what: str, parts: str) -> tuple[str, str]:
    first, found, last = word.partition(between)
    if not found:
        raise _bad_key(f"Invalid {what} {escaped(word)}, use '{between}' to separate {parts}")
    return first, last


def rates(words: Iterable[str]) -> list[tuple[float, int]]:
    """Return rate (units a microsecond) and burst of each word. Raises CliCommandError."""
    found = []
    for word in words:
        rate, _, burst = word.partition(":")
        try:
            found.append((float(rate), int(burst)))
        except ValueError:
            raise wrong("Error while parsing rates") from None
        if not 0 <= found[-1][0] * 1e6 <= INT64_MAX or math.isnan(found[-1][0]) or not 0 <= found[-1][1] <= INT64_MAX:
            raise wrong(f"Error while parsing rates: {escaped(word)} is out of range")
    return found


def field_name(key: ir.Key) -> str:
    """Return the name under which bmv2 shows a field of a key."""
    match key.target:
        case ir.FieldRef(header, field) | ir.Binary("&", ir.FieldRef(header, field)):  # a signed field, by its bits
            return f"{header}.{field}"
        case ir.Valid(header):
            return f"{header}_valid"
    return key.name


def hexadecimal(value: int, width: int, between: str = "") -> str:
    """Return the bytes of a value, two digits each. ``width``: in bits, 0 for as few bytes as it needs."""
    data = value.to_bytes(max(1, (max(width, value.bit_length()) + 7) // 8), "big")
    return data.hex(between) if between else data.hex()


def shown_match(field: ir.Key, match: KeyMatch, between: str = "") -> str:
    """Return the match as ``table_dump`` shows it."""

    def digits(value: int) -> str:
        return hexadecimal(value, field.width, between)

    match match:
        case Exact(value):
            return digits(value)
        case Lpm(value, length):
            return f"{digits(value)}/{length}"
        case Ternary(value, mask):
            return f"{digits(value)} &&& {digits(mask)}"
        case Range(low, high):
            return f"{digits(low)} -> {digits(high)}"


def shown_call(call: ActionCall) -> str:
    """Return the line about an action of an entry, with action data as ``table_dump`` shows it."""
    return f"Action entry: {call.name} - {', '.join(hexadecimal(value, 0) for value in call.args)}"
