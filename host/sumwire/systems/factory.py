# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a system by its name, after checking everything that can be checked before a worker communicates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sumwire.errors import UsageError
from sumwire.job.job import Job
from sumwire.job.operations import require
from sumwire.job.rules import NonFinite, result_check
from sumwire.systems.spec import AUTO, GROUP, SWITCH, TRANSPORTS, SystemOptions, SystemSpec
from sumwire.systems.system import System
from sumwire.systems.table import TABLE
from sumwire.training.hierarchical import NodeJob
from sumwire.training.reductions import members

if TYPE_CHECKING:
    import torch.distributed as dist

    from sumwire.dlcp.lanes import Lanes


def make(
    name: str,
    job: Job | Lanes | None = None,
    *,
    transport: str = AUTO,
    group: dist.ProcessGroup | None = None,
    nonfinite: NonFinite = "propagate",
    **options: Any,
) -> System:
    """Return the system of that name. All workers make the same systems in the same order.

    ``transport`` is "switch" (through the job's switch or software aggregator), "group" (by torch.distributed, over
    ``group`` or else all ranks) or "auto": the switch if there is a job and the system runs there, else the group.
    ``dlcp`` takes a job's :class:`sumwire.dlcp.Lanes` as ``job``. ``options`` are the system's: docs/systems.md.
    ``nonfinite``: where some worker's gradients have NaN or infinity, all workers get NaN ("propagate"), or the same
    NonFiniteError from the backward pass or the optimizer's step ("raise"). A job that raises does so in either case.
    Over a group this is a collective call: most systems make a group of their own, so that they do not mix with DDP's
    collectives.

    Raises UsageError for an unknown name, transport or option, a value that an option does not take, a missing job or
    process group, and a job with several ranks to a worker; ConfigError for a job without the system's ops.
    """
    chosen = _resolve(name, transport, has_job=job is not None)
    # Before anything is made that other workers take part in.
    result_check(nonfinite)
    system = _made(name, chosen, job, group, options)
    if nonfinite == "raise":
        system.refuse_nonfinite()
    return system


def _made(
    name: str,
    chosen: str,
    job: Job | Lanes | NodeJob | None,
    group: dist.ProcessGroup | None,
    options: Mapping[str, Any],
) -> System:
    given = _checked_options(name, chosen, options)
    route = TABLE[name].routes[chosen]
    if chosen == GROUP:
        members(group)
        return route.make(name, group, given)
    if group is not None:
        raise UsageError(f"system {name}: over a switch it takes no group: leave group out")
    if isinstance(job, NodeJob):
        raise UsageError(
            f"system {name}: job {job.name} has several ranks to a worker, and a system needs a worker a rank: use "
            "sumwire.DdpState(job), sumwire.optim.Outer or sumwire.all_reduce, or a job of as many workers as ranks"
        )
    assert job is not None
    require(job.config, route.ops, f"for system {name}")
    if route.laned == isinstance(job, Job):
        needs = "sumwire.dlcp.Lanes" if route.laned else "a sumwire.Job"
        raise UsageError(f"system {name}: {type(job).__name__} given: needs {needs}")
    return route.make(name, job, given)


def _known(name: str) -> SystemSpec:
    if name not in TABLE:
        raise UsageError(f"system {name!r}: known are {', '.join(TABLE)}")
    return TABLE[name]


def _resolve(name: str, transport: str, *, has_job: bool) -> str:
    """Return "switch" or "group" for what `make` was given. Raises UsageError if the system does not run over it."""
    spec = _known(name)
    if transport not in (AUTO, *TRANSPORTS):
        raise UsageError(f"transport {transport!r}: known are {', '.join((AUTO, *TRANSPORTS))}")
    chosen = transport
    if transport == AUTO:
        chosen = SWITCH if SWITCH in spec.routes and (has_job or GROUP not in spec.routes) else GROUP
    if chosen not in spec.routes:
        others = ", ".join(other for other, row in TABLE.items() if chosen in row.routes)
        only = " and ".join(spec.transports)
        raise UsageError(
            f"system {name}: transport {chosen!r}: it runs over {only}; choose that, or a system that runs over "
            f"{chosen}: {others}"
        )
    if chosen == SWITCH and not has_job:
        raise UsageError(f"system {name}: needs a job, with ops {', '.join(spec.ops)}")
    return chosen


def _checked_options(name: str, transport: str, given: Mapping[str, Any]) -> SystemOptions:
    """Return all options of the system. Raises UsageError for one that it does not have, or that is missing."""
    kind: type[SystemOptions] = TABLE[name].routes[transport].options
    for option in given:
        if option not in kind.names():
            rule = f"over {transport} its options are {', '.join(kind.names()) or 'none'}"
            raise UsageError(f"system {name}: option {option!r}: {rule}")
    for option in kind.required():
        if option not in given:
            raise UsageError(f"system {name}: needs option {option} ({kind.meanings()[option]}); give it")
    return kind(**given)
