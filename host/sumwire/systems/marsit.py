# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Marsit over a switch, a ring and a torus; and its baseline, cascading compression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Final, Literal

from sumwire_protocol.ops import SIGN

from sumwire.systems.cost import HopByHop, InPackets
from sumwire.systems.gradients import SsdmOptions
from sumwire.systems.spec import GROUP, SWITCH, Member, Route, Seeded, SystemOptions, SystemSpec, option

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch import Tensor

    from sumwire.codec.base import GradientCodec
    from sumwire.job.job import Job, Residual
    from sumwire.systems.system import System

_PAPER: Final = "Marsit, DAC 2022, arXiv 2204.06787"


@dataclass(frozen=True, kw_only=True)
class MarsitOptions(SystemOptions):
    """Options of :class:`sumwire.optim.Marsit`."""

    rule: Literal["adaptive", "published"] = option(
        "adaptive: a step for each tensor, and each worker carries what its own signs left out; published: the paper's",
        "adaptive",
    )
    global_lr: float | Callable[[int], float] | None = option(  # noqa: RUF009 - makes a field
        "published rule: step of a sign, or a function of the round; None: follows the local updates", None
    )
    full_precision_every: int | None = option("rounds; None for never", 100)
    lead: float | None = option("published rule: weight of the new update in the signs, 1 in the paper; None: 3", None)

    def settings(self) -> dict[str, object]:
        """Return the keywords of the optimizer."""
        return {name: getattr(self, name) for name in MarsitOptions.names()}


@dataclass(frozen=True, kw_only=True)
class RingOptions(Seeded, MarsitOptions):
    """Options in a ring of workers."""


@dataclass(frozen=True, kw_only=True)
class TorusOptions(RingOptions):
    """Options in a torus of workers."""

    rows: int = option("of the torus; divides n")


@dataclass(frozen=True, kw_only=True)
class CascadeOptions(Seeded, SsdmOptions):
    """Options of cascading compression with SSDM."""


def _codec(member: Member) -> GradientCodec:
    """Make the codec of the rounds of signs."""
    from sumwire.codec.sign import SignCodec

    return SignCodec()


def _over_job(name: str, job: Job, options: MarsitOptions) -> System:
    from sumwire.systems.system import MarsitSystem

    return MarsitSystem(name, SWITCH, job, job, job.stats.as_dict, settings=options.settings())


def _in_ring(name: str, group: dist.ProcessGroup | None, options: RingOptions) -> System:
    from sumwire.multihop import RingSigns
    from sumwire.systems.builders import marsit_over_hops

    ring = RingSigns(group, options.seed)
    return marsit_over_hops(name, ring, lambda: ring.traffic.payload_bytes, options.settings())


def _in_torus(name: str, group: dist.ProcessGroup | None, options: TorusOptions) -> System:
    from sumwire.multihop import TorusSigns
    from sumwire.systems.builders import marsit_over_hops

    torus = TorusSigns(options.rows, group, options.seed)
    return marsit_over_hops(name, torus, lambda: torus.traffic.payload_bytes, options.settings())


def _cascade(name: str, group: dist.ProcessGroup | None, options: CascadeOptions) -> System:
    import torch

    from sumwire.codec.sign import check_momentum
    from sumwire.multihop import CascadeRing
    from sumwire.systems.builders import gradients_over_group
    from sumwire.training.reductions import Peers

    check_momentum(options.momentum)
    peers = Peers(group)
    ring = CascadeRing(peers.group, options.seed, stochastic=True)

    @wraps(ring.compressed_mean)
    def reduce(x: Tensor, bucket: int) -> tuple[Tensor, Residual]:
        mean = ring.compressed_mean(x)
        # As in SSDM: the step follows the signs, and the momentum stays for the next gradient. NaN is kept, whose sign
        # is 0 in torch.
        return torch.where(mean.isnan(), mean, mean.sign()), lambda: x * options.momentum

    system = gradients_over_group(
        name, reduce, lambda: ring.traffic.payload_bytes, scale=options.scale, error_feedback=True
    )
    system.on_close(peers.close)
    return system


def _cascade_magnitude(name: str, group: dist.ProcessGroup | None, options: Seeded) -> System:
    import torch

    from sumwire.multihop import CascadeRing
    from sumwire.systems.builders import gradients_over_group
    from sumwire.training.reductions import Peers

    peers = Peers(group)
    ring = CascadeRing(peers.group, options.seed, stochastic=False)

    @wraps(ring.compressed_mean)
    def reduce(x: Tensor, bucket: int) -> tuple[Tensor, Residual]:
        mean = ring.compressed_mean(x)
        return mean, lambda: torch.zeros_like(mean)

    system = gradients_over_group(name, reduce, lambda: ring.traffic.payload_bytes)
    system.on_close(peers.close)
    return system


_KEEPS: Final = "compensation"
_STREAM: Final = "random numbers"
_KEEPS_IN_HOPS: Final = f"{_KEEPS}, {_STREAM}"
_ON_PROCESSOR: Final = "works on the processor"
# What the rounds of full precision add, K being full_precision_every.
_FULL_PRECISION: Final = ", and 32/K"

SYSTEMS: Final[Mapping[str, SystemSpec]] = {
    "marsit": SystemSpec(
        what="signs of updates, merged; every full_precision_every-th round K in full precision",
        paper=_PAPER,
        routes={
            SWITCH: Route(
                make=_over_job,
                options=MarsitOptions,
                cost=InPackets(op=SIGN, extra=" + 31/K"),
                ops=("sign", "sum32", "max32"),
                codec=_codec,
            )
        },
        acts="optimizer",
        keeps=_KEEPS,
        limits=f"at most {SIGN.workers_max} workers in a switch",
    ),
    "marsit-ring": SystemSpec(
        what="as `marsit`, merged hop by hop in a ring",
        paper=_PAPER,
        routes={GROUP: Route(make=_in_ring, options=RingOptions, cost=HopByHop(extra=_FULL_PRECISION))},
        acts="optimizer",
        keeps=_KEEPS_IN_HOPS,
        limits=_ON_PROCESSOR,
    ),
    "marsit-torus": SystemSpec(
        what="as `marsit`, merged hop by hop in a 2D torus",
        paper=_PAPER,
        routes={GROUP: Route(make=_in_torus, options=TorusOptions, cost=HopByHop(extra=_FULL_PRECISION))},
        acts="optimizer",
        keeps=_KEEPS_IN_HOPS,
        limits=_ON_PROCESSOR,
    ),
    "cascade": SystemSpec(
        what="SSDM's stochastic signs, drawn anew at every hop of a ring: the baseline that Marsit avoids",
        paper=_PAPER,
        routes={GROUP: Route(make=_cascade, options=CascadeOptions, cost=HopByHop())},
        keeps=f"momentum, {_STREAM}",
        limits=_ON_PROCESSOR,
    ),
    "cascade-magnitude": SystemSpec(
        what="a mean magnitude and signs, taken anew at every hop of a ring: biased",
        paper=_PAPER,
        routes={GROUP: Route(make=_cascade_magnitude, options=Seeded, cost=HopByHop())},
        keeps=_STREAM,
        limits=_ON_PROCESSOR,
        approximates_mean=True,
    ),
}
