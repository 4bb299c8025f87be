# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ring and torus all-reduce of sign bits between the ranks of a torch.distributed group (gloo), point to point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from sumwire.checkpoint import Content, Saved
from sumwire.job.gloo import first_clause
from sumwire.multihop import schedule
from sumwire.multihop.schedule import HopError, ScheduleError, Step
from sumwire.multihop.sign_hops import SCALE, WEIGHT_BYTES, Bits, CascadeHopper, Draws, Hopper, SignHopper

DEFAULT_SEED: Final = 1


@dataclass
class Traffic:
    """What one rank has sent: ``payload_bytes`` of values, and ``header_bytes`` of weights or scales before them."""

    messages: int = 0
    payload_bytes: int = 0
    header_bytes: int = 0


class _Hops:
    """Sends and receives the messages of one rank of a group."""

    def __init__(self, group: dist.ProcessGroup | None, head_bytes: int) -> None:
        if not dist.is_initialized():
            raise ScheduleError("no process group: call torch.distributed.init_process_group first")
        self.group = group
        self.ranks = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        if self.rank < 0:
            raise ScheduleError("this process is not in the group: call it on the ranks of the group only")
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

    def kept(self) -> Content:
        return Content(rest={"rank": self._hops.rank, "stream": self._draws.state()})

    def restore(self, content: Content, /) -> None:
        if content.rest["rank"] == self._hops.rank:
            self._draws.go_on(content.rest["stream"])


class _ConnectedSigns(_Drawing):
    """What ring and torus have in common."""

    def __init__(self, group: dist.ProcessGroup | None, seed: int) -> None:
        super().__init__(group, WEIGHT_BYTES, seed)

    @property
    def traffic(self) -> Traffic:
        """What this rank has sent by `sign_merge` so far."""
        return self._hops.traffic

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

    def mean(self, tensor: Tensor) -> Tensor:
        """Return the mean over all ranks in full precision, by the group's ordinary all-reduce; a new tensor."""
        return _full_mean(tensor, self._hops)

    def all_finite(self, finite: bool) -> bool:
        """Return whether all ranks have called with True, by an ordinary all-reduce."""
        return bool(_full_mean(torch.tensor([float(finite)], device="cpu"), self._hops) == 1.0)


class RingSigns(_ConnectedSigns):
    """Marsit's ring: 2 (n - 1) hops of 1/n of the bits each.

    All ranks of the group make one with the same `seed`, and each draws from its own stream. Equal seeds and equal
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

    @property
    def traffic(self) -> Traffic:
        """What this rank has sent by `compressed_mean` so far."""
        return self._hops.traffic

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

    def mean(self, tensor: Tensor) -> Tensor:
        """Return the mean over all ranks in full precision, by the group's ordinary all-reduce; a new tensor."""
        return _full_mean(tensor, self._hops)


def _full_mean(tensor: Tensor, hops: _Hops) -> Tensor:
    total = tensor.detach().clone()
    try:
        dist.all_reduce(total, group=hops.group)
    except RuntimeError as error:
        why = first_clause(str(error))
        raise HopError(f"rank {hops.rank}: all-reduce failed: {why}; start all workers again") from error
    return total.div_(hops.ranks)


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
