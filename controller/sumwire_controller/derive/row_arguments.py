# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of table rows in the program's units: rates of queues and jobs, shares of degraded packets. Pure."""

from __future__ import annotations

from typing import Final

from sumwire_controller.model.config import DEGRADE_MODES, Degrade, Job, VirtualQueue

SEED_BITS: Final = 32
RATE_PER_MBIT: Final = 128
"""1 Mbit/s in the program's unit, bytes per 1024 us: 10^6 / 8 * 1024e-6."""
_SHARE_SCALE: Final = 1 << 16
"""The program compares 16 bits of a hash with the share times this."""


def queue_args(queue: VirtualQueue) -> tuple[int, ...]:
    """rate, mark, drop3, drop2, drop1, drop0, drop_all and trims of a `virtual_queue` row."""
    rate = round(queue.rate_mbit * RATE_PER_MBIT)
    return (rate, queue.mark_bytes, *queue.drop_bytes, queue.drop_all_bytes, int(queue.trim))


def budget_args(job: Job) -> tuple[int, int]:
    """budget and budget_cell of a job's `worker` rows."""
    if job.limit_mbit is None:
        return 0, 0
    return max(1, round(job.limit_mbit * RATE_PER_MBIT)), job.slots.base


def degrade_args(degrade: Degrade, lane: int) -> tuple[int, int, int]:
    """seed, share and mode of a `degrade` row. Each lane has its own seed, so that not all lose the same slots."""
    seed = degrade.seed + lane & (1 << SEED_BITS) - 1
    return seed, round(degrade.share * _SHARE_SCALE), DEGRADE_MODES[degrade.mode]
