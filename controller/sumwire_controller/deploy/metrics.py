# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What switches say, as metrics: the controller asks them at each scrape, also those that serve none themselves."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from sumwire_protocol.logs.events import Event
from sumwire_protocol.watch import metrics as names
from sumwire_protocol.watch.metrics import Reading
from sumwire_protocol.watch.switch_names import QueueLabels

from sumwire_controller.deploy.operations import read_status
from sumwire_controller.deploy.status import Status
from sumwire_controller.deploy.switch import DEFAULT_TIMEOUT_S
from sumwire_controller.errors import SwitchError
from sumwire_controller.model.config import Config

log: Final = logging.getLogger(__name__)


class SwitchesMetrics:
    """A source of metrics: the counters of all switches of ``configs``, one after another.

    :param timeout: for each call to a switch, in seconds.
    :param build_dir: folder of the compiled program; None for the checkout's.
    """

    def __init__(
        self, configs: Sequence[Config], *, timeout: float = DEFAULT_TIMEOUT_S, build_dir: Path | str | None = None
    ) -> None:
        self._configs, self._timeout, self._build_dir = tuple(configs), timeout, build_dir
        self._complained: dict[str, str] = {}

    def __call__(self) -> Iterator[Reading]:
        """All values now."""
        for config in self._configs:
            yield from self._of(config)

    def _of(self, config: Config) -> Iterator[Reading]:
        name = config.switch.name
        try:
            status = read_status(config, build_dir=self._build_dir, timeout=self._timeout)
        except SwitchError as error:
            if self._complained.get(name) != str(error):
                self._complained[name] = str(error)
                log.warning("%s: %s", name, error, extra=Event.SWITCH_SILENT(switch=name, reason=str(error)))
            yield Reading(names.UP, (name,), 0)
            return
        self._complained.pop(name, None)
        yield from readings(status)


def readings(status: Status) -> Iterator[Reading]:
    """What was read of one switch."""
    name = status.switch
    yield Reading(names.UP, (name,), 1)
    yield Reading(names.IN_SYNC, (name,), status.in_sync)
    for metric, counts in ((names.VERDICTS, status.verdicts), (names.REFUSED, status.rejects)):
        for what, count in counts.items():
            yield Reading(metric, (name, what), count.packets)
    for worker in status.workers:
        key = (name, str(worker.job), str(worker.worker))
        yield Reading(names.WORKER_PACKETS, key, worker.packets)
        yield Reading(names.WORKER_BYTES, key, worker.bytes)
    for queue in status.queues:
        labels = QueueLabels(queue.tagged, queue.drop_class, queue.decision).words()
        yield Reading(names.QUEUE_PACKETS, (name, str(queue.port), *labels), queue.packets)
