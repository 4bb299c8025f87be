# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The systems of THC (`thc`, `thc-unbiased`, `thc-uniform`, `thc-wide`) and their baseline `naive4`; and DLCP, in lanes
of a job (`dlcp`) or around a ring of workers without a switch (`dlcp-ring`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from sumwire_protocol.ops import SUM32, THC
from sumwire_protocol.tables import AUTO, DEFAULT_BITS, DEFAULT_P, UNIFORM

from sumwire.codec.errors import TableError
from sumwire.codec.tables import ThcTable, for_workers, solve
from sumwire.errors import ConfigError, UsageError
from sumwire.systems.cost import ByAllReduce, InFields, InPackets
from sumwire.systems.gradients import codec_route
from sumwire.systems.spec import GROUP, SWITCH, Member, Route, Seeded, SystemOptions, SystemSpec, WithFeedback, option

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch import Tensor

    from sumwire.codec.base import GradientCodec
    from sumwire.dlcp.lanes import Lanes
    from sumwire.job.job import Job, Residual
    from sumwire.systems.system import System

PAPER: Final = "THC, NSDI 2024, arXiv 2302.08545"
LIMITS: Final = "granularity n <= 255; float32 and half precision"
OPS: Final = ("thc", "max32")
# A table value of at most 255 workers' sum is a byte in an all-reduce.
BYTE_BITS: Final = 8
# Operations go one after the other, so none overtakes another: all have the highest priority, above untagged traffic.
_PRIORITIES: Final = (7,)
# In the middle of the model: a hook's buckets have no place in it.
_POSITION: Final = 0.5
_VALUE_BITS: Final = 32
# Shares of classes: all packets protected. A packet of zeros has class 3 nevertheless, and is sent again if it is lost.
_PROTECTED: Final = (1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class LaneOptions(WithFeedback):
    """Options of `dlcp`."""

    early_forward: bool = option("make the step piece by piece, as the next forward pass needs it", False)


@dataclass(frozen=True, kw_only=True)
class TableOptions(SystemOptions):
    """Options of a THC table with evenly spaced values. Over a job, the job's description has them."""

    bits: int = option("of an index, 1 to 4", DEFAULT_BITS)
    p: float = option("fraction of values that is clipped", DEFAULT_P)


@dataclass(frozen=True, kw_only=True)
class SolvedTableOptions(TableOptions):
    """Options of the THC table with the least error."""

    granularity: int | None = option("largest table value; times n at most 255; None for the best one", None)


@dataclass(frozen=True, kw_only=True)
class ThcGroupOptions(Seeded, SolvedTableOptions, WithFeedback):
    """Options of `thc` over a group."""


@dataclass(frozen=True, kw_only=True)
class UniformGroupOptions(Seeded, TableOptions, WithFeedback):
    """Options of `thc-uniform` over a group."""


@dataclass(frozen=True, kw_only=True)
class DlcpRingOptions(WithFeedback):
    """Options of :class:`sumwire.multihop.GroupRing`."""

    loss_bound: float = option(
        "share of a tensor's contributions that may be missing, from 0 to below 1; alike on all workers", 0.01
    )
    address: str | None = option("of this worker, IPv4; None for that on the way to MASTER_ADDR", None)


def codec(member: Member) -> GradientCodec:
    """Make the THC codec of a job's worker. Raises UsageError for a member without a table."""
    from sumwire.codec.thc import ThcCodec

    return ThcCodec(_table(member), job=member.job, worker=member.worker)


def unbiased_codec(member: Member) -> GradientCodec:
    """Make the codec of `thc-unbiased`. Raises UsageError for a member without a table."""
    from sumwire.codec.thc import UnbiasedThcCodec

    return UnbiasedThcCodec(_table(member), job=member.job, worker=member.worker)


def naive_codec(member: Member) -> GradientCodec:
    """Make the codec of `naive4`. Raises UsageError for a member without a table."""
    from sumwire.codec.naive import NaiveCodec

    return NaiveCodec(_table(member))


def _table(member: Member) -> ThcTable:
    if member.table is None:
        raise UsageError(f"THC of job {member.job}: needs the job's table")
    return member.table


def table_of(name: str, group: dist.ProcessGroup | None, options: TableOptions) -> ThcTable:
    """Make the table of system ``name`` for these options: evenly spaced values, or the table of least error at the
    given granularity, or at the best one that fits the group.

    Raises UsageError for values that make no table.
    """
    from sumwire.training.reductions import members

    workers = len(members(group))
    try:
        if not isinstance(options, SolvedTableOptions):
            return for_workers(workers, options.bits, options.p, UNIFORM)
        if options.granularity is None:
            return for_workers(workers, options.bits, options.p, AUTO)
        return solve(options.bits, options.granularity, options.p)
    except TableError as error:
        raise UsageError(f"system {name}: {error}") from error


def wide_codec(member: Member) -> GradientCodec:
    """Make the codec of `thc-wide`."""
    from sumwire.codec import thc_wide

    return thc_wide.wide_codec(workers=member.workers, job=member.job, worker=member.worker)


def _over_job(name: str, job: Job, options: WithFeedback) -> System:
    from sumwire.systems.builders import gradients_over_job

    return gradients_over_job(name, job, error_feedback=options.error_feedback)


def _uniform_over_job(name: str, job: Job, options: WithFeedback) -> System:
    _check_uniform(name, job)
    return _over_job(name, job, options)


def _naive_over_job(name: str, job: Job, options: WithFeedback) -> System:
    from sumwire.systems.builders import gradients_over_job

    _check_uniform(name, job)
    made = naive_codec(Member.of(job.config))
    return gradients_over_job(name, job, made, error_feedback=options.error_feedback)


def _check_uniform(name: str, job: Job) -> None:
    table = job.config.thc.table if job.config.thc else ()
    if table != tuple(min(z, table[-1]) for z in range(len(table))):
        rule = f"must be 0, 1 ... for system {name}, as by `table: uniform`: that of the job is what the switch adds by"
        raise ConfigError("table", table, rule, where=f"job {job.config.name}")


def _over_group(name: str, group: dist.ProcessGroup | None, options: ThcGroupOptions | UniformGroupOptions) -> System:
    from sumwire.systems.builders import gradients_over_group
    from sumwire.training.reductions import Peers, thc_through_group

    table, peers = table_of(name, group, options), Peers(group)
    reduce = thc_through_group(peers, table, seed=options.seed)
    return gradients_over_group(name, reduce, peers, error_feedback=options.error_feedback)


def _in_lanes(name: str, lanes: Lanes, options: LaneOptions) -> System:
    from sumwire.systems.system import LaneSystem

    return LaneSystem(name, SWITCH, lanes, **asdict(options))


def _in_ring(name: str, group: dist.ProcessGroup | None, options: DlcpRingOptions) -> System:
    import torch

    from sumwire.dlcp.tags import LayerMagnitude, tagger
    from sumwire.multihop import GroupRing
    from sumwire.systems.builders import gradients_over_group

    # Without a bound nothing may be lost, so all packets are protected.
    policy = LayerMagnitude(_PRIORITIES) if options.loss_bound else LayerMagnitude(_PRIORITIES, _PROTECTED, _PROTECTED)
    tag = tagger(policy, _POSITION)
    ring = GroupRing(group, loss_bound=options.loss_bound, address=options.address, tag=tag)

    def reduce(x: Tensor, bucket: int) -> tuple[Tensor, Residual]:
        mean, kept = ring.mean(x)
        # A packet with NaN may be missing from a mean that is finite. Sent again and again, it would stay for ever.
        return mean, lambda: torch.nan_to_num(kept, nan=0.0, posinf=0.0, neginf=0.0)

    system = gradients_over_group(name, reduce, lambda: ring.stats.payload_bytes, error_feedback=options.error_feedback)
    system.on_close(ring.close)
    return system


_COST: Final = InPackets(op=THC)
# Of a float32 that 256 values share.
_SCALE_BITS: Final = _VALUE_BITS / 256
_DLCP_PAPER: Final = "DLCP, arXiv 2008.08445; MLT, NSDI 2024"

SYSTEMS: Final[Mapping[str, SystemSpec]] = {
    "thc": SystemSpec(
        what="gradients as table indices; sums of table values come back",
        paper=PAPER,
        routes={
            SWITCH: Route(make=_over_job, options=WithFeedback, cost=_COST, ops=OPS, codec=codec),
            GROUP: Route(make=_over_group, options=ThcGroupOptions, cost=ByAllReduce(bits=BYTE_BITS)),
        },
        keeps="residual",
        limits=LIMITS,
        table="solved",
        approximates_mean=True,
    ),
    "thc-unbiased": SystemSpec(
        what="as `thc`, with a range that clips nothing: means are right on average, with twice the squared error",
        paper=PAPER,
        routes={SWITCH: codec_route(unbiased_codec, _COST, WithFeedback)},
        keeps="residual",
        limits=LIMITS,
        table="solved",
        approximates_mean=True,
    ),
    "thc-uniform": SystemSpec(
        what="as `thc`, with evenly spaced levels: granularity 2^bits - 1, or less",
        paper=PAPER,
        routes={
            SWITCH: Route(make=_uniform_over_job, options=WithFeedback, cost=_COST, ops=OPS, codec=codec),
            GROUP: Route(make=_over_group, options=UniformGroupOptions, cost=ByAllReduce(bits=BYTE_BITS)),
        },
        keeps="residual",
        limits=f"{LIMITS}; over a switch, the job's table must be the uniform one",
        table="uniform",
        approximates_mean=True,
    ),
    "thc-wide": SystemSpec(
        what="as `thc`, with grid points in fields of 10 bits; of 15 bits above 68 workers, 16 bits a value each way",
        paper=PAPER,
        routes={SWITCH: codec_route(wide_codec, InFields(op=SUM32, fields=3), WithFeedback)},
        keeps="residual",
        limits="at most 255 workers; float32 and half precision",
        approximates_mean=True,
    ),
    "naive4": SystemSpec(
        what="as `thc-uniform`, with a scale for 256 values, rounded to the nearest; no rotation, no clipping",
        paper="no paper: what THC should beat",
        routes={
            SWITCH: Route(
                make=_naive_over_job,
                options=WithFeedback,
                cost=replace(_COST, agreement_bits=_SCALE_BITS),
                ops=OPS,
                codec=naive_codec,
            )
        },
        keeps="residual",
        limits=f"{LIMITS}; the job's table must be the uniform one",
        table="uniform",
        approximates_mean=True,
    ),
    "dlcp": SystemSpec(
        what="as `thc`, in lanes of a job (`sumwire.dlcp.Lanes`) whose packets have priorities and drop classes",
        paper=_DLCP_PAPER,
        routes={SWITCH: Route(make=_in_lanes, options=LaneOptions, cost=_COST, ops=OPS, codec=codec, laned=True)},
        keeps="residual",
        limits=f"{LIMITS}; contributions up to the loss bound may be missing",
        table="solved",
        approximates_mean=True,
    ),
    "dlcp-ring": SystemSpec(
        what="gradients, as they are, around a ring of UDP; packets have drop classes, and a bounded share may be "
        "missing",
        paper=_DLCP_PAPER,
        routes={GROUP: Route(make=_in_ring, options=DlcpRingOptions, cost=ByAllReduce(bits=_VALUE_BITS))},
        keeps="residual",
        limits="float32 and half precision; works on the processor; contributions up to the loss bound may be missing",
        approximates_mean=True,
    ),
}
