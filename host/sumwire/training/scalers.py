# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the GradScaler of a training if it was not passed to the hook.

A hook gets scaled gradients, and cannot see the scale. But torch calls a function before each optimizer step, and if a
scaler makes the step, it is among that function's callers. A scaler skips a step whose gradients have overflowed, and
the residuals of that step are dropped. So the scaler is known before residuals of another scale are used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final, Protocol
from weakref import WeakSet

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook


class Scaled(Protocol):
    """An object that gets scaled gradients."""

    def has(self, parameter: Tensor) -> bool:
        """Return whether the object gets the parameter's gradients."""
        ...

    def follow_scaler(self, scaler: GradScaler) -> None:
        """Use this scaler, whose present scale multiplied the latest gradients."""
        ...


_seeking: Final[WeakSet[Any]] = WeakSet()
# torch's handle of the function, once it is registered.
_registered: Final[list[Any]] = []


def find_scaler(seeker: Scaled) -> None:
    """Call ``seeker.follow_scaler`` in the first step that a scaler makes on an optimizer of the seeker's
    parameters."""
    _seeking.add(seeker)
    if not _registered:
        _registered.append(register_optimizer_step_pre_hook(_before_step))


def _before_step(optimizer: Optimizer, args: object, kwargs: object) -> None:
    # torch's tracer, which meets a compiled step, knows no frames.
    if torch.compiler.is_compiling() or not _seeking:
        return
    scaler = _calling()
    if scaler is None or not scaler.is_enabled():
        return
    for seeker in list(_seeking):
        if any(seeker.has(parameter) for parameter in _parameters(optimizer)):
            seeker.follow_scaler(scaler)
            _seeking.discard(seeker)


def _parameters(optimizer: Optimizer) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _calling() -> GradScaler | None:
    """The scaler whose step has led here."""
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        frame = caller
        if frame.f_code.co_name == "step" and isinstance(scaler := frame.f_locals.get("self"), GradScaler):
            return scaler
    return None
