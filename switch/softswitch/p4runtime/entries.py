# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Converts table entries to messages and back: values as bytestrings, matches, priorities, actions.

Specification: "Bytestrings", "Match Format", "Action Specification".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.errors import InternalError, InvalidArgumentError, PermissionDeniedError
from softswitch.p4runtime.p4info import ActionInfo, ActionScope, KeyField, MatchType, P4Info, TableInfo
from softswitch.runtime.entries import ActionCall, Exact, KeyMatch, Lpm, Range, Ternary


def decode_value(data: bytes, width: int, what: str) -> int:
    """Return the unsigned integer in big-endian ``data``; leading zero bytes are accepted.

    ``what`` names the field for the error text. Raises InvalidArgumentError for an empty string and for a value that
    does not fit ``width`` bits.
    """
    if not data:
        raise InvalidArgumentError(f"{what}: the value is empty, bit<{width}> needs at least one byte")
    value = int.from_bytes(data, "big")
    if value.bit_length() > width:
        raise InvalidArgumentError(f"{what}: value {value:#x} does not fit bit<{width}>")
    return value


def encode_value(value: int) -> bytes:
    """Return the canonical form: the shortest big-endian string, one zero byte for 0."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


_OMIT = 'a "don\'t care" match must be left out'


def decode_key(table: TableInfo, matches: Iterable[Any]) -> tuple[KeyMatch, ...]:
    """Return one device match per key field, in key order, from ``FieldMatch`` messages in any order.

    Raises InvalidArgumentError naming table, field, value and rule.
    """
    given: dict[int, Any] = {}
    known = table.named_fields
    for match in matches:
        number = match.field_id
        if number not in known:
            raise InvalidArgumentError(f"table {table.name!r} has no match field id {number}")
        if number in given:
            raise InvalidArgumentError(f"table {table.name!r}: match field id {number} is given twice")
        given[number] = match
    return tuple([decode_match(field, given.get(number), what) for number, (field, what) in known.items()])


def decode_match(field: KeyField, match: Any | None, what: str) -> KeyMatch:
    """Return the device's match of one field, which errors call ``what``. ``match`` None: it was left out.

    Raises InvalidArgumentError.
    """
    if match is None:
        if field.kind is MatchType.EXACT:
            raise InvalidArgumentError(f"{what}: an exact match cannot be left out")
        return _dont_care(field)
    kind = match.WhichOneof("field_match_type")
    expected, decoder = _DECODERS[field.kind]
    if kind != expected:
        raise InvalidArgumentError(f"{what}: is matched {expected}, the request has {kind}")
    return decoder(getattr(match, kind), field.width, what)


def _dont_care(field: KeyField) -> KeyMatch:
    match field.kind:
        case MatchType.LPM:
            return Lpm(0, 0)
        case MatchType.RANGE:
            return Range(0, _ones(field.width))
        case _:
            return Ternary(0, 0)


def _decode_exact(match: Any, width: int, what: str) -> KeyMatch:
    return Exact(decode_value(match.value, width, what))


def _decode_optional(match: Any, width: int, what: str) -> KeyMatch:
    return Ternary(decode_value(match.value, width, what), _ones(width))


def _decode_lpm(match: Any, width: int, what: str) -> KeyMatch:
    value = decode_value(match.value, width, what)
    length = match.prefix_len
    if length == 0:
        raise InvalidArgumentError(f"{what}: prefix length 0; {_OMIT}")
    if not 0 < length <= width:
        raise InvalidArgumentError(f"{what}: prefix length {length} is not in 1..{width}")
    if value & _ones(width - length):
        raise InvalidArgumentError(f"{what}: value {value:#x} has bits set beyond its prefix length {length}")
    return Lpm(value, length)


def _decode_ternary(match: Any, width: int, what: str) -> KeyMatch:
    value = decode_value(match.value, width, what)
    mask = decode_value(match.mask, width, f"{what}, mask")
    if mask == 0:
        raise InvalidArgumentError(f"{what}: mask 0; {_OMIT}")
    if value & ~mask:
        raise InvalidArgumentError(f"{what}: value {value:#x} has bits set outside its mask {mask:#x}")
    return Ternary(value, mask)


def _decode_range(match: Any, width: int, what: str) -> KeyMatch:
    low = decode_value(match.low, width, f"{what}, low")
    high = decode_value(match.high, width, f"{what}, high")
    if low > high:
        raise InvalidArgumentError(f"{what}: low {low:#x} is above high {high:#x}")
    if low == 0 and high == _ones(width):
        raise InvalidArgumentError(f"{what}: the range holds every value; {_OMIT}")
    return Range(low, high)


# By kind: its name in a ``FieldMatch``, and its decoder.
_DECODERS: dict[MatchType, tuple[str, Callable[[Any, int, str], KeyMatch]]] = {
    MatchType.EXACT: ("exact", _decode_exact),
    MatchType.LPM: ("lpm", _decode_lpm),
    MatchType.TERNARY: ("ternary", _decode_ternary),
    MatchType.RANGE: ("range", _decode_range),
    MatchType.OPTIONAL: ("optional", _decode_optional),
}


def _ones(width: int) -> int:
    return (1 << width) - 1


def encode_key(table: TableInfo, key: Sequence[KeyMatch]) -> list[Any]:
    """Return the ``FieldMatch`` messages of a device key, without "don't care" fields, with canonical values."""
    pairs = zip(table.fields, key, strict=True)
    return [_encode_match(field, match) for field, match in pairs if match != _dont_care(field)]


def _encode_match(field: KeyField, match: KeyMatch) -> Any:
    message = p4runtime_pb2.FieldMatch(field_id=field.id)
    match match:
        case Exact(value):
            message.exact.value = encode_value(value)
        case Lpm(value, prefix_len):
            message.lpm.value = encode_value(value)
            message.lpm.prefix_len = prefix_len
        case Ternary(value, _) if field.kind is MatchType.OPTIONAL:
            message.optional.value = encode_value(value)
        case Ternary(value, mask):
            message.ternary.value = encode_value(value)
            message.ternary.mask = encode_value(mask)
        case Range(low, high):
            message.range.low = encode_value(low)
            message.range.high = encode_value(high)
    return message


def decode_priority(table: TableInfo, priority: int) -> int:
    """Return the device's priority. Raises InvalidArgumentError unless it is above 0 for keys with a ternary, range or
    optional field, and 0 for all others."""
    if table.needs_priority and priority <= 0:
        raise InvalidArgumentError(f"table {table.name!r}: priority {priority}, its key needs one above 0")
    if not table.needs_priority and priority != 0:
        raise InvalidArgumentError(f"table {table.name!r}: priority {priority}, its key takes none (0)")
    return priority


def decode_action(info: P4Info, table: TableInfo, action: Any, *, is_default: bool) -> ActionCall:
    """Return the call in a ``TableAction``. Raises InvalidArgumentError, or PermissionDeniedError for a wrong scope."""
    kind = action.WhichOneof("type")
    if kind != "action":
        raise InvalidArgumentError(f"table {table.name!r} takes a plain action, the request has {kind}")
    return decode_call(info, table, action.action, is_default=is_default)


def decode_call(info: P4Info, table: TableInfo, call: Any, *, is_default: bool) -> ActionCall:
    """Return the call in an ``ActionInfo``. Raises like :func:`decode_action`."""
    scope = table.scopes.get(call.action_id)
    if scope is None:
        raise InvalidArgumentError(f"table {table.name!r} has no action id {call.action_id:#010x}")
    action = info.actions[call.action_id]
    if scope is (ActionScope.ENTRY_ONLY if is_default else ActionScope.DEFAULT_ONLY):
        use = "the default action" if is_default else "an entry"
        raise PermissionDeniedError(f"table {table.name!r}: action {action.name!r} may not be {use}'s")
    given = _params_by_id(action, call.params)
    named = action.named_params
    if given.keys() != named.keys():
        unknown = given.keys() - named.keys()
        if unknown:
            raise InvalidArgumentError(f"action {action.name!r} has no parameter id {min(unknown)}")
        missing = [param.name for param in action.params if param.id not in given]
        raise InvalidArgumentError(f"action {action.name!r}: parameter {missing[0]!r} is missing")
    args = [decode_value(given[number], param.width, what) for number, (param, what) in named.items()]
    return ActionCall(action.name, tuple(args))


def _params_by_id(action: ActionInfo, params: Iterable[Any]) -> dict[int, bytes]:
    given: dict[int, bytes] = {}
    for param in params:
        if param.param_id in given:
            raise InvalidArgumentError(f"action {action.name!r}: parameter id {param.param_id} is given twice")
        given[param.param_id] = param.value
    return given


def encode_action(info: P4Info, call: ActionCall) -> Any:
    """Return a ``TableAction`` with canonical values. Raises InternalError if the P4Info lacks the device's action."""
    action = info.actions_by_name.get(call.name)
    if action is None:
        raise InternalError(f"action {call.name!r} of the device is not in the P4Info")
    message = p4runtime_pb2.TableAction()
    message.action.action_id = action.id
    for param, value in zip(action.params, call.args, strict=True):
        message.action.params.add(param_id=param.id, value=encode_value(value))
    return message
