# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Collectives between the ranks of a torch.distributed group: ring and torus all-reduce of sign bits over gloo, point
to point, and the mean around a ring of UDP (:class:`GroupRing`)."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from sumwire.checkpoint import Content, Saved
from sumwire.errors import AddressError
from sumwire.job.gloo import first_clause
from sumwire.multihop import schedule
from sumwire.multihop.bounded_ring import BoundedRing, RingStats, Tagger
from sumwire.multihop.neighbours import SILENCE_S, Neighbours
from sumwire.multihop.schedule import HopError, ScheduleError, Step
from sumwire.multihop.sign_hops import SCALE, WEIGHT_BYTES, Bits, CascadeHopper, Draws, Hopper, SignHopper
from sumwire.transport.options import Delivery

DEFAULT_SEED: Final = 1


def _place_in(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """This process's rank in the group, and how many there are. Raises ScheduleError outside one."""
    if not dist.is_initialized():
        raise ScheduleError("no process group: call torch.distributed.init_process_group first")
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ScheduleError("this process is not in the group: call it on the ranks of the group only")
    return rank, ranks


@dataclass
class Traffic:
    """Bytes that one rank has sent: ``payload_bytes`` of values, and ``header_bytes`` of weights or scales before
    them."""

    messages: int = 0
    payload_bytes: int = 0
    header_bytes: int = 0


class _Hops:
    """Sends and receives the messages of one rank of a group."""

    def __init__(self, group: dist.ProcessGroup | None, head_bytes: int) -> None:
        self.group = group
        self.rank, self.ranks = _place_in(group)
        _check_for_processors(dist.group.WORLD if group is None else group)
        self.traffic = Traffic()
        self._head_bytes = head_bytes

    def run(self, hopper: Hopper, steps: Sequence[Step]) -> None:
        """Make all steps of this rank. Raises HopError if a neighbour is gone."""
        for step in steps:
            message = torch.from_numpy(hopper.message(step))
            received = torch.empty(hopper.expected_bytes(step), dtype=torch.uint8, device="cpu")
            self._exchange(step, message, received)
            hopper.take(step, received.numpy())

    def _exchange(self, step: Step, message: Tensor, received: Tensor) -> None:
        try:
            waits = (
                dist.isend(message, self._global(step.to), group=self.group),
                dist.irecv(received, self._global(step.source), group=self.group),
            )
            for work in waits:
                if work is not None:
                    work.wait()
        except RuntimeError as error:
            where = f"rank {self.rank}: the hop to {step.to}, from {step.source}"
            raise HopError(f"{where} failed: {first_clause(str(error))}; start all workers again") from error
        self.traffic.messages += 1
        self.traffic.header_bytes += self._head_bytes
        self.traffic.payload_bytes += message.numel() - self._head_bytes

    def _global(self, rank: int) -> int:
        return rank if self.group is None else dist.get_global_rank(self.group, rank)


def _check_for_processors(group: Any) -> None:
    """Hops are made by processors, also of tensors of a GPU."""
    kinds = [device.type for device in group._device_types]
    if "cpu" not in kinds:
        raise ScheduleError(
            f"a process group for {', '.join(kinds)} alone: hops need one for processors too: "
            'init_process_group("cpu:gloo,cuda:nccl")'
        )


class _Drawing(Saved):
    """A rank that draws random bits from its own stream. The state is where the stream is.

    A rank that loads another one's state, as there are more ranks than before, keeps its own stream: two ranks with one
    stream would draw alike.
    """

    def __init__(self, group: dist.ProcessGroup | None, head_bytes: int, seed: int) -> None:
        self._hops = _Hops(group, head_bytes)
        self._draws = Draws(seed, self._hops.rank)

    @property
    def traffic(self) -> Traffic:
        """What this rank has sent by hops so far."""
        return self._hops.traffic

    def mean(self, tensor: Tensor) -> Tensor:
        """Return the mean over all ranks in full precision, by the group's ordinary all-reduce; a new tensor."""
        total = tensor.detach().clone()
        try:
            dist.all_reduce(total, group=self._hops.group)
        except RuntimeError as error:
            why = first_clause(str(error))
            raise HopError(f"rank {self._hops.rank}: all-reduce failed: {why}; start all workers again") from error
        return total.div_(self._hops.ranks)

    def kept(self) -> Content:
        return Content(rest={"rank": self._hops.rank, "stream": self._draws.state()})

    def restore(self, content: Content, /) -> None:
        if content.rest["rank"] == self._hops.rank:
            self._draws.go_on(content.rest["stream"])


class _ConnectedSigns(_Drawing):
    """What ring and torus have in common."""

    def __init__(self, group: dist.ProcessGroup | None, seed: int) -> None:
        super().__init__(group, WEIGHT_BYTES, seed)

    def _steps(self, units: int) -> list[Step]:
        raise NotImplementedError

    def sign_merge(self, bits: Tensor, length: int | None = None) -> Tensor:
        """Return the merged signs of all ranks: a value is plus with the probability of the share of plus among them.

        `bits` is bool of any shape, or uint8 of shape (bytes,) with eight signs per byte, the first in the most
        significant bit. Of those, `length` (default: all) are values; the rest comes back as 0. True and 1 are plus.
        All ranks call with the same shape. The result is a new tensor of that form, with equal bits on all ranks.

        Raises ScheduleError for another dtype or shape, HopError if a neighbour is gone or out of step.
        """
        packed, count = _packed(bits, length)
        self._hops.run(SignHopper(packed, self._draws), self._steps(len(packed)))
        signs = np.unpackbits(packed, count=count)
        if bits.dtype == torch.bool:
            return torch.from_numpy(signs.astype(np.bool_)).reshape(bits.shape).to(bits.device)
        return torch.from_numpy(np.packbits(signs)).to(bits.device)

    def all_finite(self, finite: bool) -> bool:
        """Return whether all ranks have called with True, by an ordinary all-reduce."""
        return bool(self.mean(torch.tensor([float(finite)], device="cpu")) == 1.0)


class RingSigns(_ConnectedSigns):
    """Marsit's ring: 2 (n - 1) hops, each with 1/n of the bits.

    All ranks of the group create one with the same `seed`, and each draws from its own stream. Equal seeds and equal
    calls give equal bits.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, seed: int = DEFAULT_SEED) -> None:
        super().__init__(group, seed)

    def _steps(self, units: int) -> list[Step]:
        return schedule.ring(self._hops.ranks, self._hops.rank, units)


class TorusSigns(_ConnectedSigns):
    """Marsit's 2D torus of `rows` rows, rank = row * cols + col: 2 (cols - 1) + 2 (rows - 1) hops.

    Raises ScheduleError if the rows do not divide the group's ranks.
    """

    def __init__(self, rows: int, group: dist.ProcessGroup | None = None, seed: int = DEFAULT_SEED) -> None:
        super().__init__(group, seed)
        self.rows = rows
        self.cols = schedule.columns_of(self._hops.ranks, rows)

    def _steps(self, units: int) -> list[Step]:
        return schedule.torus(self.rows, self.cols, self._hops.rank, units)


class CascadeRing(_Drawing):
    """The baseline that Marsit avoids: signs are compressed anew at every hop of a ring (see CascadeHopper)."""

    def __init__(
        self, group: dist.ProcessGroup | None = None, seed: int = DEFAULT_SEED, *, stochastic: bool = True
    ) -> None:
        super().__init__(group, SCALE.itemsize, seed)
        self._stochastic = stochastic

    def compressed_mean(self, tensor: Tensor) -> Tensor:
        """Return an estimate of the mean over all ranks, at one bit per value and hop: float32, equal on all ranks.

        A single rank gets its own values. Where some rank has NaN or infinity, that n-th of the tensor is NaN on all.
        Raises HopError as RingSigns does.
        """
        flat = tensor.detach().reshape(-1).to("cpu", torch.float32)
        length = flat.numel()
        values = np.zeros(-(-length // 8) * 8, np.float32)
        values[:length] = flat.numpy()
        hopper = CascadeHopper(values, self._draws, stochastic=self._stochastic, length=length)
        self._hops.run(hopper, schedule.ring(self._hops.ranks, self._hops.rank, len(values) // 8))
        mean = torch.from_numpy(values[:length] / np.float32(self._hops.ranks))
        return mean.reshape(tensor.shape).to(tensor.device)


def _packed(bits: Tensor, length: int | None) -> tuple[Bits, int]:
    """Return a copy as packed bytes, and the number of values."""
    if bits.dtype == torch.bool:
        if length is not None:
            raise ScheduleError(f"length = {length}: a bool tensor has its own length: leave it out")
        flat = bits.detach().cpu().reshape(-1).numpy()
        return np.packbits(flat), flat.size
    if bits.dtype != torch.uint8 or bits.dim() != 1:
        raise ScheduleError(f"{bits.dtype} of shape {tuple(bits.shape)}: must be bool, or uint8 of one dimension")
    count = 8 * bits.numel() if length is None else length
    if bits.numel() != -(-count // 8):
        raise ScheduleError(f"length = {count} with {bits.numel()} bytes: must fill all but the last one's end")
    return bits.detach().cpu().numpy().copy(), count


_LOOPBACK: Final = "127.0.0.1"
# Any port: a UDP socket that is connected sends nothing.
_PROBE_PORT: Final = 9
_TOKEN_BITS: Final = 64


class GroupRing:
    """The mean over the ranks of a group, around a ring of UDP. Making one is a collective call. Also a context
    manager.

    ``loss_bound``: the share of a tensor's contributions that may be missing, in [0, 1); equal on all ranks.
    ``address``: this rank's own IPv4 address; None takes the one from which MASTER_ADDR is reached. ``silence_s``: a
    neighbour counts as gone after so many seconds without a packet. ``tag``: computes the packets' TOS bytes from the
    magnitudes of their values.

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
        rank, ranks = _place_in(group)
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
        """Return the mean of what has arrived (the sum divided by its number of contributors) and this rank's residual.

        Both are new tensors of float32 in the tensor's shape; the mean has equal bits on all ranks. The residual is
        what this rank contributed or passed on and the sums lack. If it is added to the next tensor, nothing is lost
        over time. All ranks call with equally many values. Raises HopError if a neighbour is gone or makes another
        call.
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
