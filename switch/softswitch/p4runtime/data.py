# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of the data plane as ``P4Data`` messages (specification: "Representation of Arbitrary P4 Types")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from p4.v1 import p4data_pb2

from softswitch.p4runtime import values
from softswitch.p4runtime.errors import UnimplementedError

#: Writes the next numbers into a ``P4Data``.
Encoder = Callable[[Any, Iterator[int]], None]
_DEEPEST = 16


def encoder_of(spec: Any, types: Any, what: str, depth: int = 0) -> Encoder:
    """For a ``P4DataTypeSpec``, with the P4Info's ``type_info``. Raises UnimplementedError for a type without one."""
    kind = spec.WhichOneof("type_spec")
    if depth > _DEEPEST:
        raise UnimplementedError(f"{what}: types are nested deeper than {_DEEPEST}")
    match kind:
        case "bitstring":
            return _bitstring(spec.bitstring)
        case "bool":
            return _bool
        case "struct" if spec.struct.name in types.structs:
            members = types.structs[spec.struct.name].members
            return _struct([encoder_of(each.type_spec, types, what, depth + 1) for each in members])
        case "tuple":
            return _tuple([encoder_of(each, types, what, depth + 1) for each in spec.tuple.members])
        case "new_type" if spec.new_type.name in types.new_types:
            named = types.new_types[spec.new_type.name]
            if named.WhichOneof("representation") == "original_type":
                return encoder_of(named.original_type, types, what, depth + 1)
    raise UnimplementedError(f"{what}: values of type {kind} are not offered")


def _bitstring(spec: Any) -> Encoder:
    kind = spec.WhichOneof("type_spec") or "bit"
    width = max(1, getattr(spec, kind).bitwidth if kind != "varbit" else spec.varbit.max_bitwidth)
    mask = (1 << width) - 1

    def encode(message: Any, numbers: Iterator[int]) -> None:
        message.bitstring = values.encode(next(numbers) & mask)

    return encode


def _bool(message: Any, numbers: Iterator[int]) -> None:
    message.bool = bool(next(numbers))


def _struct(members: Sequence[Encoder]) -> Encoder:
    def encode(message: Any, numbers: Iterator[int]) -> None:
        message.struct.SetInParent()
        for member in members:
            member(message.struct.members.add(), numbers)

    return encode


def _tuple(members: Sequence[Encoder]) -> Encoder:
    def encode(message: Any, numbers: Iterator[int]) -> None:
        message.tuple.SetInParent()
        for member in members:
            member(message.tuple.members.add(), numbers)

    return encode


def numbers_of(encoder: Encoder) -> int:
    """How many numbers a value has."""
    drawn = count()
    encoder(p4data_pb2.P4Data(), drawn)
    return next(drawn)


def encoded(encoder: Encoder, numbers: Sequence[int]) -> Any:
    """Raises RuntimeError where there are too few numbers."""
    message = p4data_pb2.P4Data()
    encoder(message, iter(numbers))
    return message
