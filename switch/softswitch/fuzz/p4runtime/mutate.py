# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Mutations of any protobuf message: fields take extreme values, lose them, come twice, or appear.

What a mutation breaks is for the oracle to find out. Ids are also replaced by those of other objects.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

_EXTREMES = {
    FieldDescriptor.CPPTYPE_INT32: (0, 1, 2, -1, 2**31 - 1, -(2**31)),
    FieldDescriptor.CPPTYPE_INT64: (0, 1, -1, 2**31, 2**63 - 1, -(2**63)),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 2, 511, 512, 65535, 65536, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 2**63, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (0, 1, 2, 3, 7),
    FieldDescriptor.CPPTYPE_BOOL: (True, False),
    FieldDescriptor.CPPTYPE_FLOAT: (0.0,),
    FieldDescriptor.CPPTYPE_DOUBLE: (0.0,),
}
_TEXTS = ("", "x", "default", "\x00", "x" * 300)
_LONG = 1000

Place = tuple[Any, Any]


class Mutations:
    """``ids``: of the objects in the P4Info."""

    def __init__(self, ids: Sequence[int], generator: random.Random) -> None:
        self._ids = ids
        self._random = generator

    def apply(self, message: Any) -> None:
        """One to three mutations, in place."""
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            places: list[Place] = []
            _collect(message, places)
            owner, field = self._random.choice(places)
            self._mutate(owner, field)

    def flip(self, data: bytes) -> bytes:
        """A message's bytes with some changed, removed or added."""
        changed = bytearray(data)
        for _ in range(self._random.randint(1, 4)):
            at = self._random.randrange(len(changed) + 1)
            kind = self._random.randrange(4)
            if kind == 0:
                changed[at:at] = self._random.randbytes(self._random.randint(1, 4))
            elif kind == 1:
                del changed[at : at + self._random.randint(1, 8)]
            elif kind == 2:
                del changed[at:]
            elif at < len(changed):
                changed[at] ^= 1 << self._random.randrange(8)
        return bytes(changed)

    def _mutate(self, owner: Any, field: Any) -> None:
        if field.label == FieldDescriptor.LABEL_REPEATED:
            self._repeated(getattr(owner, field.name), field)
        elif field.message_type is not None:
            if owner.HasField(field.name) and self._random.random() < 0.5:
                owner.ClearField(field.name)
            else:
                getattr(owner, field.name).SetInParent()
        else:
            setattr(owner, field.name, self._scalar(field, getattr(owner, field.name)))

    def _repeated(self, items: Any, field: Any) -> None:
        if len(items) == 0:
            if field.message_type is not None:
                items.add()
            return
        at = self._random.randrange(len(items))
        kind = self._random.randrange(3)
        if kind == 0:
            del items[at]
        elif kind == 1:
            items.append(items[at])
        else:
            items.reverse()

    def _scalar(self, field: Any, value: Any) -> Any:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._random.choice(_BYTES)(value, self._random)
        if field.type == FieldDescriptor.TYPE_STRING:
            return self._random.choice(_TEXTS)
        if (
            field.name.endswith("_id")
            and field.cpp_type == FieldDescriptor.CPPTYPE_UINT32
            and self._random.random() < 0.5
        ):
            return self._random.choice(self._ids)
        return self._random.choice(_EXTREMES[field.cpp_type])


def _padded(value: bytes, generator: random.Random) -> bytes:
    return bytes(generator.choice((1, 2, _LONG))) + value


def _wider(value: bytes, generator: random.Random) -> bytes:
    return value + generator.randbytes(generator.choice((1, 8, _LONG)))


_BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    lambda _value, _generator: b"",
    _padded,
    _wider,
    lambda value, _generator: b"\xff" * len(value),
    lambda value, _generator: bytes(len(value)),
    lambda value, _generator: value[1:],
    lambda value, generator: generator.randbytes(len(value)),
)


def _collect(message: Any, places: list[Place]) -> None:
    """All fields of a message and of those in it."""
    for field in message.DESCRIPTOR.fields:
        places.append((message, field))
        if field.message_type is None:
            continue
        if field.label == FieldDescriptor.LABEL_REPEATED:
            for each in getattr(message, field.name):
                _collect(each, places)
        elif message.HasField(field.name):
            _collect(getattr(message, field.name), places)
