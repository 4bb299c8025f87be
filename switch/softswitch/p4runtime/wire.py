# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Plain updates of table entries, read from their bytes.

Controllers write tables in batches of thousands of updates that look alike, and protobuf's Python implementation takes
far longer to take one apart than the switch to do it. Here only the usual form is read: fields in the order of their
numbers, each length in one byte, a key, an action with its parameters, a priority. For all else the answer is None, and
protobuf reads it. The numbers of fields are those of p4runtime.proto.

To who writes table entries, what is read looks like protobuf's messages: the same names, ``WhichOneof``, ``HasField``.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

_VARINT, _BYTES = 0, 2  # wire types
_ONE_BYTE: Final = 0x7F  # the largest number, or length, in one byte
_UINT32: Final = (1 << 32) - 1
_INT32: Final = (1 << 31) - 1
_TYPES: Final = frozenset({1, 2, 3})  # INSERT, MODIFY, DELETE

UPDATE_TYPE: Final = 1 << 3 | _VARINT
UPDATE_ENTITY: Final = 2 << 3 | _BYTES
ENTITY_TABLE_ENTRY: Final = 2 << 3 | _BYTES
ENTRY_TABLE_ID: Final = 1 << 3 | _VARINT
ENTRY_MATCH: Final = 2 << 3 | _BYTES
ENTRY_ACTION: Final = 3 << 3 | _BYTES
ENTRY_PRIORITY: Final = 4 << 3 | _VARINT
MATCH_FIELD_ID: Final = 1 << 3 | _VARINT
MATCH_EXACT: Final = 2 << 3 | _BYTES
MATCH_TERNARY: Final = 3 << 3 | _BYTES
MATCH_LPM: Final = 4 << 3 | _BYTES
MATCH_RANGE: Final = 6 << 3 | _BYTES
MATCH_OPTIONAL: Final = 7 << 3 | _BYTES
KIND_VALUE: Final = 1 << 3 | _BYTES
KIND_SECOND: Final = 2 << 3 | _BYTES
KIND_PREFIX_LEN: Final = 2 << 3 | _VARINT
TABLE_ACTION_ACTION: Final = 1 << 3 | _BYTES
ACTION_ID: Final = 1 << 3 | _VARINT
ACTION_PARAM: Final = 4 << 3 | _BYTES
PARAM_ID: Final = 2 << 3 | _VARINT
PARAM_VALUE: Final = 3 << 3 | _BYTES


class ExactMatch(NamedTuple):
    """Each match is a ``FieldMatch`` and the message of its kind in one."""

    field_id: int
    value: bytes

    @property
    def exact(self) -> ExactMatch:
        return self

    def WhichOneof(self, _: str) -> str:  # noqa: N802
        return "exact"


class OptionalMatch(NamedTuple):
    field_id: int
    value: bytes

    @property
    def optional(self) -> OptionalMatch:
        return self

    def WhichOneof(self, _: str) -> str:  # noqa: N802
        return "optional"


class LpmMatch(NamedTuple):
    field_id: int
    value: bytes
    prefix_len: int

    @property
    def lpm(self) -> LpmMatch:
        return self

    def WhichOneof(self, _: str) -> str:  # noqa: N802
        return "lpm"


class TernaryMatch(NamedTuple):
    field_id: int
    value: bytes
    mask: bytes

    @property
    def ternary(self) -> TernaryMatch:
        return self

    def WhichOneof(self, _: str) -> str:  # noqa: N802
        return "ternary"


class RangeMatch(NamedTuple):
    field_id: int
    low: bytes
    high: bytes

    @property
    def range(self) -> RangeMatch:
        return self

    def WhichOneof(self, _: str) -> str:  # noqa: N802
        return "range"


Match = ExactMatch | OptionalMatch | LpmMatch | TernaryMatch | RangeMatch


class PlainParam(NamedTuple):
    param_id: int
    value: bytes


class PlainAction(NamedTuple):
    """A ``TableAction`` and its ``Action`` in one. ``raw``: the bytes of the former."""

    action_id: int
    params: tuple[PlainParam, ...]
    raw: bytes

    @property
    def action(self) -> PlainAction:
        return self

    def WhichOneof(self, _: str) -> str:  # noqa: N802
        return "action"

    def SerializeToString(self) -> bytes:  # noqa: N802
        return self.raw


class _Sent(NamedTuple):
    type: int
    table_id: int
    match: tuple[Match, ...]
    action: PlainAction | None
    priority: int


class PlainUpdate(_Sent):
    """An ``Update``, its ``Entity`` and its ``TableEntry`` in one."""

    __slots__ = ()

    is_const: ClassVar[bool] = False
    is_default_action: ClassVar[bool] = False
    controller_metadata: ClassVar[int] = 0
    idle_timeout_ns: ClassVar[int] = 0
    metadata: ClassVar[bytes] = b""

    @property
    def entity(self) -> PlainUpdate:
        return self

    @property
    def table_entry(self) -> PlainUpdate:
        return self

    def WhichOneof(self, _: str) -> str:  # noqa: N802
        return "table_entry"

    def HasField(self, name: str) -> bool:  # noqa: N802
        return name == "action" and self.action is not None


class _NotPlainError(Exception):
    """Never leaves this module."""


def plain_update(raw: bytes) -> PlainUpdate | None:
    """What protobuf reads in the bytes of an ``Update``, or None where they do not have the usual form."""
    try:
        return _update(raw)
    except (_NotPlainError, IndexError):
        return None


def _update(raw: bytes) -> PlainUpdate:
    """Raises _NotPlainError, or IndexError where the bytes end too soon, as do all functions below."""
    end = len(raw)
    inside = raw[0] == UPDATE_TYPE and raw[2] == UPDATE_ENTITY and raw[4] == ENTITY_TABLE_ENTRY
    if not inside or end > _ONE_BYTE or raw[3] != end - 4 or raw[5] != end - 6 or raw[1] not in _TYPES:
        raise _NotPlainError
    table_id, at = _field(raw, 6, ENTRY_TABLE_ID)
    matches = []
    while at < end and raw[at] == ENTRY_MATCH:
        start = at + 2
        at = start + raw[at + 1]
        matches.append(_match(raw, start, at))
    action = None
    if at < end and raw[at] == ENTRY_ACTION:
        start = at + 2
        at = start + raw[at + 1]
        action = _action(raw, start, at)
    priority = 0
    if at < end:
        priority, at = _field(raw, at, ENTRY_PRIORITY)
    if at != end or priority > _INT32:
        raise _NotPlainError
    return PlainUpdate(raw[1], table_id, tuple(matches), action, priority)


def _match(raw: bytes, at: int, end: int) -> Match:
    """The ``FieldMatch`` from ``at`` to ``end``."""
    field_id, at = _field(raw, at, MATCH_FIELD_ID)
    kind = raw[at]
    if raw[at + 1] != end - at - 2:
        raise _NotPlainError
    value, at = _bytes(raw, at + 2, KIND_VALUE)
    match: Match
    if kind == MATCH_EXACT:
        match = ExactMatch(field_id, value)
    elif kind == MATCH_LPM:
        prefix_len, at = _field(raw, at, KIND_PREFIX_LEN)
        match = LpmMatch(field_id, value, prefix_len)
    elif kind == MATCH_OPTIONAL:
        match = OptionalMatch(field_id, value)
    elif kind in (MATCH_TERNARY, MATCH_RANGE):
        second, at = _bytes(raw, at, KIND_SECOND)
        match = (TernaryMatch if kind == MATCH_TERNARY else RangeMatch)(field_id, value, second)
    else:
        raise _NotPlainError
    if at != end:
        raise _NotPlainError
    return match


def _action(raw: bytes, start: int, end: int) -> PlainAction:
    """The ``TableAction`` from ``start`` to ``end``, if it is an action itself."""
    if raw[start] != TABLE_ACTION_ACTION or raw[start + 1] != end - start - 2:
        raise _NotPlainError
    action_id, at = _field(raw, start + 2, ACTION_ID)
    params = []
    while at < end:
        if raw[at] != ACTION_PARAM:
            raise _NotPlainError
        after = at + 2 + raw[at + 1]
        param_id, at = _field(raw, at + 2, PARAM_ID)
        value, at = _bytes(raw, at, PARAM_VALUE)
        if at != after:
            raise _NotPlainError
        params.append(PlainParam(param_id, value))
    if at != end:
        raise _NotPlainError
    return PlainAction(action_id, tuple(params), raw[start:end])


def _field(raw: bytes, at: int, tag: int) -> tuple[int, int]:
    """The number of a uint32 field, and where it ends."""
    number = raw[at + 1]
    if raw[at] != tag:
        raise _NotPlainError
    if number <= _ONE_BYTE:
        return number, at + 2
    number &= _ONE_BYTE
    for shift, place in enumerate(range(at + 2, at + 6), 1):
        number |= (raw[place] & _ONE_BYTE) << 7 * shift
        if raw[place] <= _ONE_BYTE:
            if number > _UINT32:
                break
            return number, place + 1
    raise _NotPlainError


def _bytes(raw: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """A field of bytes, and where it ends."""
    after = at + 2 + raw[at + 1]
    if raw[at] != tag or after > len(raw):
        raise _NotPlainError
    return raw[at + 2 : after], after
