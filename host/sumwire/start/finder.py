# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The job of the backend "sumwire", from a service: what `sumwire.backend.find_by` gets at `import sumwire`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch.distributed as dist

from sumwire.config import JobConfig
from sumwire.errors import SumwireError
from sumwire.job.gloo_group import default_timeout
from sumwire.start.errors import NotReadyError, PlaceError
from sumwire.start.fetch import beside, first_of
from sumwire.start.place import SERVICE, job_for
from sumwire.start.rendezvous import Rendezvous

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store
else:
    from torch.distributed import Store


def find(rank: int, size: int, store: Store) -> JobConfig | None:
    """The job of the service at SUMWIRE_SERVICE of any rank's environment, or else on rank 0's machine, as this rank's
    worker sees it.

    A collective call of the default group's ranks, which must be a worker each. None for another group, and where there
    is no such service. Raises the errors of :func:`sumwire.start.job_for`.
    """
    if size != dist.get_world_size():
        return None
    timeout = default_timeout()
    known = os.environ.get(SERVICE) or (_beside() if rank == 0 else None)
    if not any(Rendezvous(store, rank, size, timeout).gather(known)):
        return None
    config = job_for(store, rank, size, each_rank=True, timeout=timeout).config
    if config.worker != rank:
        raise PlaceError(
            f"rank {rank} is on the machine of worker {config.worker} of job {config.name}: name the hosts of "
            "`sumwire up` in the order of the ranks"
        )
    return config


def _beside() -> str | None:
    """MASTER_ADDR, if a service answers on that machine, be it that its aggregator is not ready."""
    master = os.environ.get("MASTER_ADDR")
    try:
        return master if master and first_of(beside(master), 0.0, lambda _: None) else None
    except NotReadyError:
        return master
    except SumwireError:
        return None
