# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a reduction does with NaN and infinity: pass them on to all workers, or raise on all of them.

A result has the same bits on all workers. So each worker decides by its own copy, and all decide alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import torch
from torch import Tensor

from sumwire.codec.values import all_finite
from sumwire.errors import NonFiniteError, UsageError

NonFinite = Literal["propagate", "raise"]
CHOICES: Final = ("propagate", "raise")


def result_check(nonfinite: NonFinite) -> Callable[[Tensor, int], Tensor]:
    """Return the function that takes the result of a reduction and its bucket, and returns the result.

    With "raise" it raises NonFiniteError for a result with NaN or infinity. Raises UsageError for any other choice.
    """
    if nonfinite not in CHOICES:
        raise UsageError(f"nonfinite = {nonfinite!r}: must be one of {', '.join(map(repr, CHOICES))}")
    return _refuse if nonfinite == "raise" else _pass


def refuse_unless(finite: bool) -> None:
    """Raise NonFiniteError unless all workers' values are finite, as they have found together."""
    if not finite:
        _refuse(torch.tensor([torch.nan], device="cpu"), 0)


def _pass(result: Tensor, bucket: int) -> Tensor:
    return result


def _refuse(result: Tensor, bucket: int) -> Tensor:
    if not all_finite(result):
        raise NonFiniteError(
            f"bucket {bucket}: the gradients of some worker hold NaN or infinity: must be finite; "
            'lower the learning rate or the loss scale, or set nonfinite="propagate" and let GradScaler skip such steps'
        )
    return result
