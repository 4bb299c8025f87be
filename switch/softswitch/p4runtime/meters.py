# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Meters (specification: "MeterEntry & DirectMeterEntry"); writes of direct ones are in :mod:`.tables`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.p4runtime.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from softswitch.p4runtime.p4info import Counter, P4Info
from softswitch.runtime.entries import MeterRates

#: Configurations by meter and index; where there is none, all packets are green.
Configs = dict[tuple[int, int], Any]


def write(device: Device, info: P4Info, configs: Configs, entry: Any) -> None:
    """Configure one meter, or the whole array where ``index`` is unset; without ``config`` packets are green."""
    meter = info.meter(entry.meter_id)
    indices = _indices(meter, entry)
    rates = _rates(f"meter {meter.name!r}", entry)
    for index in indices:
        device.set_meter(meter.name, index, rates)
        configs.pop((meter.id, index), None)
        if rates is not None:
            configs[meter.id, index] = p4runtime_pb2.MeterConfig.FromString(entry.config.SerializeToString())


def wanted(info: P4Info, entry: Any) -> list[tuple[Counter, range]]:
    """The meters that a read asks for: one, those of one array (no index), or all (id 0)."""
    if entry.HasField("counter_data"):
        raise UnimplementedError("counter_data of meters is not offered")
    if entry.meter_id == 0:
        return [(meter, range(meter.size)) for meter in info.meters.values()]
    meter = info.meter(entry.meter_id)
    return [(meter, _indices(meter, entry))]


def entities(meter: Counter, indices: range, configs: Mapping[tuple[int, int], Any]) -> Iterator[Any]:
    for index in indices:
        entity = p4runtime_pb2.Entity()
        entity.meter_entry.meter_id = meter.id
        entity.meter_entry.index.index = index
        config = configs.get((meter.id, index))
        if config is not None:
            entity.meter_entry.config.CopyFrom(config)
        yield entity


def _rates(what: str, entry: Any) -> MeterRates | None:
    if entry.HasField("counter_data"):
        raise UnimplementedError(f"{what}: counter_data is not offered")
    return decode(what, entry.config) if entry.HasField("config") else None


def decode(what: str, config: Any) -> MeterRates:
    """The rates of a ``MeterConfig``. Raises InvalidArgumentError."""
    if not 0 <= config.cir <= config.pir or config.cburst < 0 or config.pburst < 0:
        rule = "rates are 0 <= cir <= pir, and bursts are not negative"
        raise InvalidArgumentError(f"{what}: cir {config.cir}, pir {config.pir}: {rule}")
    if config.eburst:
        raise InvalidArgumentError(f"{what}: eburst is set, but the meter has two rates")
    return MeterRates(config.cir, config.cburst, config.pir, config.pburst)


def _indices(meter: Counter, entry: Any) -> range:
    if not entry.HasField("index"):
        return range(meter.size)
    index = entry.index.index
    if index < 0:
        raise InvalidArgumentError(f"meter {meter.name!r}: index {index} is negative")
    if index >= meter.size:
        raise OutOfRangeError(f"meter {meter.name!r}: index {index} is not in 0..{meter.size - 1}")
    return range(index, index + 1)
