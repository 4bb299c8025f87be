# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Systems that replace gradients: by values (`ssgd`, `fp16`, `bf16`, `sum32`, `topk`, `terngrad`) or by signs (`vote`,
`ef-sign`, `ssdm`). THC's are in `thc`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sumwire_protocol.ops import SUM32, VOTE

from sumwire.systems.cost import LARGEST, ByAllGather, ByAllReduce, InFields, InPackets
from sumwire.systems.spec import GROUP, SWITCH, Member, Route, Seeded, SystemOptions, SystemSpec, WithFeedback, option

if TYPE_CHECKING:
    import torch.distributed as dist

    from sumwire.codec.base import GradientCodec
    from sumwire.job.job import Job
    from sumwire.systems.system import System

# Bits of a value's share of its block's exponent.
EXPONENT_BITS: Final = 32 / SUM32.values
SUM32_COST: Final = InPackets(op=SUM32, agreement_bits=EXPONENT_BITS)
_COUNTED: Final = "at most 31 workers in a switch"


@dataclass(frozen=True, kw_only=True)
class TopKOptions(WithFeedback):
    """Options of `topk`."""

    k: float = option("fraction of a bucket's values that is sent, above 0 and at most 1", 0.01)


@dataclass(frozen=True, kw_only=True)
class SignOptions(SystemOptions):
    """Options of systems whose result is signs alone."""

    scale: float = option("what a sign stands for", 1.0)


@dataclass(frozen=True, kw_only=True)
class SsdmOptions(SignOptions):
    """Options of stochastic signs."""

    momentum: float = option("share of a worker's momentum that stays for the next step, from 0 to below 1", 0.9)


def codec_route(
    codec: Callable[..., GradientCodec],
    cost: InPackets,
    options: type[SystemOptions] = SystemOptions,
    *,
    error_feedback: bool = False,
) -> Route[Any]:
    """Return the route of a system whose gradients go through a job's switch by ``codec``.

    ``codec(member, **options)`` makes the codec. The options `scale` and `error_feedback`, if the system has them,
    apply to the system instead; ``error_feedback`` here is for a system without that option. The job needs the op of
    ``cost``, and MAX32 for its handshake.
    """

    def make(name: str, job: Job, options: SystemOptions) -> System:
        from sumwire.systems.builders import gradients_over_job

        given = asdict(options)
        scale, feedback = given.pop("scale", 1.0), given.pop("error_feedback", error_feedback)
        made = codec(Member.of(job.config), **given)
        return gradients_over_job(name, job, made, scale=scale, error_feedback=feedback)

    return Route(make=make, options=options, cost=cost, ops=(cost.op.name, "max32"), codec=codec)


# -- codecs, for jobs ----------------------------------------------------------------------------------


def sum32_codec(member: Member) -> GradientCodec:
    """Make the codec of `sum32`: fixed point whose sums over the job's workers fit 32 bits."""
    from sumwire.codec.sum32 import Sum32Codec

    return Sum32Codec(workers=member.workers)


def _vote_codec(member: Member) -> GradientCodec:
    from sumwire.codec.sign import VoteCodec

    return VoteCodec()


def _ef_sign_codec(member: Member) -> GradientCodec:
    from sumwire.codec.sign import EfSignCodec

    return EfSignCodec(workers=member.workers)


def _ssdm_codec(member: Member, momentum: float = 0.9) -> GradientCodec:
    from sumwire.codec.sign import SsdmCodec

    return SsdmCodec(job=member.job, worker=member.worker, momentum=momentum)


# -- over process groups -------------------------------------------------------------------------------


def _ssgd(name: str, group: dist.ProcessGroup | None, options: SystemOptions) -> System:
    from sumwire.systems import hooks
    from sumwire.systems.system import HookSystem

    return HookSystem(name, GROUP, hooks.all_reduce(group))


def _half(name: str, group: dist.ProcessGroup | None, options: SystemOptions) -> System:
    from sumwire.systems import hooks
    from sumwire.systems.system import HookSystem

    return HookSystem(name, GROUP, hooks.half_precision(group, brain=name == "bf16"))


def _topk(name: str, group: dist.ProcessGroup | None, options: TopKOptions) -> System:
    from sumwire.systems.baselines import TopK, check_fraction
    from sumwire.systems.builders import gradients_over_group
    from sumwire.training.reductions import Peers

    k = check_fraction(options.k)
    peers = Peers(group)
    return gradients_over_group(name, TopK(peers, k).reduce, peers, error_feedback=options.error_feedback)


def _terngrad(name: str, group: dist.ProcessGroup | None, options: Seeded) -> System:
    from sumwire.systems.baselines import TernGrad
    from sumwire.systems.builders import gradients_over_group
    from sumwire.training.reductions import Peers

    peers = Peers(group)
    return gradients_over_group(name, TernGrad(peers, options.seed).reduce, peers)


def _vote(name: str, group: dist.ProcessGroup | None, options: SignOptions) -> System:
    from sumwire.systems.baselines import majority_vote
    from sumwire.systems.builders import gradients_over_group
    from sumwire.training.reductions import Peers

    peers = Peers(group)
    return gradients_over_group(name, partial(majority_vote, peers), peers, scale=options.scale)


def _ef_sign(name: str, group: dist.ProcessGroup | None, options: SystemOptions) -> System:
    from sumwire.systems.baselines import ef_sign
    from sumwire.systems.builders import gradients_over_group
    from sumwire.training.reductions import Peers

    peers = Peers(group)
    return gradients_over_group(name, partial(ef_sign, peers), peers, error_feedback=True)


SYSTEMS: Final[Mapping[str, SystemSpec]] = {
    "ssgd": SystemSpec(
        what="gradients, as they are",
        paper="PyTorch DDP, VLDB 2020, arXiv 2006.15704",
        routes={GROUP: Route(make=_ssgd, options=SystemOptions, cost=ByAllReduce(bits=32))},
    ),
    "fp16": SystemSpec(
        what="gradients in float16 (torch's hook)",
        paper="PyTorch's fp16_compress_hook",
        routes={GROUP: Route(make=_half, options=SystemOptions, cost=ByAllReduce(bits=16))},
        limits="values beyond float16 become infinite",
        approximates_mean=True,
    ),
    "bf16": SystemSpec(
        what="gradients in bfloat16 (torch's hook)",
        paper="PyTorch's bf16_compress_hook",
        routes={GROUP: Route(make=_half, options=SystemOptions, cost=ByAllReduce(bits=16))},
        limits="3 significant digits at most",
        approximates_mean=True,
    ),
    "sum32": SystemSpec(
        what="gradients in 32-bit fixed point, with an exponent agreed on so that no sum overflows",
        paper="after SwitchML, NSDI 2021, arXiv 1903.06701",
        routes={SWITCH: codec_route(sum32_codec, SUM32_COST)},
        approximates_mean=True,
    ),
    "topk": SystemSpec(
        what="the largest values and their positions",
        paper="Aji and Heafield, EMNLP 2017, arXiv 1704.05021",
        routes={GROUP: Route(make=_topk, options=TopKOptions, cost=ByAllGather(bits=64, carried=LARGEST))},
        keeps="residual",
        limits="below 2^31 values a bucket",
        approximates_mean=True,
    ),
    "terngrad": SystemSpec(
        what="-1, 0 or 1 times a bucket's largest magnitude, drawn without bias",
        paper="TernGrad, NeurIPS 2017, arXiv 1705.07878",
        routes={GROUP: Route(make=_terngrad, options=Seeded, cost=ByAllReduce(bits=8))},
        keeps="random numbers",
        limits="at most 127 workers",
        approximates_mean=True,
    ),
    "vote": SystemSpec(
        what="signs of gradients; the result is their majority, a tie is plus",
        paper="signSGD with majority vote, ICML 2018, arXiv 1802.04434",
        routes={
            SWITCH: codec_route(_vote_codec, InPackets(op=VOTE), SignOptions),
            GROUP: Route(make=_vote, options=SignOptions, cost=ByAllGather(bits=1)),
        },
        limits=f"at most {VOTE.workers_max} workers in a switch",
    ),
    "ef-sign": SystemSpec(
        what="signs of gradients and their mean magnitude",
        paper="EF-signSGD, ICML 2019, arXiv 1901.09847",
        routes={
            SWITCH: codec_route(_ef_sign_codec, InFields(op=SUM32, fields=5), error_feedback=True),
            GROUP: Route(make=_ef_sign, options=SystemOptions, cost=ByAllGather(bits=1)),
        },
        keeps="residual",
        limits=_COUNTED,
        approximates_mean=True,
    ),
    "ssdm": SystemSpec(
        what="stochastic signs of a momentum; their mean comes back",
        paper="SSDM, ICML 2021, arXiv 1905.12938",
        # What a round leaves for the next gradient is the momentum, so error feedback is always on.
        routes={SWITCH: codec_route(_ssdm_codec, InFields(op=SUM32, fields=6), SsdmOptions, error_feedback=True)},
        keeps="momentum",
        limits=_COUNTED,
    ),
}
