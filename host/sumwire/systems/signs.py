# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Systems that send signs of gradients: `vote`, `ef-sign` and `ssdm`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from sumwire_protocol.ops import SIGN, SUM32, VOTE

from sumwire.systems.cost import ByAllGather, InFields, InPackets
from sumwire.systems.spec import GROUP, SWITCH, Member, Options, Route, SystemSpec

if TYPE_CHECKING:
    import torch.distributed as dist

    from sumwire.codec.base import GradientCodec
    from sumwire.job.job import Job
    from sumwire.systems.system import System

SIGN_LIMITS: Final = f"at most {SIGN.workers_max} workers in a switch"
_COUNTED: Final = "at most 31 workers in a switch"
_OPS: Final = ("sum32", "max32")


@dataclass(frozen=True, kw_only=True)
class SignOptions(Options):
    """Of systems whose result is signs alone."""

    scale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class SsdmOptions(SignOptions):
    """Of stochastic signs."""

    momentum: float = 0.9


def _vote_codec(member: Member) -> GradientCodec:
    from sumwire.codec.sign import VoteCodec

    return VoteCodec()


def _ef_sign_codec(member: Member) -> GradientCodec:
    from sumwire.codec.ef_sign import EfSignCodec

    return EfSignCodec(workers=member.workers)


def _ssdm_codec(member: Member, momentum: float = 0.9) -> GradientCodec:
    from sumwire.codec.ssdm import SsdmCodec

    return SsdmCodec(job=member.job, worker=member.worker, momentum=momentum)


def _vote(name: str, job: Job, options: SignOptions) -> System:
    from sumwire.systems.builders import gradients_over_job

    return gradients_over_job(name, job, _vote_codec(Member.of(job.config)), scale=options.scale)


def _vote_over_group(name: str, group: dist.ProcessGroup | None, options: SignOptions) -> System:
    from sumwire.systems.baselines.sign import majority_vote
    from sumwire.systems.builders import gradients_over_peers
    from sumwire.training.reductions import Peers

    peers = Peers(group)
    return gradients_over_peers(name, peers, partial(majority_vote, peers), scale=options.scale)


def _ef_sign(name: str, job: Job, options: Options) -> System:
    from sumwire.systems.builders import gradients_over_job

    return gradients_over_job(name, job, _ef_sign_codec(Member.of(job.config)), error_feedback=True)


def _ef_sign_over_group(name: str, group: dist.ProcessGroup | None, options: Options) -> System:
    from sumwire.systems.baselines.sign import ef_sign
    from sumwire.systems.builders import gradients_over_peers
    from sumwire.training.reductions import Peers

    peers = Peers(group)
    return gradients_over_peers(name, peers, partial(ef_sign, peers), error_feedback=True)


def _ssdm(name: str, job: Job, options: SsdmOptions) -> System:
    from sumwire.systems.builders import gradients_over_job

    codec = _ssdm_codec(Member.of(job.config), options.momentum)
    # What a round leaves for the next gradient is the momentum.
    return gradients_over_job(name, job, codec, scale=options.scale, error_feedback=True)


VOTE_SYSTEM: Final = SystemSpec(
    what="signs of gradients; the result is their majority, a tie is plus",
    paper="signSGD with majority vote, ICML 2018, arXiv 1802.04434",
    routes={
        SWITCH: Route(
            make=_vote, options=SignOptions, cost=InPackets(op=VOTE), ops=("vote", "max32"), codec=_vote_codec
        ),
        GROUP: Route(make=_vote_over_group, options=SignOptions, cost=ByAllGather(bits=1)),
    },
    limits=f"at most {VOTE.workers_max} workers in a switch",
)
EF_SIGN: Final = SystemSpec(
    what="signs of gradients and their mean magnitude",
    paper="EF-signSGD, ICML 2019, arXiv 1901.09847",
    routes={
        SWITCH: Route(
            make=_ef_sign, options=Options, cost=InFields(op=SUM32, fields=5), ops=_OPS, codec=_ef_sign_codec
        ),
        GROUP: Route(make=_ef_sign_over_group, options=Options, cost=ByAllGather(bits=1)),
    },
    keeps="residual",
    limits=_COUNTED,
    approximates_mean=True,
)
SSDM: Final = SystemSpec(
    what="stochastic signs of a momentum; their mean comes back",
    paper="SSDM, ICML 2021, arXiv 1905.12938",
    routes={
        SWITCH: Route(make=_ssdm, options=SsdmOptions, cost=InFields(op=SUM32, fields=6), ops=_OPS, codec=_ssdm_codec)
    },
    keeps="momentum",
    limits=_COUNTED,
)
