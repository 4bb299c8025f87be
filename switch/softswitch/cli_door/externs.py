# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Commands about registers, counters and meters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from softswitch.cli_door import values
from softswitch.cli_door.tables import entry_of
from softswitch.cli_door.values import INT64_MAX, integer, wrong
from softswitch.cli_door.work import Codes, Work, refused
from softswitch.errors import InvalidEntryError, NotFoundError
from softswitch.program import ir
from softswitch.runtime.entries import CounterValue, Entry, MeterRates

#: Cells of a register that one command reads.
CELLS_MOST: Final = 1 << 18
_MICROSECONDS: Final = 1e6  # in a second
_RATES: Final = 2  # of a meter of v1model
_NO_INDEX: Final[Codes] = {NotFoundError: "INVALID_INDEX"}
_NO_RATES: Final[Codes] = {**_NO_INDEX, InvalidEntryError: "INVALID_INFO_RATE_VALUE"}


def register_read(work: Work, words: Sequence[str]) -> None:
    register = work.names.registers.find(words[0])
    if len(words) > 1:
        index = integer(words[1], "index")
        value = work.try_device("register", lambda: work.switch.read_register(register.name, index), _NO_INDEX)
        work.say(f"{words[0]}[{index}]= {value}")
        return
    if register.size > CELLS_MOST:
        raise wrong(f"register {register.name} has {register.size} cells, {CELLS_MOST} are read at once: give an index")
    work.noted.append("register index omitted, reading entire array")
    work.say(f"{words[0]}= {', '.join(map(str, work.switch.registers(register.name)))}")


def register_write(work: Work, words: Sequence[str]) -> None:
    register = work.names.registers.find(words[0])
    index = integer(words[1], "index")
    try:
        value = int(words[2], 0)
    except ValueError:
        raise wrong("Bad format for value, must be an integer") from None
    lowest = -(1 << (register.width - 1)) if register.signed else 0
    if lowest <= value < 0:
        value += 1 << register.width
    if not 0 <= index < register.size:
        raise refused("register", "INVALID_INDEX", f"register {register.name} has {register.size} cells")
    work.try_device("register", lambda: work.switch.write_register(register.name, index, value))


def register_reset(work: Work, words: Sequence[str]) -> None:
    work.switch.reset_register(work.names.registers.find(words[0]).name)


def _direct(work: Work, counter: ir.CounterArray, word: str) -> tuple[str, Entry] | None:
    """Table and entry of a direct counter; None for another."""
    if counter.table is None:
        return None
    return counter.table, entry_of(work, work.names.tables.find(counter.table), word)


def counter_read(work: Work, words: Sequence[str]) -> None:
    counter = work.names.counters.find(words[0])
    index = integer(words[1], "index")
    if counter.table is not None:
        work.say(f"this is the direct counter for table {counter.table}")
    direct = _direct(work, counter, words[1])
    if direct is None:
        value = work.try_device("counter", lambda: work.switch.read_counter(counter.name, index), _NO_INDEX)
    else:
        value = direct[1].counter or CounterValue()
    work.say(f"{words[0]}[{index}]= ({value.bytes} bytes, {value.packets} packets)")


def counter_write(work: Work, words: Sequence[str]) -> None:
    counter = work.names.counters.find(words[0])
    index, packets, size = (integer(word, what) for word, what in zip(words[1:], _COUNTS, strict=True))
    if packets < 0 or size < 0:
        raise wrong(f"counts are in 0..{INT64_MAX}")
    value = CounterValue(packets, size)
    if counter.table is not None:
        work.say(f"writing to direct counter for table {counter.table}")
    direct = _direct(work, counter, words[1])
    if direct is None:
        work.try_device("counter", lambda: work.switch.write_counter(counter.name, index, value), _NO_INDEX)
    else:
        table, entry = direct
        work.switch.write_direct_counter(table, entry.key, entry.priority, value)
    work.say(f"{words[0]}[{index}] has been updated")


_COUNTS: Final = ("index", "packets", "bytes")


def counter_reset(work: Work, words: Sequence[str]) -> None:
    counter = work.names.counters.find(words[0])
    if counter.table is None:
        for index in range(work.switch.counter_size(counter.name)):
            work.switch.write_counter(counter.name, index, CounterValue())
        return
    work.say(f"this is the direct counter for table {counter.table}")
    for entry in work.switch.entries(counter.table):
        work.switch.write_direct_counter(counter.table, entry.key, entry.priority, CounterValue())


def meter_get_rates(work: Work, words: Sequence[str]) -> None:
    meter = work.names.meters.find(words[0])
    index = integer(words[1], "index")
    if meter.table is None:
        if not 0 <= index < meter.size:
            raise refused("meter", "INVALID_INDEX", f"meter {meter.name} has {meter.size} cells")
        found = work.switch.meter_rates(meter.name, index)
    else:
        entry = entry_of(work, work.names.tables.find(meter.table), words[1])
        found = work.switch.direct_meter_rates(meter.table, entry.key, entry.priority)
    if found is None:
        work.say(f"WARNING: expected {_RATES} rates but only received 0")
        return
    pairs = ((found.committed, found.committed_burst), (found.peak, found.peak_burst))
    for number, (rate, burst) in enumerate(pairs):
        work.say(f"{number}: info rate = {rate / _MICROSECONDS}, burst size = {burst}")


def _rates(words: Sequence[str]) -> MeterRates:
    if len(words) != _RATES:
        raise wrong(f"Invalid number of rates, expected {_RATES} but got {len(words)}")
    (committed, small), (peak, large) = values.rates(words)
    return MeterRates(committed * _MICROSECONDS, small, peak * _MICROSECONDS, large)


def meter_set_rates(work: Work, words: Sequence[str]) -> None:
    meter = work.names.meters.find(words[0])
    index, rates = integer(words[1], "index"), _rates(words[2:])
    if meter.table is None:
        work.try_device("meter", lambda: work.switch.set_meter(meter.name, index, rates), _NO_RATES)
        return
    table = meter.table
    entry = entry_of(work, work.names.tables.find(table), words[1])
    work.try_device("meter", lambda: work.switch.set_direct_meter(table, entry.key, entry.priority, rates), _NO_RATES)


def meter_array_set_rates(work: Work, words: Sequence[str]) -> None:
    meter, rates = work.names.meters.find(words[0]), _rates(words[1:])
    if meter.table is not None:
        raise refused("meter", "ERROR", f"{meter.name} is the direct meter of {meter.table}: give an entry's handle")
    for index in range(meter.size):
        work.try_device("meter", partial(work.switch.set_meter, meter.name, index, rates), _NO_RATES)
