# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Words for the cells of the P4 program's counters, as labels of metrics."""

from __future__ import annotations

from typing import Final, NamedTuple

from sumwire_protocol import constants as p4

# Names of counters and of the worker table in the program.
VERDICTS: Final = "ingress.accounting.verdicts"
REJECTS: Final = "ingress.guard.rejects"
QUEUES: Final = "egress.virtual_queue.queue_decisions"
WORKERS: Final = "ingress.admission.worker"


def _names(prefix: str) -> dict[int, str]:
    return {value: name.removeprefix(prefix).lower() for name, value in vars(p4).items() if name.startswith(prefix)}


VERDICT_NAMES: Final = _names("VERDICT_")
REJECT_NAMES: Final = _names("REJECT_")
DECISION_NAMES: Final = {p4.QUEUE_PASS: "pass", p4.QUEUE_MARK: "mark", p4.QUEUE_DROP: "drop", p4.QUEUE_TRIM: "trim"}
_CELLS_OF_QUEUE: Final = p4.DROP_CLASSES * len(DECISION_NAMES)
# Of the counter of virtual queues: those of tagged packets behind those of the others.
QUEUE_CELLS_OF_PORT: Final = 2 * _CELLS_OF_QUEUE


class QueueLabels(NamedTuple):
    """What a cell of a port's virtual queues counts: packets that are tagged or not, of a drop class, by decision."""

    tagged: bool
    drop_class: int
    decision: str

    def words(self) -> tuple[str, str, str]:
        """As labels of a metric."""
        return ("yes" if self.tagged else "no", str(self.drop_class), self.decision)


def queue_labels(cell: int) -> QueueLabels:
    """Of a cell, by its number among those of its port."""
    tagged, rest = divmod(cell, _CELLS_OF_QUEUE)
    drop_class, decision = divmod(rest, len(DECISION_NAMES))
    return QueueLabels(bool(tagged), drop_class, DECISION_NAMES[decision])
