# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which ranks a model is sharded over, as the job sees them."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist

from sumwire.errors import UsageError
from sumwire.job.job import Job
from sumwire.training.node import AnyJob


def over_nodes(ranks: Sequence[int], job: AnyJob) -> bool:
    """Whether shards are those of one node, so that the nodes are replicas. False: the model is sharded over all ranks.

    Raises UsageError for other ranks, and a job that is not of all ranks.
    """
    world = dist.get_world_size()
    summands = job.workers if isinstance(job, Job) else job.ranks
    if summands != world:
        raise UsageError(f"a job of {summands} ranks, and {world} in all: sharded models need a job of all ranks")
    if list(ranks) == list(range(world)):
        return False
    node = [dist.get_rank()] if isinstance(job, Job) else job.node.ranks
    if list(ranks) == node:
        return True
    raise UsageError(
        f"sharded over ranks {list(ranks)}: must be all ranks, or those of this node, which are {node} in this job: "
        'give fully_shard a mesh of these; else init_process_group("sumwire")'
    )
