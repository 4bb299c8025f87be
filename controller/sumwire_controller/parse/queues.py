# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Virtual queues: reading, rules, and the arguments of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from sumwire_protocol.constants import DROP_CLASSES

from sumwire_controller.errors import Problem
from sumwire_controller.model.config import VirtualQueue
from sumwire_controller.parse.reader import Log, MappingReader
from sumwire_controller.parse.yamltree import Node

QUEUE_KEYS: Final = ("port", "rate_mbit", "mark_bytes", "drop_bytes", "drop_all_bytes", "trim")
_BYTES_MAX: Final = (1 << 32) - 1
_BYTES_OF_MBIT: Final = 128
"""1 Mbit/s in the program's unit, bytes per 1024 us: 10^6 / 8 * 1024e-6."""


def read_queue(node: Node, path: str, log: Log) -> VirtualQueue | None:
    read = MappingReader(node, path, log)
    queue = queue_of(read)
    read.finish(QUEUE_KEYS)
    return queue


def queue_of(read: MappingReader) -> VirtualQueue | None:
    """The queue's own keys out of a mapping that may have more."""
    port, rate, mark = read.integer("port"), read.number("rate_mbit"), read.integer("mark_bytes")
    drop, drop_all = read.integers("drop_bytes"), read.integer("drop_all_bytes")
    trim = read.boolean("trim") if read.has("trim") else False
    if port is None or rate is None or mark is None or drop is None or drop_all is None or trim is None:
        return None
    return VirtualQueue(port, rate, mark, drop, drop_all, trim)


def queue_rules(path: str, queue: VirtualQueue) -> Iterator[Problem]:
    """The rules on rate and thresholds; the port is the caller's."""
    if not 1 / _BYTES_OF_MBIT <= queue.rate_mbit <= _BYTES_MAX // _BYTES_OF_MBIT:  # false for NaN as well
        rule = f"must be above 0: 1/{_BYTES_OF_MBIT}..{_BYTES_MAX // _BYTES_OF_MBIT} Mbit/s"
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


def queue_args(queue: VirtualQueue) -> tuple[int, ...]:
    """rate, mark, drop3, drop2, drop1, drop0, drop_all and trims of the program's row."""
    rate = round(queue.rate_mbit * _BYTES_OF_MBIT)
    return (rate, queue.mark_bytes, *queue.drop_bytes, queue.drop_all_bytes, int(queue.trim))
