# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""FSDP2's all-gather of parameters with 8 bits a value, as ZeRO++ quantizes weights (arXiv 2306.10209).

A rank keeps its shard as it is, and its optimizer changes that. What all ranks compute with is rounded: in each block
of 256 values to 255 levels, from minus to plus the largest magnitude. Errors do not add up: every gather rounds anew.

    values 1.0, -0.5, 0.003     largest 1.0, so levels are 1/127 = 0.00787 apart
    levels 127, -64, 0          values 1.0, -0.504, 0
"""

from __future__ import annotations

from collections.abc import Sequence
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
_SCALE_BYTES: Final = 4
# What can be rounded. Torch hands a unit with parameters of several types over as bytes.
_FLOATS: Final = (torch.float32, torch.float16, torch.bfloat16)
# Its name since torch 2.12.
_gather: Final[Any] = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)


def encode(x: Tensor) -> Tensor:
    """A flat tensor's levels, int8, and then the blocks' steps from level to level, float32; all as bytes, uint8.

    A block with NaN or infinity has no finite step.
    """
    blocks = torch.zeros(-(-len(x) // BLOCK) * BLOCK, device=x.device)
    blocks[: len(x)] = x
    blocks = blocks.view(-1, BLOCK)
    steps = blocks.abs().amax(1, keepdim=True).div_(LEVELS)
    levels = blocks.div_(torch.where(steps > 0, steps, 1)).nan_to_num_(0, 0, 0).round_()
    return torch.cat([levels.to(torch.int8).view(torch.uint8).view(-1), steps.view(torch.uint8).view(-1)])


def decode(messages: Tensor, into: Tensor) -> None:
    """Write the values of :func:`encode`'s messages, of shape (ranks, bytes), to ``into``, of shape (ranks, values)."""
    blocks = messages.shape[1] // (BLOCK + _SCALE_BYTES)
    levels = messages[:, : blocks * BLOCK].view(torch.int8).view(-1, blocks, BLOCK)
    steps = messages[:, blocks * BLOCK :].contiguous().view(torch.float32).view(-1, blocks, 1)
    into.copy_((levels * steps).view(len(messages), -1)[:, : into.shape[1]])


class AllGather:
    """FSDP2's all-gather, as `set_custom_all_gather` takes it. Units whose parameters are of several types, or of none
    that is rounded, are gathered as ever."""

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Memory for parameters."""
        return torch.empty(*size, dtype=dtype, device=device)

    @torch.no_grad()
    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> Any:
        """Fill ``output_tensor`` with the ranks' rounded shards; this rank's is ``input_tensor``."""
        if input_tensor.dtype not in _FLOATS or not len(input_tensor):
            return _gather(output_tensor, input_tensor, group, async_op)
        own = encode(input_tensor)
        messages = own.new_empty(dist.get_world_size(group), len(own))
        work = _gather(messages.view(-1), own, group, async_op)
        into = output_tensor.view(len(messages), -1)
        if async_op:
            return _Gathered(work, messages, into)
        decode(messages, into)
        return None


class _Gathered(Work):
    """A gather under way: whoever waits for it first decodes what has come."""

    def __init__(self, work: Any, messages: Tensor, into: Tensor) -> None:
        super().__init__()
        self._work = work
        self._messages: Tensor | None = messages
        self._into = into

    @torch.no_grad()
    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the messages, and decode them once."""
        self._work.wait(*(() if timeout is None else (timeout,)))
        if self._messages is not None:
            if self._messages.is_cuda:
                # They are another stream's, which must not use their memory anew before they are decoded.
                self._messages.record_stream(torch.cuda.current_stream(self._messages.device))
            decode(self._messages, self._into)
            self._messages = None
        return True
