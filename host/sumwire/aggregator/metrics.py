# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the aggregator tells of itself where metrics are on: the counters that its processes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sumwire_protocol import constants as p4
from sumwire_protocol.watch import metrics as names
from sumwire_protocol.watch import switch_names
from sumwire_protocol.watch.metrics import Reading
from sumwire_protocol.watch.place import Place

from sumwire.aggregator.state import HANDED_OVER, SENT, UNSENT, Shared

# The value of label `switch`.
NAME: Final = "aggregator"


def readings(shared: Shared) -> Iterator[Reading]:
    """All values now, of all processes together."""
    total = shared.counters.sum(axis=0)
    verdicts, rejects = total[: p4.VERDICTS], total[p4.VERDICTS :][: p4.REJECTS]
    sockets = total[p4.VERDICTS + p4.REJECTS :]
    for index, name in switch_names.VERDICT_NAMES.items():
        yield Reading(names.VERDICTS, (NAME, name), int(verdicts[index]))
    for index, name in switch_names.REJECT_NAMES.items():
        yield Reading(names.REFUSED, (NAME, name), int(rejects[index]))
    yield Reading(names.REPLIES, (NAME, "sent"), int(sockets[SENT]))
    yield Reading(names.REPLIES, (NAME, "unsent"), int(sockets[UNSENT]))
    yield Reading(names.HANDED_OVER, (NAME,), int(sockets[HANDED_OVER]))


def prepare(place: Place | None) -> None:
    """Import what :func:`served` needs, while root's rights may be there to read it. Raises WatchError."""
    if place is not None:
        from sumwire_protocol.watch import serving  # noqa: F401


@contextmanager
def served(shared: Shared, place: Place | None) -> Iterator[str]:
    """Serve them within the block, if there is a place; gives the address and port, or "". Raises WatchError."""
    if place is None:
        yield ""
        return
    from sumwire_protocol.watch.serving import Exposition

    def source() -> Iterator[Reading]:
        return readings(shared)

    with Exposition(place) as exposition:
        exposition.add(source)
        try:
            yield str(exposition.place)
        finally:
            exposition.remove(source)
