# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""FSDP2's all-gather of parameters with 8 bits a value, as ZeRO++ quantizes weights (arXiv 2306.10209).

A rank keeps its own shard unrounded, and its optimizer updates that. The gathered values are rounded: in each block of
256 values to 255 levels, from minus to plus the largest magnitude. Blocks end where a parameter's shard does. Errors do
not add up: every gather rounds anew.

    values 1.0, -0.5, 0.003     largest 1.0, so levels are 1/127 = 0.00787 apart
    levels 127, -64, 0          values 1.0, -0.504, 0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Work
else:
    from torch.distributed import Work

BLOCK: Final = 256
LEVELS: Final = 127
_STEP_BYTES: Final = 4
_LARGEST: Final = torch.finfo(torch.float32).max
# What can be rounded. Torch hands a unit with parameters of several types over as bytes.
_FLOATS: Final = (torch.float32, torch.float16, torch.bfloat16)
# Its name since torch 2.12.
_gather: Final[Any] = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)


def message_bytes(values: int) -> int:
    """Return the size in bytes of a message of ``values`` values."""
    return _levels_bytes(values) + _blocks(values) * _STEP_BYTES


def encode(x: Tensor) -> Tensor:
    """Encode a flat tensor as bytes, uint8: its levels, int8, padded to whole steps, then the distance between levels
    of each block, float32.

    A block with NaN or infinity has no finite distance.
    """
    blocks = torch.zeros(_blocks(len(x)) * BLOCK, dtype=torch.float32, device=x.device)
    blocks[: len(x)] = x
    blocks = blocks.view(_blocks(len(x)), BLOCK)
    steps = blocks.abs().amax(1, keepdim=True).div_(LEVELS)
    levels = blocks.div_(torch.where(steps > 0, steps, 1)).nan_to_num_(0, 0, 0).round_()
    # Where steps are denormal, they are too coarse for the largest value.
    levels = levels.clamp_(-LEVELS, LEVELS).to(torch.int8).view(torch.uint8).view(-1)
    return torch.cat([levels[: _levels_bytes(len(x))], steps.view(torch.uint8).view(-1)])


def decode(messages: Tensor, into: Tensor) -> None:
    """Write the values of :func:`encode`'s messages, of shape (ranks, bytes), to ``into``, of shape (ranks, values)."""
    ranks, values = into.shape
    if not values:
        return
    steps = messages[:, _levels_bytes(values) :].contiguous().view(torch.float32).view(ranks, _blocks(values), 1)
    levels = messages.new_zeros(ranks, _blocks(values) * BLOCK)
    levels[:, :values] = messages[:, :values]
    found = levels.view(torch.int8).view(ranks, _blocks(values), BLOCK) * steps
    # The largest level may be just beyond float32.
    found = torch.where(steps.isfinite(), found.clamp(-_LARGEST, _LARGEST), found)
    into.copy_(found.view(ranks, _blocks(values) * BLOCK)[:, :values])


def _blocks(values: int) -> int:
    return -(-values // BLOCK)


def _levels_bytes(values: int) -> int:
    return -(-values // _STEP_BYTES) * _STEP_BYTES


class AllGather:
    """FSDP2's all-gather, in the form that `set_custom_all_gather` takes.

    ``pieces``: the number of values of each parameter's shard, in order. Three kinds are gathered unchanged. Tensors of
    other lengths have been resharded to fewer ranks by torch, so their values are rounded already. The others are other
    dtypes, and units whose messages would not be shorter.
    """

    def __init__(self, pieces: Callable[[], list[int]]) -> None:
        self._pieces = pieces

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Allocate memory for parameters."""
        return torch.empty(*size, dtype=dtype, device=device)

    @torch.no_grad()
    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> Any:
        """Fill ``output_tensor`` with the ranks' rounded shards; this rank's is ``input_tensor``."""
        pieces = self._pieces()
        if not _can_round(input_tensor, pieces):
            return _gather(output_tensor, input_tensor, group, async_op)
        own = torch.cat([encode(piece) for piece in torch.split(input_tensor, pieces)])
        messages = own.new_empty(dist.get_world_size(group), len(own))
        work = _gather(messages.view(-1), own, group, async_op)
        gathered = _Gathered(messages, output_tensor.view(len(messages), -1), pieces)
        if async_op:
            return _Work(work, gathered)
        gathered.decode()
        return None


def _can_round(shard: Tensor, pieces: list[int]) -> bool:
    if shard.dtype not in _FLOATS or sum(pieces) != len(shard):
        return False
    return sum(map(message_bytes, pieces)) < len(shard) * shard.element_size()


class _Gathered:
    """The ranks' messages, of shape (ranks, bytes), and where the values of their pieces belong."""

    def __init__(self, messages: Tensor, into: Tensor, pieces: list[int]) -> None:
        self._messages, self._into, self._pieces = messages, into, pieces

    def decode(self) -> None:
        """Write all values."""
        if self._messages.is_cuda:
            # They may be another stream's, which must not use their memory anew before.
            self._messages.record_stream(torch.cuda.current_stream(self._messages.device))
        parts = torch.split(self._messages, [*map(message_bytes, self._pieces)], dim=1)
        for part, into in zip(parts, torch.split(self._into, self._pieces, dim=1), strict=True):
            decode(part, into)


class _Work(Work):
    """A pending gather. The first call of :meth:`wait` decodes the messages."""

    def __init__(self, work: Any, gathered: _Gathered) -> None:
        super().__init__()
        self._work = work
        self._gathered: _Gathered | None = gathered

    @torch.no_grad()
    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the messages, and decode them once."""
        self._work.wait(*(() if timeout is None else (timeout,)))
        gathered, self._gathered = self._gathered, None
        if gathered is not None:
            gathered.decode()
        return True
