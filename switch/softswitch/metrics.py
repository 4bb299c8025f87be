# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the switch tells of itself where metrics are on: its ports' counters, and those of Sumwire's program.

Everything is read at each scrape, under the engine's lock, a few hundred cells at most. Another program than Sumwire's
has the counters of ports alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sumwire_protocol.watch import metrics as names
from sumwire_protocol.watch import switch_names
from sumwire_protocol.watch.metrics import Metric, Reading

from softswitch.errors import NotFoundError
from softswitch.runtime.engine import PortRunner
from softswitch.runtime.entries import Exact
from softswitch.runtime.trains import known_mbit
from softswitch.switch import SoftSwitch

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


class SwitchMetrics:
    """A source of metrics. ``name``: the value of label ``switch``. ``interfaces``: names by port.

    ``link_mbit``: rate of the links, where it is lower than that of the interfaces.
    """

    def __init__(
        self,
        name: str,
        switch: SoftSwitch,
        runner: PortRunner,
        interfaces: Mapping[int, str],
        link_mbit: float | None = None,
    ) -> None:
        self._name, self._switch, self._runner = name, switch, runner
        rates = {number: known_mbit(interface, link_mbit) for number, interface in interfaces.items()}
        self._rates = {number: rate * _BYTES_OF_MBIT for number, rate in rates.items() if rate is not None}

    def __call__(self) -> Iterator[Reading]:
        """All values now."""
        for number, rate in self._rates.items():
            yield Reading(names.PORT_LINE_RATE, (self._name, str(number)), rate)
        counters = self._runner.counters
        for number, port in counters.items():
            for field, (metric, labels) in PORT_FIELDS.items():
                yield Reading(metric, (self._name, str(number), *labels), getattr(port, field))
        try:
            found = list(self._program(list(counters)))
        except NotFoundError:
            # No program yet, or another one.
            return
        yield from found

    def _program(self, ports: list[int]) -> Iterator[Reading]:
        read = self._switch.read_counter
        for index, name in switch_names.VERDICT_NAMES.items():
            yield Reading(names.VERDICTS, (self._name, name), read(switch_names.VERDICTS, index).packets)
        for index, name in switch_names.REJECT_NAMES.items():
            yield Reading(names.REFUSED, (self._name, name), read(switch_names.REJECTS, index).packets)
        for row in self._switch.entries(switch_names.WORKERS):
            key = (self._name, *(str(match.value) for match in row.key if isinstance(match, Exact)))
            if row.counter is not None:
                yield Reading(names.WORKER_PACKETS, key, row.counter.packets)
                yield Reading(names.WORKER_BYTES, key, row.counter.bytes)
        for port in ports:
            for cell in range(switch_names.QUEUE_CELLS_OF_PORT):
                packets = read(switch_names.QUEUES, port * switch_names.QUEUE_CELLS_OF_PORT + cell).packets
                if packets:
                    labels = (self._name, str(port), *switch_names.queue_labels(cell).words())
                    yield Reading(names.QUEUE_PACKETS, labels, packets)
