# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reports the counters that the processes of an aggregator share: as lines of the log, and as metrics.

Used by `cli`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from commonlib import logs
from commonlib.events import ProgramEvent
from commonlib.metrics import MetricsEndpoint, Reading
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol import metrics
from sumwire_protocol import metrics as names

from sumwire.aggregator.state import HANDED_OVER, SENT, UNSENT, Shared

# The value of label `switch`.
NAME: Final = "aggregator"
_Cells = NDArray[np.uint64]
# Verdicts on questions and answers, which aggregators of a tree exchange each second, whatever the workers do.
_TALK: Final = (p4.VERDICT_INFORM, p4.VERDICT_KNOWN)
_NAMES: Final = {
    prefix: {value: name.removeprefix(prefix) for name, value in vars(p4).items() if name.startswith(prefix)}
    for prefix in ("VERDICT_", "REJECT_")
}


def _totals(shared: Shared) -> tuple[_Cells, _Cells, _Cells]:
    """Verdicts, reject reasons, and what happened to replies: each summed over all processes."""
    total = shared.counters.sum(axis=0)
    return total[: p4.VERDICTS], total[p4.VERDICTS :][: p4.REJECTS], total[p4.VERDICTS + p4.REJECTS :]


def readings(shared: Shared) -> Iterator[Reading]:
    """All counters as metrics."""
    verdicts, rejects, sockets = _totals(shared)
    for index, name in metrics.VERDICT_NAMES.items():
        yield Reading(names.VERDICTS, (NAME, name), int(verdicts[index]))
    for index, name in metrics.REJECT_NAMES.items():
        yield Reading(names.REFUSED, (NAME, name), int(rejects[index]))
    yield Reading(names.REPLIES, (NAME, "sent"), int(sockets[SENT]))
    yield Reading(names.REPLIES, (NAME, "unsent"), int(sockets[UNSENT]))
    yield Reading(names.HANDED_OVER, (NAME,), int(sockets[HANDED_OVER]))


def prepare(place: MetricsEndpoint | None) -> None:
    """Import what :func:`served` needs before the process drops root's rights. Raises WatchError."""
    if place is not None:
        pass


@contextmanager
def served(shared: Shared, place: MetricsEndpoint | None) -> Iterator[str]:
    """Serve the metrics at ``place`` within the block. Yields the address and port, "" without a place. Raises
    WatchError."""
    if place is None:
        yield ""
        return
    from commonlib.metrics_server import Exposition

    def source() -> Iterator[Reading]:
        return readings(shared)

    with Exposition(place) as exposition:
        exposition.add(source)
        try:
            yield str(exposition.endpoint)
        finally:
            exposition.remove(source)


class Reporter:
    """Prints the counters when packets of workers have changed them since the last call of :meth:`tell`."""

    def __init__(self, shared: Shared, voice: logs.Voice) -> None:
        self._shared, self._voice = shared, voice
        self._told = self._now()

    def tell(self) -> None:
        now = self._now()
        if now != self._told:
            told = report(self._shared).partition("\n")[0]
            self._voice.say(told, ProgramEvent.COUNTED(counters=counted(self._shared)))
        self._told = now

    def _now(self) -> tuple[int, ...]:
        return tuple(map(int, np.delete(_totals(self._shared)[0], _TALK)))


def report(shared: Shared) -> str:
    """The counters of all processes together, in three lines."""
    found = counted(shared)
    sockets = found["replies"]
    return "\n".join(
        (
            f"verdicts: {_listed(found['verdicts'])}",
            f"rejected: {_listed(found['rejected'])}",
            f"replies: {sockets['sent']} sent, {sockets['not sent']} not; between processes: {sockets['handed over']}",
        )
    )


def counted(shared: Shared) -> dict[str, dict[str, int]]:
    """Verdicts and reject reasons that are not 0, and all counters of replies; by kind and name."""
    verdicts, rejects, sockets = _totals(shared)
    return {
        "verdicts": _named(verdicts, "VERDICT_"),
        "rejected": _named(rejects, "REJECT_"),
        "replies": {
            "sent": int(sockets[SENT]), "not sent": int(sockets[UNSENT]), "handed over": int(sockets[HANDED_OVER]),
        },
    }  # fmt: skip


def _named(cells: _Cells, prefix: str) -> dict[str, int]:
    return {_NAMES[prefix][index]: int(cells[index]) for index in np.flatnonzero(cells)}


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
