# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every way to train together that this library has, by name and behind one interface.

    system = sumwire.systems.make("marsit", job, global_lr=1e-3, full_precision_every=100)
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    ...                                                  # zero_grad, backward, optimizer.step() as ever
    print(system.stats)
    system.close()

``TABLE`` lists the systems, what they run over and their options; docs/systems.md shows it.

`attach` takes a plain model or a DistributedDataParallel one. Systems that act in DDP's hook aggregate gradients there,
or for a plain model in the optimizer's step. Those that act in the optimizer work on updates, or on gradients as they
come; with a DDP model, a hook keeps DDP from averaging the gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sumwire.errors import UsageError
from sumwire.job.job import Job
from sumwire.job.operations import require
from sumwire.systems.kinds import System as System
from sumwire.systems.makers import over_group, over_job
from sumwire.systems.table import AUTO, SWITCH, check_options, resolve
from sumwire.systems.table import TABLE as TABLE

if TYPE_CHECKING:
    import torch.distributed as dist

    from sumwire.dlcp.lanes import Lanes


def make(
    name: str,
    job: Job | Lanes | None = None,
    *,
    transport: str = AUTO,
    group: dist.ProcessGroup | None = None,
    **options: Any,
) -> System:
    """The system of that name.

    ``transport``: "switch", through the job's switch or software aggregator; "group", by torch.distributed, of
    ``group`` or else all ranks; "auto", the switch where there is a job and the system runs there, else the group.
    ``dlcp`` takes a job's :class:`sumwire.dlcp.Lanes` as ``job``.
    Over a group this is a collective call: most systems make a group of their own, so that DDP's collectives may go
    on meanwhile.

    Raises UsageError for an unknown name, transport or option, a value that an option does not take, a missing job or
    process group; ConfigError for a job without the system's ops.
    """
    chosen = resolve(name, transport, has_job=job is not None)
    check_options(name, chosen, options)
    if chosen != SWITCH:
        return over_group(name, group, dict(options))
    if group is not None:
        raise UsageError(f"system {name}: over a switch it takes no group")
    assert job is not None
    require(job.config, TABLE[name].ops, f"for system {name}")
    return over_job(name, job, dict(options))
