# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Untrusted input: reads JSON with bounds on its size, depth and numbers, and formats values safely for error messages.

Reading a file that anybody may have written takes bounded time and memory. It returns data or raises
UntrustedInputError. Its messages fit a terminal's line and have no control characters.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections import Counter
from pathlib import Path
from typing import Any, Final

# Characters of a number as written. More than 64 bits need no file of Sumwire.
DIGITS_MOST: Final = 40
DEPTH_MOST: Final = 32
_SHOWN_MOST: Final = 120
# Of a list or an object.
_WHOLE_MOST: Final = 400
# Possessive: text without an end of its string is read once, not once for each of its quotes.
_STRING: Final = re.compile(r'"(?:[^"\\]+|\\.)*+"?', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")


class UntrustedInputError(ValueError):
    """The text breaks a rule. The message is the rule; the caller's error names the text."""


class InputTooLongError(UntrustedInputError):
    """The file has more bytes than it may have."""


class _Shown(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxtuple = 3, 8, 20, 20
        self.maxset = self.maxfrozenset = 20
        self.maxstring = self.maxother = _SHOWN_MOST

    def repr_int(self, x: int, level: int) -> str:
        """Python itself refuses to write one of some thousand digits."""
        return repr(x) if x.bit_length() < 4 * DIGITS_MOST else f"<an integer of {x.bit_length()} bits>"


_SHOWN: Final = _Shown()


def shown(value: object) -> str:
    """Return the value as a message shows it: like ``repr``, which escapes, but shortened."""
    text = _SHOWN.repr(value)
    return text if len(text) <= _WHOLE_MOST else f"{text[:_WHOLE_MOST]}..."


def escaped(text: str) -> str:
    """Return text as a message shows it without quotes: control characters escaped, and shortened."""
    quoted = _SHOWN.repr(text)
    return text if quoted[1:-1] == text else quoted[1:-1]


def bounded_text(path: Path, most: int) -> str:
    """Return the text of a file of at most ``most`` bytes in UTF-8. Raises OSError and UntrustedInputError."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputTooLongError(f"must have at most {most} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UntrustedInputError(f"must be UTF-8 ({error})") from error


def json_of(text: str) -> Any:
    """Return the data of a JSON text. Raises UntrustedInputError.

    It also refuses a key that occurs twice, more than DEPTH_MOST levels, numbers of more than DIGITS_MOST characters,
    infinity and NaN.
    """
    _check_depth(text)
    try:
        return json.loads(
            text, parse_int=_integer, parse_float=_float, parse_constant=_float, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        raise UntrustedInputError(f"must be JSON ({error})") from error


def _check_depth(text: str) -> None:
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > DEPTH_MOST:
            raise UntrustedInputError(f"must have at most {DEPTH_MOST} levels of lists and objects")


def _integer(digits: str) -> int:
    _check_length(digits)
    return int(digits)


def _float(digits: str) -> float:
    _check_length(digits)
    value = float(digits)
    if not math.isfinite(value):
        raise UntrustedInputError(f"the number {digits} must be finite")
    return value


def _check_length(digits: str) -> None:
    if len(digits) > DIGITS_MOST:
        raise UntrustedInputError(f"the number {escaped(digits)} must have at most {DIGITS_MOST} characters")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise UntrustedInputError(f"the key {shown(twice)} must be there once")
    return found
