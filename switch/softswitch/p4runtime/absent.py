# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads of what a program has not: a read of all of them is answered with nothing, so that one request can ask for the
whole state (specification: "Wildcard Reads").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softswitch.p4runtime.errors import InvalidArgumentError, UnimplementedError
from softswitch.p4runtime.p4info import P4Info

_IDS: dict[str, Callable[[Any], int]] = {
    "extern_entry": lambda entry: int(entry.extern_type_id),
    "register_entry": lambda entry: int(entry.register_id),
}


def check(info: P4Info, kind: str, entry: Any) -> None:
    """Check a read of a kind of entities that this server does not hold.

    Raises InvalidArgumentError for an object that the P4Info has not, UnimplementedError for one that it has.
    """
    number = _IDS[kind](entry)
    if not number:
        return
    if number not in info.others[kind]:
        raise InvalidArgumentError(f"{number:#010x} is not the id of what a {kind} is about in the P4Info")
    raise UnimplementedError(f"reading a {kind} is not offered")
