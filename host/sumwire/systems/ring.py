# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""DLCP without anything in the network that sums: tagged packets and a loss bound, around a ring of workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sumwire.systems.cost import ByAllReduce
from sumwire.systems.spec import GROUP, Options, Route, SystemSpec

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch import Tensor

    from sumwire.job.job import Residual
    from sumwire.systems.system import System

# Operations go one after the other, so none overtakes another: all have the highest priority, above untagged traffic.
_PRIORITIES: Final = (7,)
# In the middle of the model: a hook's buckets have no place in it.
_POSITION: Final = 0.5
_VALUE_BITS: Final = 32
# Shares of classes: all packets protected. A packet of zeros has class 3 nevertheless, and is sent again if it is lost.
_PROTECTED: Final = (1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class DlcpRingOptions(Options):
    """Of :class:`sumwire.multihop.GroupRing`."""

    loss_bound: float = 0.01
    error_feedback: bool = True
    address: str | None = None


def _in_ring(name: str, group: dist.ProcessGroup | None, options: DlcpRingOptions) -> System:
    import torch

    from sumwire.dlcp.tags import LayerMagnitude, tagger
    from sumwire.multihop import GroupRing
    from sumwire.systems.builders import gradients_over_hops

    # Without a bound nothing may be lost, so all packets are protected.
    policy = LayerMagnitude(_PRIORITIES) if options.loss_bound else LayerMagnitude(_PRIORITIES, _PROTECTED, _PROTECTED)
    tag = tagger(policy, _POSITION)
    ring = GroupRing(group, loss_bound=options.loss_bound, address=options.address, tag=tag)

    def reduce(x: Tensor, bucket: int) -> tuple[Tensor, Residual]:
        mean, kept = ring.mean(x)
        # A packet with NaN may be missing from a mean that is finite. Sent again and again, it would stay for ever.
        return mean, lambda: torch.nan_to_num(kept, nan=0.0, posinf=0.0, neginf=0.0)

    return gradients_over_hops(
        name, reduce, lambda: ring.stats.payload_bytes, error_feedback=options.error_feedback, close=ring.close
    )


DLCP_RING: Final = SystemSpec(
    what="gradients, as they are, around a ring of UDP; packets have drop classes, and a bounded share may be missing",
    paper="DLCP, arXiv 2008.08445; MLT, NSDI 2024",
    routes={GROUP: Route(make=_in_ring, options=DlcpRingOptions, cost=ByAllReduce(bits=_VALUE_BITS))},
    keeps="residual",
    limits="float32 and half precision; works on the processor; contributions up to the loss bound may be missing",
    approximates_mean=True,
)
