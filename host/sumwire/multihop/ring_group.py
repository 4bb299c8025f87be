# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A bounded ring of the ranks of a torch.distributed group, which tells them each other's addresses."""

from __future__ import annotations

import os
import secrets
import socket
from ipaddress import IPv4Address
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from sumwire.errors import AddressError
from sumwire.job.gloo import first_clause
from sumwire.multihop.bounded_ring import BoundedRing, RingStats, Tagger
from sumwire.multihop.neighbours import SILENCE_S, Neighbours
from sumwire.multihop.schedule import HopError, ScheduleError
from sumwire.transport.options import Delivery

_LOOPBACK: Final = "127.0.0.1"
# Any port: a UDP socket that is connected sends nothing.
_PROBE_PORT: Final = 9
_TOKEN_BITS: Final = 64


class GroupRing:
    """The mean over the ranks of a group, around a ring of UDP. Making one is a collective call. Also a context
    manager.

    ``loss_bound``: the share of a tensor's contributions that may be missing, in [0, 1); alike on all ranks.
    ``address``: this rank's own IPv4 address; None: that on the way to MASTER_ADDR. ``silence_s``: seconds without a
    word from a neighbour after which it counts as gone. ``tag``: TOS bytes of packets, by the magnitudes of their
    values.

    Raises ScheduleError without a group, or where the ranks' addresses or bounds do not fit together; ConfigError for
    another bound; AddressError for an address that cannot be used; HopError if a rank is gone.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | None = None,
        *,
        loss_bound: float = 0.0,
        address: str | None = None,
        silence_s: float = SILENCE_S,
        tag: Tagger | None = None,
    ) -> None:
        bound = Delivery(loss_bound=loss_bound).loss_bound
        if not dist.is_initialized():
            raise ScheduleError("no process group: call torch.distributed.init_process_group first")
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        if rank < 0:
            raise ScheduleError("this process is not in the group: call it on the ranks of the group only")
        self._tag = tag
        self._neighbours = Neighbours(address or _own_address(), silence_s=silence_s)
        try:
            ports = self._neighbours.ports
            own = (ports.host, ports.values, ports.answers, secrets.randbits(_TOKEN_BITS), bound)
            told = _told(own, group, ranks)
            _check(told)
            before, after = told[rank - 1], told[(rank + 1) % ranks]
            self._neighbours.connect((before[0], before[2]), (after[0], after[1]), told[0][3])
        except BaseException:
            self._neighbours.close()
            raise
        self._ring = BoundedRing(self._neighbours, ranks, rank, bound)

    def __enter__(self) -> GroupRing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the sockets; closing twice is allowed."""
        self._neighbours.close()

    @property
    def stats(self) -> RingStats:
        return self._ring.stats

    def mean(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean of what has arrived, by the number of its contributors, and this rank's residual.

        Both are new tensors of float32 in the tensor's shape; the mean has equal bits on all ranks. The residual is
        what the sums lack of what this rank gave or handed on: added to its next tensor, nothing is lost over time. All
        ranks call with equally many values. Raises HopError if a neighbour is gone or makes another call.
        """
        flat = tensor.detach().reshape(-1).to("cpu", torch.float32).numpy()
        reduced = self._ring.reduce(flat, self._tag)
        mean = reduced.sums / reduced.counts.astype(np.float32)
        shown = (torch.from_numpy(part).reshape(tensor.shape).to(tensor.device) for part in (mean, reduced.kept))
        return next(shown), next(shown)


def _own_address() -> str:
    master = os.environ.get("MASTER_ADDR")
    if not master:
        return _LOOPBACK
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((master, _PROBE_PORT))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise AddressError(
            f"no way to MASTER_ADDR={master}: {error.strerror}; give this rank's own address: address=..."
        ) from error


def _told(own: tuple[Any, ...], group: dist.ProcessGroup | None, ranks: int) -> list[Any]:
    told: list[Any] = [None] * ranks
    try:
        dist.all_gather_object(told, own, group=group)
    except RuntimeError as error:
        raise HopError(f"telling addresses failed: {first_clause(str(error))}; start all workers again") from error
    return told


def _check(told: list[Any]) -> None:
    hosts = [host for host, *_ in told]
    own = [IPv4Address(host).is_loopback for host in hosts]
    if any(own) and not all(own):
        rank = own.index(True)
        raise ScheduleError(
            f"rank {rank} has address {hosts[rank]}, which no other machine reaches; give its own: address=..., or set "
            "MASTER_ADDR to an address that all ranks reach"
        )
    bounds = [bound for *_, bound in told]
    if len(set(bounds)) > 1:
        raise ScheduleError(f"loss_bound = {bounds} by rank: must be alike; give all ranks the same options")
