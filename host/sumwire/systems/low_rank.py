# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Systems that send low-rank factors: `powersgd`, `acp` and `acp-thc`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sumwire_protocol.ops import THC

from sumwire.lowrank.fusion import MIN_COMPRESSION, THRESHOLD_BYTES
from sumwire.systems import thc
from sumwire.systems.cost import BOTH_FACTORS, ONE_FACTOR, ByAllReduce, InPackets
from sumwire.systems.gradients import SUM32_COST, sum32_codec
from sumwire.systems.spec import GROUP, SWITCH, Member, Route, Seeded, SystemOptions, SystemSpec, WithFeedback, option

if TYPE_CHECKING:
    import torch.distributed as dist

    from sumwire.job.job import Job
    from sumwire.systems.system import System

_RANK: Final = 4
_MIN_COMPRESSION: Final = "a matrix is compressed if its factors are smaller by more than this"


@dataclass(frozen=True, kw_only=True)
class LowRankOptions(SystemOptions):
    """Options of all low-rank systems."""

    rank: int = option("columns of the factors; a matrix with a smaller side has so many", _RANK)


@dataclass(frozen=True, kw_only=True)
class PowerSgdOptions(LowRankOptions):
    """Options of torch's hook, where they are called matrix_approximation_rank, min_compression_rate and
    start_powerSGD_iter."""

    min_compression: float = option(_MIN_COMPRESSION, 2.0)
    start_iter: int = option("steps with whole gradients before, 2 or more", 3)

    @classmethod
    def warm_up_steps(cls, given: Mapping[str, Any]) -> int:
        """Return the number of steps with whole gradients, plus the first compressed one, which makes the factors that
        later ones use."""
        return int(given.get("start_iter", cls.start_iter)) + 1


@dataclass(frozen=True, kw_only=True)
class AcpOptions(Seeded, WithFeedback, LowRankOptions):
    """Options of :class:`sumwire.lowrank.AcpSgd`."""

    min_compression: float = option(_MIN_COMPRESSION, MIN_COMPRESSION)
    accumulation: int | None = option("backward passes a step; None if not known beforehand", 1)
    threshold_bytes: int | None = option(
        "of uncompressed gradient that shares a buffer; None tries several sizes in the first steps", THRESHOLD_BYTES
    )
    reuse: bool = option("take the basis from the last result, instead of drawing it in every step", True)


@dataclass(frozen=True, kw_only=True)
class AcpThcGroupOptions(thc.SolvedTableOptions, AcpOptions):
    """Options of ACP-SGD, and of the THC table. Over a job, the table is the job's."""


def _settings(options: AcpOptions) -> dict[str, object]:
    """The keywords of AcpSgd."""
    return {name: getattr(options, name) for name in AcpOptions.names()}


def _powersgd(name: str, group: dist.ProcessGroup | None, options: PowerSgdOptions) -> System:
    from sumwire.systems.hooks import power_sgd
    from sumwire.systems.system import HookSystem
    from sumwire.training.reductions import Peers

    # Its group stays until the process group ends. Torch's hook goes on in a thread of gloo, which may be the last to
    # hold the group. The group would end in its own thread then, wait for that thread, and abort the process.
    return HookSystem(name, GROUP, power_sgd(Peers(group).group, **asdict(options)))


def _over_job(name: str, job: Job, options: AcpOptions) -> System:
    from sumwire.systems.system import AcpSystem
    from sumwire.training.reductions import through_job

    codec = sum32_codec(Member.of(job.config)) if name == "acp" else None
    return AcpSystem(name, SWITCH, job, through_job(job, codec), job.stats.as_dict, settings=_settings(options))


def _over_group(name: str, group: dist.ProcessGroup | None, options: AcpOptions) -> System:
    from sumwire.systems.builders import Timed
    from sumwire.systems.system import AcpSystem
    from sumwire.training.reductions import Peers, thc_through_group, through_group

    table = thc.table_of(name, group, options) if isinstance(options, AcpThcGroupOptions) else None
    peers = Peers(group)
    reduce = through_group(peers) if table is None else thc_through_group(peers, table, seed=options.seed)
    timed = Timed(peers)
    system = AcpSystem(name, GROUP, None, timed.reduction(reduce), timed.stats, settings=_settings(options))
    system.on_close(peers.close)
    return system


_ACP_PAPER: Final = "ACP-SGD, ICDCS 2023, arXiv 2306.08881"
_ACP_LIMITS: Final = "parameters on one device"
_ACP_KEEPS: Final = "errors, P, Q, the step"

SYSTEMS: Final[Mapping[str, SystemSpec]] = {
    "powersgd": SystemSpec(
        what="low-rank factors P and Q, one after the other (torch's hook)",
        paper="Power-SGD, NeurIPS 2019, arXiv 1905.13727",
        routes={
            GROUP: Route(make=_powersgd, options=PowerSgdOptions, cost=ByAllReduce(bits=32, carried=BOTH_FACTORS)),
        },
        keeps="errors, P, Q",
        limits="whole gradients in the first start_iter steps",
        approximates_mean=True,
    ),
    "acp": SystemSpec(
        what="one low-rank factor a step, P and Q by turns",
        paper=_ACP_PAPER,
        routes={
            SWITCH: Route(
                make=_over_job,
                options=AcpOptions,
                cost=replace(SUM32_COST, carried=ONE_FACTOR),
                ops=("sum32", "max32"),
                codec=sum32_codec,
            ),
            GROUP: Route(make=_over_group, options=AcpOptions, cost=ByAllReduce(bits=32, carried=ONE_FACTOR)),
        },
        acts="optimizer",
        keeps=_ACP_KEEPS,
        limits=_ACP_LIMITS,
    ),
    "acp-thc": SystemSpec(
        what="as `acp`, with THC for the factors",
        paper=f"{_ACP_PAPER}; {thc.PAPER}",
        routes={
            SWITCH: Route(
                make=_over_job,
                options=AcpOptions,
                cost=InPackets(op=THC, carried=ONE_FACTOR),
                ops=thc.OPS,
                codec=thc.codec,
            ),
            GROUP: Route(
                make=_over_group,
                options=AcpThcGroupOptions,
                cost=ByAllReduce(bits=thc.BYTE_BITS, carried=ONE_FACTOR),
            ),
        },
        acts="optimizer",
        keeps=_ACP_KEEPS,
        limits=f"{thc.LIMITS}; {_ACP_LIMITS}",
        table="solved",
    ),
}
