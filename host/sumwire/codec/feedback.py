# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Error feedback: what compression left out of a gradient, the residual, is added to the next one.

The invariant is compressed + residual = input. Residuals are float32 and have the gradient's shape.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from operator import itemgetter
from typing import Final

import torch
from torch import Tensor

from sumwire.checkpoint import Content, Saved
from sumwire.codec.errors import FeedbackShapeError
from sumwire.codec.kernels import add
from sumwire.codec.tensors import Recycler, expect_residual
from sumwire.errors import UsageError

# Keys that a checkpoint can hold, alone or in tuples.
_PLAIN: Final = (str, int, float, bool, bytes, type(None))


class ErrorFeedback(Saved):
    """Residuals by a key that the caller chooses, one tensor each.

    A state can be saved if the keys are strings, numbers or tuples of them: other objects mean nothing to a later
    process.
    """

    def __init__(self) -> None:
        self._residuals: dict[Hashable, Tensor] = {}
        self._memory = Recycler()

    def __len__(self) -> int:
        return len(self._residuals)

    def compensate(self, key: Hashable, x: Tensor) -> Tensor:
        """Return x plus the key's residual (0 at first), a new float32 tensor.

        Raises FeedbackShapeError if the stored residual has another shape; `reset` the key to start anew.
        """
        residual = self._residuals.get(key)
        if residual is None:
            return expect_residual(_room(self._memory, x, torch.float32).copy_(x.detach()))
        if residual.shape != x.shape:
            raise FeedbackShapeError(
                f"residual {key!r} has shape {tuple(residual.shape)}, its gradient {tuple(x.shape)}: reset it first"
            )
        if not (x.is_cpu and residual.is_cpu):
            residual = residual.to(x.device)
        total = expect_residual(_room(self._memory, x, torch.result_type(x, residual)))
        if x.dim() == 1:
            return add(x, residual, total)
        return torch.add(x.detach(), residual, out=total)

    def store(self, key: Hashable, residual: Tensor) -> None:
        """Keep what this round left out, replacing the former residual. The tensor is kept, not copied."""
        self._residuals[key] = residual.detach()

    def kept(self) -> Content:
        """Return the residuals by key. Raises UsageError for a key that cannot be saved."""
        for key in self._residuals:
            if not _is_plain(key):
                rule = "to be saved it must be a string, a number or a tuple of them: use such keys"
                raise UsageError(f"residual {key!r}: key of type {type(key).__name__}: {rule}")
        return Content(residuals=dict(self._residuals))

    def restore(self, content: Content, /) -> None:
        """Continue with these residuals only."""
        self._residuals = dict(content.residuals)

    def reset(self, key: Hashable | None = None) -> None:
        """Forget one key's residual, or all of them."""
        if key is None:
            self._residuals.clear()
        else:
            self._residuals.pop(key, None)


class ParameterFeedback(Saved):
    """Residuals by parameter, for buckets whose parameters change.

    DDP regroups parameters into other buckets after its first iteration. A residual follows its parameter into
    any bucket; it is dropped if the parameter's number of values has changed. Parameters are named by any hashable
    id that is not reused, such as their position in the model; id() of an object is not safe.
    """

    def __init__(self) -> None:
        self._residuals: dict[Hashable, Tensor] = {}
        self._memory = Recycler()

    def __len__(self) -> int:
        return len(self._residuals)

    def residual(self, parameter: Hashable) -> Tensor | None:
        """Return the parameter's flat residual, or None."""
        return self._residuals.get(parameter)

    def compensate(self, bucket: Tensor, parts: Sequence[tuple[Hashable, int]]) -> Tensor:
        """Return the flat bucket plus its parameters' residuals, a new float32 tensor.

        `parts` lists (parameter, number of values) in the bucket's order. Raises FeedbackShapeError unless they
        fill the bucket exactly and name each parameter once.
        """
        _check_parts(bucket, parts)
        total = expect_residual(_room(self._memory, bucket, torch.float32))
        whole = self._whole(parts)
        if whole is not None:
            return add(bucket.detach(), whole.to(bucket.device), total)
        sizes = [numel for _, numel in parts]
        pieces = zip(parts, torch.split(bucket.detach(), sizes), torch.split(total, sizes), strict=True)
        for (parameter, numel), own, target in pieces:
            residual = self._residuals.get(parameter)
            if residual is not None and residual.numel() != numel:
                del self._residuals[parameter]
                residual = None
            if residual is None:
                target.copy_(own)
            else:
                torch.add(own, residual.to(own.device), out=target)
        return total

    def store(self, parts: Sequence[tuple[Hashable, int]], residual: Tensor) -> None:
        """Keep a bucket's new flat residual, cut by parameter. The tensor is kept, not copied."""
        _check_parts(residual, parts)
        pieces = torch.split(residual.detach(), [numel for _, numel in parts])
        for (parameter, _), piece in zip(parts, pieces, strict=True):
            self._residuals[parameter] = piece

    def _whole(self, parts: Sequence[tuple[Hashable, int]]) -> Tensor | None:
        """Return the parameters' residuals as one tensor if they are one, cut: those of one bucket, unless DDP has
        regrouped it."""
        pieces = [self._residuals.get(parameter) for parameter, _ in parts]
        first = pieces[0] if pieces else None
        if first is None:
            return None
        storage, place = first.untyped_storage().data_ptr(), first.storage_offset()
        for piece, (_, numel) in zip(pieces, parts, strict=True):
            if piece is None or piece.numel() != numel or piece.storage_offset() != place:
                return None
            if piece.dtype != torch.float32 or piece.untyped_storage().data_ptr() != storage:
                return None
            place += numel
        return first.as_strided((place - first.storage_offset(),), (1,))

    def kept(self) -> Content:
        """Return the flat residuals by parameter."""
        return Content(residuals=dict(self._residuals))

    def restore(self, content: Content, /) -> None:
        """Continue with these residuals only."""
        self._residuals = dict(content.residuals)

    def rescale(self, factor: float) -> None:
        """Multiply all residuals, because gradients are in another unit from now on."""
        for residual in self._residuals.values():
            residual.mul_(factor)

    def keep_only(self, parameters: Iterable[Hashable]) -> None:
        """Forget every parameter not named: those that left the model."""
        wanted = set(parameters)
        self._residuals = {name: piece for name, piece in self._residuals.items() if name in wanted}

    def reset(self) -> None:
        """Forget all residuals."""
        self._residuals.clear()


def _room(memory: Recycler, like: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a tensor of this shape and device, not filled."""
    if not like.is_cpu:
        return torch.empty_like(like, dtype=dtype, requires_grad=False)
    room = memory.empty(like.numel(), dtype)
    return room if like.dim() == 1 else room.view(like.shape)


def _is_plain(key: Hashable) -> bool:
    return all(map(_is_plain, key)) if type(key) is tuple else type(key) in _PLAIN


def _check_parts(flat: Tensor, parts: Sequence[tuple[Hashable, int]]) -> None:
    total = sum(map(itemgetter(1), parts))
    if flat.dim() != 1 or flat.numel() != total:
        raise FeedbackShapeError(f"tensor of shape {tuple(flat.shape)}: its parameters need ({total},)")
    if len(dict(parts)) != len(parts):
        raise FeedbackShapeError("a parameter is named twice in one bucket: each has one residual")
