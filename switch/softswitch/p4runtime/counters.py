# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Indirect counters and counter data (specification: "CounterEntry & DirectCounterEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.errors import NotFoundError
from softswitch.p4runtime.errors import InvalidArgumentError, OutOfRangeError
from softswitch.p4runtime.p4info import Counter, P4Info
from softswitch.runtime.entries import CounterValue


def decode_data(data: Any, what: str) -> CounterValue:
    """Raises InvalidArgumentError for a negative count: the message's fields are signed."""
    for unit, count in (("packet", data.packet_count), ("byte", data.byte_count)):
        if count < 0:
            raise InvalidArgumentError(f"{what}: {unit} count {count} is negative")
    return CounterValue(packets=data.packet_count, bytes=data.byte_count)


def encode_data(value: CounterValue) -> Any:
    return p4runtime_pb2.CounterData(byte_count=value.bytes, packet_count=value.packets)


def write(device: Device, info: P4Info, entry: Any) -> None:
    """Set one cell, or every cell where ``index`` is unset. Without ``data`` nothing changes."""
    counter = info.counter(entry.counter_id)
    indices = _indices(device, counter, entry)
    if not entry.HasField("data"):
        return
    value = decode_data(entry.data, f"counter {counter.name!r}")
    for index in indices:
        device.write_counter(counter.name, index, value)


def wanted(device: Device, info: P4Info, entry: Any) -> list[tuple[Counter, range]]:
    """The cells that a read asks for: one, those of one counter (no index), or those of all counters (id 0)."""
    if entry.counter_id == 0:
        return list(_all(device, info))
    counter = info.counter(entry.counter_id)
    return [(counter, _indices(device, counter, entry))]


def _all(device: Device, info: P4Info) -> Iterator[tuple[Counter, range]]:
    for counter in info.counters.values():
        with suppress(NotFoundError):  # the compiler may drop a counter that P4Info lists
            yield counter, range(device.counter_size(counter.name))


def _indices(device: Device, counter: Counter, entry: Any) -> range:
    size = device.counter_size(counter.name)
    if not entry.HasField("index"):
        return range(size)
    index = entry.index.index
    if index < 0:
        raise InvalidArgumentError(f"counter {counter.name!r}: index {index} is negative")
    if index >= size:
        raise OutOfRangeError(f"counter {counter.name!r}: index {index} is not in 0..{size - 1}")
    return range(index, index + 1)


def cells(device: Device, counter: Counter, indices: range) -> Iterator[Any]:
    """An ``Entity`` message for each cell."""
    for index in indices:
        entity = p4runtime_pb2.Entity()
        entity.counter_entry.counter_id = counter.id
        entity.counter_entry.index.index = index
        entity.counter_entry.data.CopyFrom(encode_data(device.read_counter(counter.name, index)))
        yield entity
