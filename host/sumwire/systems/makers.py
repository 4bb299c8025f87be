# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How each system of the table is put together, over a job and over a process group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from sumwire.codec.base import GradientCodec
from sumwire.codec.errors import TableError
from sumwire.codec.sign import EfSignCodec, SsdmCodec, VoteCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tables import ThcTable, solve, uniform
from sumwire.errors import ConfigError, UsageError
from sumwire.job.job import Job, Residual
from sumwire.systems.kinds import (
    AcpSystem,
    GradientSystem,
    HookSystem,
    LaneSystem,
    MarsitSystem,
    System,
    Timed,
    TimedCollective,
)
from sumwire.systems.table import GROUP, SWITCH
from sumwire.training.ddp import Reduce
from sumwire.training.reductions import Peers, members, thc_through_group, through_group, through_job

if TYPE_CHECKING:
    import torch.distributed as dist

    from sumwire.dlcp.lanes import Lanes

Options = dict[str, Any]
OverJob = Callable[[str, Any, Options], System]
OverGroup = Callable[[str, "dist.ProcessGroup | None", Options], System]


def over_job(name: str, job: Job | Lanes, options: Options) -> System:
    """A system over a switch or a software aggregator, with options that were checked.

    Raises UsageError for lanes where it needs a job, or the other way round.
    """
    laned, has_lanes = name in LANED, not isinstance(job, Job)
    if laned != has_lanes:
        needs = "sumwire.dlcp.Lanes" if laned else "a sumwire.Job"
        raise UsageError(f"system {name}: {type(job).__name__} given: needs {needs}")
    return _OVER_JOB[name](name, job, options)


def over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    """A system over a process group. Raises UsageError if there is none, or this process is not in it."""
    members(group)
    return _OVER_GROUP[name](name, group, options)


def _gradients_over_job(
    name: str, job: Job, codec: GradientCodec | None, *, scale: float = 1.0, error_feedback: bool = False
) -> System:
    reduce = _scaled(through_job(job, codec), scale)
    return GradientSystem(name, SWITCH, job, reduce, job.stats.as_dict, error_feedback=error_feedback)


def _gradients_over_peers(
    name: str, peers: Peers, reduce: Reduce, *, scale: float = 1.0, error_feedback: bool = False
) -> System:
    timed = Timed(lambda: peers.sent_bytes)
    reduction = timed.reduction(_scaled(reduce, scale))
    return GradientSystem(name, GROUP, None, reduction, timed.stats, error_feedback=error_feedback)


def _scaled(reduce: Reduce, scale: float) -> Reduce:
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < float("inf"):
        raise UsageError(f"scale = {scale!r}: must be above 0")
    if scale == 1.0:
        return reduce

    def scaled(x: Tensor, number: int) -> tuple[Tensor, Residual]:
        result, residual = reduce(x, number)
        return result * scale, residual

    return scaled


def _thc(name: str, job: Job, options: Options) -> System:
    return _gradients_over_job(name, job, None, error_feedback=options.get("error_feedback", True))


def _thc_uniform(name: str, job: Job, options: Options) -> System:
    table = job.config.thc.table if job.config.thc else ()
    if table != tuple(range(len(table))):
        rule = f"must be 0, 1 ... for system {name}: that of the job is what the switch adds by"
        raise ConfigError("table", table, rule, where=f"job {job.config.name}")
    return _thc(name, job, options)


def _dlcp(name: str, lanes: Lanes, options: Options) -> System:
    return LaneSystem(name, SWITCH, lanes, error_feedback=options.get("error_feedback", True))


def _sum32(name: str, job: Job, options: Options) -> System:
    return _gradients_over_job(name, job, Sum32Codec(workers=job.workers))


def _vote(name: str, job: Job, options: Options) -> System:
    return _gradients_over_job(name, job, VoteCodec(), **options)


def _ssdm(name: str, job: Job, options: Options) -> System:
    return _gradients_over_job(name, job, SsdmCodec(job=job.config.job, worker=job.config.worker), **options)


def _ef_sign(name: str, job: Job, options: Options) -> System:
    codec = EfSignCodec(worker=job.config.worker, workers=job.workers)
    return _gradients_over_job(name, job, codec, error_feedback=True)


def _acp(name: str, job: Job, options: Options) -> System:
    reduce = through_job(job, Sum32Codec(workers=job.workers))
    return AcpSystem(name, SWITCH, job, reduce, job.stats.as_dict, options=options)


def _acp_thc(name: str, job: Job, options: Options) -> System:
    return AcpSystem(name, SWITCH, job, through_job(job), job.stats.as_dict, options=options)


def _marsit(name: str, job: Job, options: Options) -> System:
    return MarsitSystem(name, SWITCH, job, job, job.stats.as_dict, options=options)


def _ssgd_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.systems.baselines import hooks

    return HookSystem(name, GROUP, hooks.all_reduce(group))


def _fp16_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.systems.baselines import hooks

    return HookSystem(name, GROUP, hooks.half_precision(group))


def _powersgd_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.systems.baselines import hooks

    rank = options.get("rank", 4)
    hook = hooks.power_sgd(
        Peers(group).group,
        rank=rank,
        start_iter=options.get("start_iter", 3),
        min_compression=options.get("min_compression", 2.0),
    )
    return HookSystem(name, GROUP, hook, rank)


def _topk_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.systems.baselines.topk import TopK, check_share

    k = check_share(options.get("k", 0.01))
    peers = Peers(group)
    return _gradients_over_peers(name, peers, TopK(peers, k).reduce, error_feedback=options.get("error_feedback", True))


def _vote_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.systems.baselines.sign import majority_vote

    peers = Peers(group)
    return _gradients_over_peers(name, peers, partial(majority_vote, peers), **options)


def _ef_sign_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.systems.baselines.sign import ef_sign

    peers = Peers(group)
    return _gradients_over_peers(name, peers, partial(ef_sign, peers), error_feedback=True)


def _thc_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    table, error_feedback = _take_table(name, options), options.pop("error_feedback", True)
    peers = Peers(group)
    reduce = thc_through_group(peers, table, **options)
    return _gradients_over_peers(name, peers, reduce, error_feedback=error_feedback)


def _acp_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    peers = Peers(group)
    timed = Timed(lambda: peers.sent_bytes)
    return AcpSystem(name, GROUP, None, timed.reduction(through_group(peers)), timed.stats, options=options)


def _acp_thc_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    table = _take_table(name, options)
    peers = Peers(group)
    timed = Timed(lambda: peers.sent_bytes)
    reduce = timed.reduction(thc_through_group(peers, table, seed=options.get("seed", 1)))
    return AcpSystem(name, GROUP, None, reduce, timed.stats, options=options)


def _take_table(name: str, options: Options) -> ThcTable:
    """Out of the options. Raises UsageError for values that make no table."""
    bits, p = options.pop("bits", 4), options.pop("p", 1 / 32)
    granularity = options.pop("granularity", 30)
    try:
        return uniform(bits, p) if name == "thc-uniform" else solve(bits, granularity, p)
    except TableError as error:
        raise UsageError(f"system {name}: {error}") from error


def _ring_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.multihop import RingSigns

    ring = RingSigns(group, options.pop("seed", 1))
    timed = TimedCollective(ring, lambda: ring.traffic.payload_bytes)
    return MarsitSystem(name, GROUP, None, timed, timed.stats, options=options)


def _torus_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.multihop import TorusSigns

    torus = TorusSigns(options.pop("rows"), group, options.pop("seed", 1))
    timed = TimedCollective(torus, lambda: torus.traffic.payload_bytes)
    return MarsitSystem(name, GROUP, None, timed, timed.stats, options=options)


def _cascade_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.multihop import CascadeRing

    ring = CascadeRing(Peers(group).group, options.get("seed", 1), stochastic=options.get("stochastic", False))

    def reduce(x: Tensor, bucket: int) -> tuple[Tensor, Residual]:
        mean = ring.compressed_mean(x)
        return mean, lambda: torch.zeros_like(mean)

    timed = Timed(lambda: ring.traffic.payload_bytes)
    return GradientSystem(name, GROUP, None, timed.reduction(reduce), timed.stats, error_feedback=False)


_OVER_JOB: Final[Mapping[str, OverJob]] = {
    "sum32": _sum32,
    "thc": _thc,
    "thc-uniform": _thc_uniform,
    "vote": _vote,
    "ef-sign": _ef_sign,
    "ssdm": _ssdm,
    "acp": _acp,
    "acp-thc": _acp_thc,
    "marsit": _marsit,
    "dlcp": _dlcp,
}
# Systems that take a job's lanes instead of a job.
LANED: Final = frozenset({"dlcp"})
_OVER_GROUP: Final[Mapping[str, OverGroup]] = {
    "ssgd": _ssgd_over_group,
    "fp16": _fp16_over_group,
    "thc": _thc_over_group,
    "thc-uniform": _thc_over_group,
    "topk": _topk_over_group,
    "vote": _vote_over_group,
    "ef-sign": _ef_sign_over_group,
    "powersgd": _powersgd_over_group,
    "acp": _acp_over_group,
    "acp-thc": _acp_thc_over_group,
    "marsit-ring": _ring_over_group,
    "marsit-torus": _torus_over_group,
    "cascade": _cascade_over_group,
}
