# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Counters, meters and parser value sets as P4Runtime entities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.errors import NotFoundError
from softswitch.p4runtime.entries import decode_match
from softswitch.p4runtime.errors import (
    InvalidArgumentError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
)
from softswitch.p4runtime.p4info import Counter, P4Info, ValueSetInfo
from softswitch.runtime.entries import CounterValue, KeyMatch, MeterRates


def decode_data(data: Any, what: str) -> CounterValue:
    """Return the counter's value. Raises InvalidArgumentError for a negative count, since the message's fields are
    signed."""
    for unit, count in (("packet", data.packet_count), ("byte", data.byte_count)):
        if count < 0:
            raise InvalidArgumentError(f"{what}: {unit} count {count} is negative")
    return CounterValue(packets=data.packet_count, bytes=data.byte_count)


def encode_data(value: CounterValue) -> Any:
    return p4runtime_pb2.CounterData(byte_count=value.bytes, packet_count=value.packets)


def write_counter(device: Device, info: P4Info, entry: Any) -> None:
    """Set one cell, or every cell if ``index`` is unset. Without ``data`` nothing changes."""
    counter = info.counter(entry.counter_id)
    indices = _indices(f"counter {counter.name!r}", device.counter_size(counter.name), entry)
    if not entry.HasField("data"):
        return
    value = decode_data(entry.data, f"counter {counter.name!r}")
    for index in indices:
        device.write_counter(counter.name, index, value)


def wanted_counters(device: Device, info: P4Info, entry: Any) -> list[tuple[Counter, range]]:
    """Return the counter cells that a read asks for: one cell, those of one counter (no index), or of all counters (id
    0)."""
    if entry.counter_id == 0:
        return list(_all_counters(device, info))
    counter = info.counter(entry.counter_id)
    return [(counter, _indices(f"counter {counter.name!r}", device.counter_size(counter.name), entry))]


def _all_counters(device: Device, info: P4Info) -> Iterator[tuple[Counter, range]]:
    for counter in info.counters.values():
        with suppress(NotFoundError):  # the compiler may drop a counter that P4Info lists
            yield counter, range(device.counter_size(counter.name))


def _indices(what: str, size: int, entry: Any) -> range:
    if not entry.HasField("index"):
        return range(size)
    index = entry.index.index
    if index < 0:
        raise InvalidArgumentError(f"{what}: index {index} is negative")
    if index >= size:
        raise OutOfRangeError(f"{what}: index {index} is not in 0..{size - 1}")
    return range(index, index + 1)


def counter_cells(device: Device, counter: Counter, indices: range) -> Iterator[Any]:
    """Yield an ``Entity`` message for each cell."""
    for index in indices:
        entity = p4runtime_pb2.Entity()
        entity.counter_entry.counter_id = counter.id
        entity.counter_entry.index.index = index
        entity.counter_entry.data.CopyFrom(encode_data(device.read_counter(counter.name, index)))
        yield entity


def write_meter(device: Device, info: P4Info, entry: Any) -> None:
    """Configure one meter, or the whole array if ``index`` is unset. Without ``config`` packets are green."""
    meter = info.meter(entry.meter_id)
    indices = _indices(f"meter {meter.name!r}", meter.size, entry)
    rates = _rates(f"meter {meter.name!r}", entry)
    for index in indices:
        device.set_meter(meter.name, index, rates)


def wanted_meters(info: P4Info, entry: Any) -> list[tuple[Counter, range]]:
    """Return the meters that a read asks for: one, those of one array (no index), or all (id 0)."""
    if entry.HasField("counter_data"):
        raise UnimplementedError("counter_data of meters is not offered")
    if entry.meter_id == 0:
        return [(meter, range(meter.size)) for meter in info.meters.values()]
    meter = info.meter(entry.meter_id)
    return [(meter, _indices(f"meter {meter.name!r}", meter.size, entry))]


def meter_entities(device: Device, meter: Counter, indices: range) -> Iterator[Any]:
    for index in indices:
        entity = p4runtime_pb2.Entity()
        entity.meter_entry.meter_id = meter.id
        entity.meter_entry.index.index = index
        rates = device.meter_rates(meter.name, index)
        if rates is not None:
            entity.meter_entry.config.CopyFrom(encode_meter(rates))
        yield entity


def _rates(what: str, entry: Any) -> MeterRates | None:
    if entry.HasField("counter_data"):
        raise UnimplementedError(f"{what}: counter_data is not offered")
    return decode_meter(what, entry.config) if entry.HasField("config") else None


def decode_meter(what: str, config: Any) -> MeterRates:
    """Return the rates of a ``MeterConfig``. Raises InvalidArgumentError."""
    if not 0 <= config.cir <= config.pir or config.cburst < 0 or config.pburst < 0:
        rule = "rates are 0 <= cir <= pir, and bursts are not negative"
        raise InvalidArgumentError(f"{what}: cir {config.cir}, pir {config.pir}: {rule}")
    if config.eburst:
        raise InvalidArgumentError(f"{what}: eburst is set, but the meter has two rates")
    return MeterRates(config.cir, config.cburst, config.pir, config.pburst)


def encode_meter(rates: MeterRates) -> Any:
    """Return the ``MeterConfig``, whose rates are whole numbers."""
    return p4runtime_pb2.MeterConfig(
        cir=int(rates.committed), cburst=rates.committed_burst, pir=int(rates.peak), pburst=rates.peak_burst
    )


#: ValueSetMembers as they were written, by value set.
ValueSetMembers = dict[int, list[Any]]


def write_value_set(device: Device, info: P4Info, kept: ValueSetMembers, entry: Any) -> None:
    """Replace the members of one value set."""
    found = info.value_set(entry.value_set_id)
    if len(entry.members) > found.size:
        raise ResourceExhaustedError(f"value set {found.name!r}: {len(entry.members)} members, it takes {found.size}")
    device.set_value_set(found.name, [_member(found, member) for member in entry.members])
    kept[found.id] = list(p4runtime_pb2.ValueSetEntry.FromString(entry.SerializeToString()).members)


def value_set_entities(info: P4Info, kept: Mapping[int, list[Any]], asked: Any) -> Iterator[Any]:
    """Yield an ``Entity`` for each value set that a read asks for: one, or all (id 0)."""
    wanted = [info.value_set(asked.value_set_id)] if asked.value_set_id else info.value_sets.values()
    for found in wanted:
        entity = p4runtime_pb2.Entity()
        entity.value_set_entry.value_set_id = found.id
        entity.value_set_entry.members.extend(kept.get(found.id, ()))
        yield entity


def _member(found: ValueSetInfo, member: Any) -> tuple[KeyMatch, ...]:
    what = f"value set {found.name!r}"
    given = {match.field_id: match for match in member.match}
    if len(given) != len(member.match) or not given.keys() <= {field.id for field in found.fields}:
        raise InvalidArgumentError(f"{what}: a member has each of its {len(found.fields)} match fields once")
    return tuple(decode_match(field, given.get(field.id), f"{what}, field {field.name!r}") for field in found.fields)
