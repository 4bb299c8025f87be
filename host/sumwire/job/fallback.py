# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The collectives that take the switch's place during the fall-back: by gloo, in a group of the job's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

from sumwire.errors import OrderError
from sumwire.job.gloo_group import GlooGroup, Ranks

# Bytes of a call's description that are compared.
_CALL_BYTES: Final = 256


class Fallback:
    """All ranks make the same calls in the same order. Every method raises GroupError if a rank is gone.

    Creating one is a collective call. ``check`` is called while a collective waits, and may raise. ``ranks``: see
    :class:`sumwire.job.gloo_group.GlooGroup`.
    """

    def __init__(self, check: Callable[[], None], ranks: Ranks | None = None) -> None:
        self._group = GlooGroup(ranks)
        self._check = check

    @property
    def ranks(self) -> int:
        """Ranks of the group."""
        return self._group.ranks

    def close(self) -> None:
        """End the group. No further call."""
        self._group.close()

    def compare(self, call: str) -> None:
        """Raises OrderError unless all ranks give the same description. gloo itself would mix their tensors."""
        own = torch.zeros(_CALL_BYTES, dtype=torch.uint8, device="cpu")
        text = call.encode()[:_CALL_BYTES]
        own[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        texts = [bytes(each.tolist()).rstrip(b"\0").decode(errors="replace") for each in self.gather(own)]
        if len({*texts}) > 1:
            raise OrderError(
                f"the workers' calls differ, by rank: {'; '.join(texts)}; make the same calls in the same order on "
                f"every worker"
            )

    def mean(self, x: Tensor, *, counts: bool = True) -> Tensor:
        """Mean of a float32 CPU tensor over the workers, with equal bits on all of them; a new tensor.

        ``counts=False``: this worker has nothing to give. Its tensor only tells the length.
        """
        weight = torch.full((1,), float(counts), dtype=x.dtype, device="cpu")
        total = torch.cat([x if counts else torch.zeros_like(x), weight])
        self._reduce(total, dist.ReduceOp.SUM)
        return total[:-1].div_(total[-1].clamp(min=1.0))

    def total(self, x: Tensor) -> Tensor:
        """Sum of a CPU tensor over all workers, in its dtype; a new tensor."""
        return self._reduce(x.clone(), dist.ReduceOp.SUM)

    def add_(self, x: Tensor) -> None:
        """Replace a CPU tensor by its sum over all workers, with equal bits on all of them."""
        self._reduce(x, dist.ReduceOp.SUM)

    def largest(self, x: Tensor) -> Tensor:
        """Elementwise maximum over all workers; a new tensor."""
        return self._reduce(x.clone(), dist.ReduceOp.MAX)

    def gather(self, x: Tensor) -> list[Tensor]:
        """The tensors of all workers, by rank."""
        everyone = [torch.empty_like(x) for _ in range(self._group.ranks)]
        self._group.run(lambda group: group.allgather([everyone], [x]), self._check)
        return everyone

    def _reduce(self, x: Tensor, op: Any) -> Tensor:
        self._group.run(lambda group: group.allreduce([x], op), self._check)
        return x
