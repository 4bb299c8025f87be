# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Refuses the form of DistributedDataParallel's join that no hook can honour.

A rank that has joined adds zeros, and torch lets its own reducer divide by the other ranks alone. It tells hooks
neither that there is a join nor how many have joined, so a hook divides by all.
"""

from __future__ import annotations

import gc
import weakref

from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from sumwire.errors import UsageError


class JoinCheck:
    """Of one hook's models."""

    def __init__(self) -> None:
        self._models: list[weakref.ref[DistributedDataParallel]] | None = None

    def check(self, parameter: Tensor) -> None:
        """Raises UsageError within ``model.join(divide_by_initial_world_size=False)``. ``parameter``: of the model."""
        if self._models is None:
            self._models = [weakref.ref(model) for model in _models_with(parameter)]
        for model in filter(None, (found() for found in self._models)):
            joins = getattr(model, "_join_config", None)
            if joins is not None and joins.enable and not getattr(model, "_divide_by_initial_world_size", True):
                raise UsageError(
                    "model.join(divide_by_initial_world_size=False): no hook learns which ranks have joined: leave the "
                    'option out, or, in place of the hook, call init_process_group("sumwire"), which honours it'
                )


def _models_with(parameter: Tensor) -> list[DistributedDataParallel]:
    """A bucket does not say which model it is of."""
    return [model for model in living_models() if any(one is parameter for one in model.parameters())]


def living_models() -> list[DistributedDataParallel]:
    """All that this process has. Looks through all of Python's objects, which takes tens of milliseconds."""
    return [found for found in gc.get_objects() if issubclass(type(found), DistributedDataParallel)]
