# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules on virtual queues."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from sumwire_protocol.constants import DROP_CLASSES

from sumwire_controller.derive.row_arguments import RATE_PER_MBIT
from sumwire_controller.errors import Problem
from sumwire_controller.model.config import VirtualQueue

_BYTES_MAX: Final = (1 << 32) - 1


def queue_rules(path: str, queue: VirtualQueue) -> Iterator[Problem]:
    """Rules on the rate and the thresholds. Those on the port are the caller's."""
    if not 1 / RATE_PER_MBIT <= queue.rate_mbit <= _BYTES_MAX // RATE_PER_MBIT:  # also refuses NaN
        rule = f"must be above 0: 1/{RATE_PER_MBIT}..{_BYTES_MAX // RATE_PER_MBIT} Mbit/s"
        yield Problem(path, "rate_mbit", queue.rate_mbit, rule)
    if not 0 < queue.drop_all_bytes <= _BYTES_MAX:
        yield Problem(path, "drop_all_bytes", queue.drop_all_bytes, f"must be 1..{_BYTES_MAX} bytes")
    if not 0 <= queue.mark_bytes <= queue.drop_all_bytes:
        rule = f"must be 0..{queue.drop_all_bytes}, the threshold above which everything is lost"
        yield Problem(path, "mark_bytes", queue.mark_bytes, rule)
    yield from _drop_rules(path, queue)


def _drop_rules(path: str, queue: VirtualQueue) -> Iterator[Problem]:
    thresholds = queue.drop_bytes
    if len(thresholds) != DROP_CLASSES:
        rule = f"must have {DROP_CLASSES} thresholds, for drop classes 3, 2, 1, 0, not {len(thresholds)}"
        yield Problem(path, "drop_bytes", list(thresholds), rule)
        return
    if thresholds[0] < 1:
        yield Problem(path, "drop_bytes[0]", thresholds[0], "must be above 0: class 3 is not lost at an empty queue")
    for i, (lower, higher) in enumerate(pairwise(thresholds), 1):
        if higher < lower:
            rule = f"must not be below {lower}: class {DROP_CLASSES - i} is lost before class {DROP_CLASSES - i - 1}"
            yield Problem(path, f"drop_bytes[{i}]", higher, rule)
    if thresholds[-1] > queue.drop_all_bytes:
        rule = f"must not be above drop_all_bytes, {queue.drop_all_bytes}"
        yield Problem(path, f"drop_bytes[{DROP_CLASSES - 1}]", thresholds[-1], rule)
