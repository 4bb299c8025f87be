# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Names, ids and widths of a P4Info message, indexed and checked once.

Specification: "P4Info Objects".
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

from p4.config.v1 import p4info_pb2

from softswitch.p4runtime.errors import InvalidArgumentError

_MATCH_TYPES = p4info_pb2.MatchField.MatchType
#: Of a value, twice what a field of a program may have: numbers of that width are computed.
_WIDEST_BITS = 4096


class MatchType(enum.Enum):
    EXACT = _MATCH_TYPES.Value("EXACT")
    LPM = _MATCH_TYPES.Value("LPM")
    TERNARY = _MATCH_TYPES.Value("TERNARY")
    RANGE = _MATCH_TYPES.Value("RANGE")
    OPTIONAL = _MATCH_TYPES.Value("OPTIONAL")


class ActionScope(enum.Enum):
    """The places in which a table may use an action."""

    ENTRY_AND_DEFAULT = p4info_pb2.ActionRef.Scope.Value("TABLE_AND_DEFAULT")
    ENTRY_ONLY = p4info_pb2.ActionRef.Scope.Value("TABLE_ONLY")
    DEFAULT_ONLY = p4info_pb2.ActionRef.Scope.Value("DEFAULT_ONLY")


@dataclass(frozen=True)
class ValueInfo:
    """A named unsigned integer of ``width`` bits: an action parameter or a packet metadata field. For a translated
    type, the width is the controller's (``@p4runtime_translation``)."""

    id: int
    name: str
    width: int
    is_translated: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class KeyField(ValueInfo):
    kind: MatchType


@dataclass(frozen=True)
class ActionInfo:
    id: int
    name: str
    params: tuple[ValueInfo, ...]

    @cached_property
    def named_params(self) -> dict[int, tuple[ValueInfo, str]]:
        """Return, by id and in order, each parameter and its name in errors."""
        return {each.id: (each, f"action {self.name!r}, parameter {each.name!r}") for each in self.params}


@dataclass(frozen=True)
class TableInfo:
    """A table. ``fields``: in key order. ``scopes``: by action id. ``size``: how many entries it holds."""

    id: int
    name: str
    fields: tuple[KeyField, ...]
    scopes: Mapping[int, ActionScope]
    is_const: bool
    has_initial_entries: bool
    has_const_default: bool
    has_direct_counter: bool
    has_direct_meter: bool
    has_idle_timeout: bool
    implementation_id: int
    size: int

    @cached_property
    def needs_priority(self) -> bool:
        return any(field.kind in _PRIORITISED for field in self.fields)

    @cached_property
    def named_fields(self) -> dict[int, tuple[KeyField, str]]:
        """By id, in the order of the key: each field, and its name in errors."""
        return {each.id: (each, f"table {self.name!r}, field {each.name!r}") for each in self.fields}

    @cached_property
    def has_plain_entries(self) -> bool:
        """Whether an entry is only a key, an action and a priority, without further state."""
        kept = self.implementation_id or self.has_idle_timeout
        return bool(self.fields) and not (kept or self.is_const or self.has_initial_entries)


_PRIORITISED = frozenset({MatchType.TERNARY, MatchType.RANGE, MatchType.OPTIONAL})


@dataclass(frozen=True)
class Counter:
    id: int
    name: str
    size: int


@dataclass(frozen=True)
class ActionProfile:
    """An action profile, or a selector. ``size``: number of members; 0 for no limit. ``max_group_size``: sum of the
    weights of a group; 0 for no limit."""

    id: int
    name: str
    table_ids: tuple[int, ...]
    has_selector: bool
    size: int
    max_group_size: int


@dataclass(frozen=True)
class ValueSetInfo:
    id: int
    name: str
    fields: tuple[KeyField, ...]
    size: int


@dataclass(frozen=True)
class DigestInfo:
    """``type_spec``: a ``P4DataTypeSpec``."""

    id: int
    name: str
    type_spec: Any


@dataclass(frozen=True)
class P4Info:
    tables: Mapping[int, TableInfo]
    actions: Mapping[int, ActionInfo]
    actions_by_name: Mapping[str, ActionInfo]
    counters: Mapping[int, Counter]
    #: Indirect ones; they are arrays, as counters are.
    meters: Mapping[int, Counter]
    digests: Mapping[int, DigestInfo]
    value_sets: Mapping[int, ValueSetInfo]
    profiles: Mapping[int, ActionProfile]
    #: A ``P4TypeInfo``.
    types: Any
    #: Fields of the headers annotated @controller_header; None where the program has none.
    packet_in: tuple[ValueInfo, ...] | None
    packet_out: tuple[ValueInfo, ...] | None
    #: Ids of other objects, by the kind of entity that is about them.
    others: Mapping[str, frozenset[int]]

    def table(self, table_id: int) -> TableInfo:
        return _find(self.tables, table_id, "table")

    def counter(self, counter_id: int) -> Counter:
        return _find(self.counters, counter_id, "counter")

    def meter(self, meter_id: int) -> Counter:
        return _find(self.meters, meter_id, "meter")

    def profile(self, profile_id: int) -> ActionProfile:
        return _find(self.profiles, profile_id, "action profile")

    def value_set(self, value_set_id: int) -> ValueSetInfo:
        return _find(self.value_sets, value_set_id, "value set")

    def digest(self, digest_id: int) -> DigestInfo:
        return _find(self.digests, digest_id, "digest")


_T = TypeVar("_T")


class _Identified(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


_I = TypeVar("_I", bound=_Identified)


def _find(objects: Mapping[int, _T], object_id: int, kind: str) -> _T:
    if object_id not in objects:
        raise InvalidArgumentError(f"{object_id:#010x} is not the id of a {kind} in the P4Info")
    return objects[object_id]


def parse(message: Any) -> P4Info:
    """Index a ``p4.config.v1.P4Info``.

    Raises InvalidArgumentError if ids repeat or dangle, or a width or match type is missing.
    """
    actions = _by_id((_action(action) for action in message.actions), "action")
    counted = frozenset(counter.direct_table_id for counter in message.direct_counters)
    metered = frozenset(meter.direct_table_id for meter in message.direct_meters)
    tables = _by_id((_table(table, actions, counted, metered) for table in message.tables), "table")
    counters = _by_id((Counter(c.preamble.id, c.preamble.name, c.size) for c in message.counters), "counter")
    dangling = counted - tables.keys()
    if dangling:
        raise InvalidArgumentError(f"direct counter of table id {min(dangling):#010x}, which is not in the P4Info")
    headers = {header.preamble.name: _header(header) for header in message.controller_packet_metadata}
    return P4Info(
        tables=tables,
        actions=actions,
        actions_by_name={action.name: action for action in actions.values()},
        counters=counters,
        meters=_by_id((Counter(m.preamble.id, m.preamble.name, m.size) for m in message.meters), "meter"),
        digests=_by_id((DigestInfo(d.preamble.id, d.preamble.name, d.type_spec) for d in message.digests), "digest"),
        value_sets=_by_id(map(_value_set, message.value_sets), "value set"),
        profiles=_profiles(message, tables),
        types=message.type_info,
        packet_in=headers.get("packet_in"),
        packet_out=headers.get("packet_out"),
        others=_others(message),
    )


def _profiles(message: Any, tables: Mapping[int, TableInfo]) -> dict[int, ActionProfile]:
    profiles = _by_id(
        (
            ActionProfile(p.preamble.id, p.preamble.name, tuple(p.table_ids), p.with_selector, p.size, p.max_group_size)
            for p in message.action_profiles
        ),
        "action profile",
    )
    for profile in profiles.values():
        unknown = set(profile.table_ids) - tables.keys()
        if unknown:
            shown = f"table id {min(unknown):#010x}, which is not there"
            raise InvalidArgumentError(f"P4Info: action profile {profile.name!r} has {shown}")
    for table in tables.values():
        if table.implementation_id and table.implementation_id not in profiles:
            number = f"{table.implementation_id:#010x}"
            raise InvalidArgumentError(
                f"P4Info: table {table.name!r} has action profile id {number}, which is not there"
            )
    return profiles


def _others(message: Any) -> dict[str, frozenset[int]]:
    return {
        "extern_entry": frozenset(each.extern_type_id for each in message.externs),
        "register_entry": frozenset(each.preamble.id for each in message.registers),
    }


def _by_id(objects: Iterable[_I], kind: str) -> dict[int, _I]:
    index: dict[int, _I] = {}
    for item in objects:
        if item.id == 0:
            raise InvalidArgumentError(f"P4Info: {kind} {item.name!r} has id 0")
        if item.id in index:
            raise InvalidArgumentError(
                f"P4Info: {kind} id {item.id:#010x} is both {index[item.id].name!r} and {item.name!r}"
            )
        index[item.id] = item
    return index


def _value(message: Any, owner: str) -> ValueInfo:
    if message.bitwidth > _WIDEST_BITS:
        rule = f"{message.bitwidth} bits, and {_WIDEST_BITS} are the most"
        raise InvalidArgumentError(f"P4Info: {owner}, {message.name!r} has {rule}")
    if message.bitwidth <= 0:
        raise InvalidArgumentError(
            f"P4Info: {owner}, {message.name!r} has no bit width; translated types are not offered"
        )
    translated = message.HasField("type_name") and bool(message.type_name.name)
    return ValueInfo(message.id, message.name, message.bitwidth, is_translated=translated)


def _action(message: Any) -> ActionInfo:
    name = message.preamble.name
    params = _by_id((_value(param, f"action {name!r}") for param in message.params), "parameter")
    return ActionInfo(message.preamble.id, name, tuple(params.values()))


def _header(message: Any) -> tuple[ValueInfo, ...]:
    owner = f"header {message.preamble.name!r}"
    return tuple(_by_id((_value(field, owner) for field in message.metadata), "packet metadata").values())


def _key_field(message: Any, table: str) -> KeyField:
    value = _value(message, f"table {table!r}")
    try:
        kind = MatchType(message.match_type)
    except ValueError:
        shown = message.other_match_type or message.match_type
        raise InvalidArgumentError(
            f"P4Info: table {table!r}, field {value.name!r}: match type {shown!r} is unknown"
        ) from None
    return KeyField(value.id, value.name, value.width, kind, is_translated=value.is_translated)


def _value_set(message: Any) -> ValueSetInfo:
    name = message.preamble.name
    fields = _by_id((_key_field(field, name) for field in message.match), "match field")
    return ValueSetInfo(message.preamble.id, name, tuple(fields.values()), message.size)


def _scope(ref: Any, table: str) -> ActionScope:
    try:
        return ActionScope(ref.scope)
    except ValueError:
        raise InvalidArgumentError(f"P4Info: table {table!r}: action scope {ref.scope} is unknown") from None


def _table(
    message: Any, actions: Mapping[int, ActionInfo], counted: frozenset[int], metered: frozenset[int]
) -> TableInfo:
    name = message.preamble.name
    fields = _by_id((_key_field(field, name) for field in message.match_fields), "match field")
    scopes = {ref.id: _scope(ref, name) for ref in message.action_refs}
    unknown = scopes.keys() - actions.keys()
    if unknown:
        raise InvalidArgumentError(
            f"P4Info: table {name!r} refers to action id {min(unknown):#010x}, which is not there"
        )
    return TableInfo(
        id=message.preamble.id,
        name=name,
        fields=tuple(fields.values()),
        scopes=scopes,
        is_const=message.is_const_table,
        has_initial_entries=message.has_initial_entries,
        has_const_default=message.const_default_action_id != 0,
        has_direct_counter=message.preamble.id in counted,
        has_direct_meter=message.preamble.id in metered,
        has_idle_timeout=message.idle_timeout_behavior == message.NOTIFY_CONTROL,
        implementation_id=message.implementation_id,
        size=message.size,
    )
