# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Systems that send gradient values: `ssgd`, `fp16`, `sum32`, `topk` and `terngrad`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sumwire_protocol.ops import SUM32

from sumwire.systems.cost import LARGEST, ByAllGather, ByAllReduce, InPackets
from sumwire.systems.spec import GROUP, SWITCH, Member, Options, Route, SystemSpec

if TYPE_CHECKING:
    import torch.distributed as dist

    from sumwire.codec.base import GradientCodec
    from sumwire.job.job import Job
    from sumwire.systems.system import System


def sum32_codec(member: Member) -> GradientCodec:
    """Fixed point whose sums of the job's workers fit 32 bits."""
    from sumwire.codec.sum32 import Sum32Codec

    return Sum32Codec(workers=member.workers)


def _ssgd(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.systems.baselines import hooks
    from sumwire.systems.kinds import HookSystem

    return HookSystem(name, GROUP, hooks.all_reduce(group))


def _fp16(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.systems.baselines import hooks
    from sumwire.systems.kinds import HookSystem

    return HookSystem(name, GROUP, hooks.half_precision(group))


def _sum32(name: str, job: Job, options: Options) -> System:
    from sumwire.systems.builders import gradients_over_job

    return gradients_over_job(name, job, sum32_codec(Member.of(job.config)))


@dataclass(frozen=True, kw_only=True)
class TopKOptions(Options):
    """Of Top-k."""

    k: float = 0.01
    error_feedback: bool = True


def _topk(name: str, group: dist.ProcessGroup | None, options: TopKOptions) -> System:
    from sumwire.systems.baselines.topk import TopK, check_fraction
    from sumwire.systems.builders import gradients_over_peers
    from sumwire.training.reductions import Peers

    k = check_fraction(options.k)
    peers = Peers(group)
    return gradients_over_peers(name, peers, TopK(peers, k).reduce, error_feedback=options.error_feedback)


@dataclass(frozen=True, kw_only=True)
class TernGradOptions(Options):
    """Of TernGrad."""

    seed: int = 1


def _terngrad(name: str, group: dist.ProcessGroup | None, options: TernGradOptions) -> System:
    from sumwire.systems.baselines.terngrad import TernGrad
    from sumwire.systems.builders import gradients_over_peers
    from sumwire.training.reductions import Peers

    peers = Peers(group)
    return gradients_over_peers(name, peers, TernGrad(peers, options.seed).reduce)


# Bits of a value's part in its block's exponent.
EXPONENT_BITS: Final = 32 / SUM32.values

SSGD: Final = SystemSpec(
    what="gradients, as they are",
    paper="PyTorch DDP, VLDB 2020, arXiv 2006.15704",
    routes={GROUP: Route(make=_ssgd, options=Options, cost=ByAllReduce(bits=32))},
)
FP16: Final = SystemSpec(
    what="gradients in float16 (torch's hook)",
    paper="PyTorch's fp16_compress_hook",
    routes={GROUP: Route(make=_fp16, options=Options, cost=ByAllReduce(bits=16))},
    limits="values beyond float16 become infinite",
    approximates_mean=True,
)
SUM32_SYSTEM: Final = SystemSpec(
    what="gradients in 32-bit fixed point, with an exponent agreed on so that no sum overflows",
    paper="after SwitchML, NSDI 2021, arXiv 1903.06701",
    routes={
        SWITCH: Route(
            make=_sum32,
            options=Options,
            cost=InPackets(op=SUM32, agreement_bits=EXPONENT_BITS),
            ops=("sum32", "max32"),
            codec=sum32_codec,
        )
    },
    approximates_mean=True,
)
TOPK: Final = SystemSpec(
    what="the largest values and their positions",
    paper="Aji and Heafield, EMNLP 2017, arXiv 1704.05021",
    routes={GROUP: Route(make=_topk, options=TopKOptions, cost=ByAllGather(bits=64, carried=LARGEST))},
    keeps="residual",
    limits="below 2^31 values a bucket",
    approximates_mean=True,
)
TERNGRAD: Final = SystemSpec(
    what="-1, 0 or 1 times a bucket's largest magnitude, drawn without bias",
    paper="TernGrad, NeurIPS 2017, arXiv 1705.07878",
    routes={GROUP: Route(make=_terngrad, options=TernGradOptions, cost=ByAllReduce(bits=8))},
    keeps="random numbers",
    limits="at most 127 workers",
    approximates_mean=True,
)
