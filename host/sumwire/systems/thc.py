# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC's systems: `thc`, `thc-uniform`, and `dlcp`, which sends THC in lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sumwire_protocol.ops import SUM32, THC
from sumwire_protocol.tables import AUTO, DEFAULT_BITS, DEFAULT_P, UNIFORM

from sumwire.codec.errors import TableError
from sumwire.codec.tables import ThcTable, for_workers, solve
from sumwire.errors import ConfigError, UsageError
from sumwire.systems.cost import ByAllReduce, InFields, InPackets
from sumwire.systems.spec import GROUP, SWITCH, Member, Options, Route, SystemSpec

if TYPE_CHECKING:
    import torch.distributed as dist

    from sumwire.codec.base import GradientCodec
    from sumwire.dlcp.lanes import Lanes
    from sumwire.job.job import Job
    from sumwire.systems.system import System

PAPER: Final = "THC, NSDI 2024, arXiv 2302.08545"
LIMITS: Final = "granularity n <= 255; float32 and half precision"
OPS: Final = ("thc", "max32")
# A table value of at most 255 workers' sum is a byte in an all-reduce.
BYTE_BITS: Final = 8


@dataclass(frozen=True, kw_only=True)
class ThcOptions(Options):
    """Over a job, whose description has the table."""

    error_feedback: bool = True


@dataclass(frozen=True, kw_only=True)
class LaneOptions(ThcOptions):
    """In lanes."""

    early_forward: bool = False


@dataclass(frozen=True, kw_only=True)
class ThcGroupOptions(Options):
    """Over a group."""

    error_feedback: bool = True
    bits: int = DEFAULT_BITS
    granularity: int | None = None
    p: float = DEFAULT_P
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class UniformGroupOptions(Options):
    """Over a group, with evenly spaced table values."""

    error_feedback: bool = True
    bits: int = DEFAULT_BITS
    p: float = DEFAULT_P
    seed: int = 1


def codec(member: Member) -> GradientCodec:
    """The codec of a job's worker. Raises UsageError for a member without a table."""
    from sumwire.codec.thc import ThcCodec

    if member.table is None:
        raise UsageError(f"THC of job {member.job}: needs the job's table")
    return ThcCodec(member.table, job=member.job, worker=member.worker)


def table_of(
    name: str,
    group: dist.ProcessGroup | None,
    bits: int,
    p: float,
    *,
    granularity: int | None = None,
    kind: str = AUTO,
) -> ThcTable:
    """The table for these options of system ``name``: the best one of this granularity, or of any that fits the group.

    Raises UsageError for values that make no table.
    """
    from sumwire.training.reductions import members

    workers = len(members(group))
    try:
        return for_workers(workers, bits, p, kind) if granularity is None else solve(bits, granularity, p)
    except TableError as error:
        raise UsageError(f"system {name}: {error}") from error


def _over_job(name: str, job: Job, options: ThcOptions) -> System:
    from sumwire.systems.builders import gradients_over_job

    return gradients_over_job(name, job, error_feedback=options.error_feedback)


def wide_codec(member: Member) -> GradientCodec:
    """The codec of `thc-wide`."""
    from sumwire.codec import thc_wide

    return thc_wide.wide_codec(workers=member.workers, job=member.job, worker=member.worker)


def _wide_over_job(name: str, job: Job, options: ThcOptions) -> System:
    from sumwire.systems.builders import gradients_over_job

    return gradients_over_job(name, job, wide_codec(Member.of(job.config)), error_feedback=options.error_feedback)


def _over_group(name: str, group: dist.ProcessGroup | None, options: ThcGroupOptions) -> System:
    table = table_of(name, group, options.bits, options.p, granularity=options.granularity)
    return _by_table(name, group, table, seed=options.seed, error_feedback=options.error_feedback)


def _uniform_over_job(name: str, job: Job, options: ThcOptions) -> System:
    table = job.config.thc.table if job.config.thc else ()
    if table != tuple(min(z, table[-1]) for z in range(len(table))):
        rule = f"must be 0, 1 ... for system {name}, as by `table: uniform`: that of the job is what the switch adds by"
        raise ConfigError("table", table, rule, where=f"job {job.config.name}")
    return _over_job(name, job, options)


def _uniform_over_group(name: str, group: dist.ProcessGroup | None, options: UniformGroupOptions) -> System:
    table = table_of(name, group, options.bits, options.p, kind=UNIFORM)
    return _by_table(name, group, table, seed=options.seed, error_feedback=options.error_feedback)


def _by_table(
    name: str, group: dist.ProcessGroup | None, table: ThcTable, *, seed: int, error_feedback: bool
) -> System:
    from sumwire.systems.builders import gradients_over_peers
    from sumwire.training.reductions import Peers, thc_through_group

    peers = Peers(group)
    return gradients_over_peers(name, peers, thc_through_group(peers, table, seed=seed), error_feedback=error_feedback)


def _in_lanes(name: str, lanes: Lanes, options: LaneOptions) -> System:
    from sumwire.systems.kinds import LaneSystem

    kept = {"error_feedback": options.error_feedback, "early_forward": options.early_forward}
    return LaneSystem(name, SWITCH, lanes, **kept)


_COST: Final = InPackets(op=THC)

THC_SYSTEM: Final = SystemSpec(
    what="gradients as table indices; sums of table values come back",
    paper=PAPER,
    routes={
        SWITCH: Route(make=_over_job, options=ThcOptions, cost=_COST, ops=OPS, codec=codec),
        GROUP: Route(make=_over_group, options=ThcGroupOptions, cost=ByAllReduce(bits=BYTE_BITS)),
    },
    keeps="residual",
    limits=LIMITS,
    table="solved",
    approximates_mean=True,
)
THC_UNIFORM: Final = SystemSpec(
    what="as `thc`, with evenly spaced levels: granularity 2^bits - 1, or less",
    paper=PAPER,
    routes={
        SWITCH: Route(make=_uniform_over_job, options=ThcOptions, cost=_COST, ops=OPS, codec=codec),
        GROUP: Route(make=_uniform_over_group, options=UniformGroupOptions, cost=ByAllReduce(bits=BYTE_BITS)),
    },
    keeps="residual",
    limits=f"{LIMITS}; over a switch, the job's table must be the uniform one",
    table="uniform",
    approximates_mean=True,
)
THC_WIDE: Final = SystemSpec(
    what="as `thc`, with grid points in fields of 10 bits; of 15 bits above 68 workers, 16 bits a value each way",
    paper=PAPER,
    routes={
        SWITCH: Route(
            make=_wide_over_job,
            options=ThcOptions,
            cost=InFields(op=SUM32, fields=3),
            ops=("sum32", "max32"),
            codec=wide_codec,
        )
    },
    keeps="residual",
    limits="at most 255 workers; float32 and half precision",
    approximates_mean=True,
)
DLCP: Final = SystemSpec(
    what="as `thc`, in lanes of a job (`sumwire.dlcp.Lanes`) whose packets have priorities and drop classes",
    paper="DLCP, arXiv 2008.08445; MLT, NSDI 2024",
    routes={SWITCH: Route(make=_in_lanes, options=LaneOptions, cost=_COST, ops=OPS, codec=codec, laned=True)},
    keeps="residual",
    limits=f"{LIMITS}; contributions up to the loss bound may be missing",
    table="solved",
    approximates_mean=True,
)
