# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Converts dataclasses to plain JSON values and back, by their annotations. For records, and for the input of
workers."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """Convert the value to JSON's types. Dataclasses become objects by field, tuples lists, paths text.

    Raises TypeError for a type without a form in JSON.
    """
    match value:
        case Enum():
            plain = to_json(value.value)
        case None | str() | int() | float():
            plain = value
        case Mapping():
            plain = {str(name): to_json(one) for name, one in value.items()}
        case set() | frozenset():
            plain = to_json(sorted(value))
        case Sequence() if not isinstance(value, bytes):
            plain = [to_json(one) for one in value]
        case Path():
            plain = str(value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            plain = {field.name: to_json(getattr(value, field.name)) for field in fields(value) if field.init}
        case _ if hasattr(value, "item"):  # numpy's and torch's scalars
            plain = to_json(value.item())
        case _:
            rule = "has no form in JSON; give numbers, texts, lists, mappings or dataclasses"
            raise TypeError(f"{type(value).__name__}: {rule}")
    return plain


def from_json(kind: Any, raw: Any) -> Any:
    """Convert JSON to a value of this type, an annotation such as ``tuple[int, ...] | None``. The inverse of
    :func:`to_json`.

    Raises TypeError for a value of another type, and a dataclass's errors about its fields.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, raw)
    if origin is not None and origin is not Literal:
        return _collection(kind, origin, arguments, raw)
    if is_dataclass(kind) and isinstance(kind, type):
        return _object(kind, raw)
    if isinstance(kind, type) and issubclass(kind, Path | Enum):
        return kind(raw)
    _check(_fits(kind, arguments, raw), kind, raw)
    return float(raw) if kind is float else raw


def _fits(kind: Any, arguments: tuple[Any, ...], raw: Any) -> bool:
    """Whether a scalar is of an annotation's type."""
    if kind in (Any, object) or isinstance(kind, TypeVar):
        return True
    if arguments:
        return raw in arguments
    if kind is float:
        return isinstance(raw, int | float) and not isinstance(raw, bool)
    return raw is None if kind is type(None) else type(raw) is kind


def _one_of(kinds: Sequence[Any], raw: Any) -> Any:
    if raw is None and type(None) in kinds:
        return None
    *first, last = (kind for kind in kinds if kind is not type(None))
    for kind in first:
        try:
            return from_json(kind, raw)
        except TypeError:
            continue
    return from_json(last, raw)


def _object(kind: type, raw: Any) -> Any:
    _check(isinstance(raw, Mapping), kind, raw)
    unknown = raw.keys() - {field.name for field in fields(kind)}
    _check(not unknown, kind, sorted(unknown))
    hints = get_type_hints(kind)
    return kind(**{name: from_json(hints[name], one) for name, one in raw.items()})


def _collection(kind: Any, origin: Any, arguments: tuple[Any, ...], raw: Any) -> Any:
    if issubclass(origin, Mapping):
        _check(isinstance(raw, Mapping), kind, raw)
        return {name: from_json(arguments[1], one) for name, one in raw.items()}
    _check(isinstance(raw, list | tuple), kind, raw)
    if origin is tuple and arguments[-1] is not Ellipsis:
        _check(len(raw) == len(arguments), kind, raw)
        return tuple(from_json(one, value) for one, value in zip(arguments, raw, strict=True))
    found = [from_json(arguments[0], one) for one in raw]
    return origin(found) if origin in (tuple, set, frozenset) else found


def _check(right: bool, kind: Any, found: Any) -> None:
    if not right:
        raise TypeError(f"{found!r}: must be {kind.__name__ if isinstance(kind, type) else kind}")
