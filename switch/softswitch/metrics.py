# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of a running switch: its ports' counters, and values that plug-ins read from the P4 program's state.

Everything is read at each scrape, under the engine's lock, a few hundred cells at most. A plug-in is a
:data:`ProgramReadings` that an installed package declares as an entry point of the group ``softswitch.metrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Final

from commonlib import metrics as names
from commonlib.metrics import Metric, Reading

from softswitch.errors import NotFoundError
from softswitch.runtime.engine import PortRunner
from softswitch.runtime.entries import Exact
from softswitch.runtime.interface import known_mbit
from softswitch.switch import SoftSwitch

PLUG_INS: Final = "softswitch.metrics"
"""Group of the entry points."""
CountOf = Callable[[str, int], int]
"""Packets that a cell of a counter has counted, by the counter's name and the cell's index."""
RowsOf = Callable[[str], Iterable[tuple[tuple[str, ...], int, int]]]
"""Of each row of a table, by the table's name: its exact keys, and the packets and bytes of its direct counter."""
ProgramReadings = Callable[[str, Sequence[int], CountOf, RowsOf], Iterator[Reading]]
"""Readings of a program, for the switch's name and its ports. The two functions raise NotFoundError where the switch
runs another program, and the plug-in has no readings then."""

_BYTES_OF_MBIT: Final = 1e6 / 8
# By field of PortCounters; with the values of the metric's labels behind switch and port.
PORT_FIELDS: Final[Mapping[str, tuple[Metric, tuple[str, ...]]]] = {
    "rx_frames": (names.PORT_RECEIVED_FRAMES, ()),
    "rx_bytes": (names.PORT_RECEIVED_BYTES, ()),
    "tx_frames": (names.PORT_SENT_FRAMES, ()),
    "tx_bytes": (names.PORT_SENT_BYTES, ()),
    "tx_dropped": (names.PORT_DROPPED, ("tx_dropped",)),
    "tx_refused": (names.PORT_DROPPED, ("tx_refused",)),
    "rx_dropped": (names.PORT_DROPPED, ("rx_dropped",)),
    "rx_cut": (names.PORT_DROPPED, ("rx_cut",)),
    "rx_refused": (names.PORT_DROPPED, ("rx_refused",)),
    "rx_trains": (names.PORT_TRAINS, ("received",)),
    "tx_trains": (names.PORT_TRAINS, ("sent",)),
}


def installed() -> list[ProgramReadings]:
    """Return the plug-ins of all installed packages."""
    return [point.load() for point in entry_points(group=PLUG_INS)]


class SwitchMetrics:
    """A source of metrics. ``name``: the value of label ``switch``. ``interfaces``: names by port.

    ``link_mbit``: the links' rate, if it is lower than the interfaces' rate.
    """

    def __init__(
        self,
        name: str,
        switch: SoftSwitch,
        runner: PortRunner,
        interfaces: Mapping[int, str],
        link_mbit: float | None = None,
        *,
        programs: Iterable[ProgramReadings] = (),
    ) -> None:
        self._name, self._switch, self._runner, self._programs = name, switch, runner, tuple(programs)
        rates = {number: known_mbit(interface, link_mbit) for number, interface in interfaces.items()}
        self._rates = {number: rate * _BYTES_OF_MBIT for number, rate in rates.items() if rate is not None}

    def __call__(self) -> Iterator[Reading]:
        """Yield all readings as of now."""
        for number, rate in self._rates.items():
            yield Reading(names.PORT_LINE_RATE, (self._name, str(number)), rate)
        counters = self._runner.counters
        for number, port in counters.items():
            for field, (metric, labels) in PORT_FIELDS.items():
                yield Reading(metric, (self._name, str(number), *labels), getattr(port, field))
        for program in self._programs:
            try:
                found = list(program(self._name, list(counters), self._count_of, self._rows_of))
            except NotFoundError:
                # No program yet, or another one.
                continue
            yield from found

    def _count_of(self, counter: str, index: int) -> int:
        return self._switch.read_counter(counter, index).packets

    def _rows_of(self, table: str) -> Iterator[tuple[tuple[str, ...], int, int]]:
        for row in self._switch.entries(table):
            if row.counter is not None:
                key = tuple(str(match.value) for match in row.key if isinstance(match, Exact))
                yield key, row.counter.packets, row.counter.bytes
