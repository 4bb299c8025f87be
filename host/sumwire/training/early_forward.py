# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An optimizer's step that is made piece by piece, each when the next forward pass comes to its parameters.

Usually a step waits for the mean gradients of the whole model. The next forward pass begins with the front layers, so
it needs theirs first. Here :meth:`EarlyForward.step` returns at once. Before a stage of the model computes, a hook
waits for the mean gradients of its parameters and updates these alone, while gradients of later stages still travel.
Parameters become the same, bit by bit, as with waiting: updates use the learning rates and other settings of the time
of :meth:`~EarlyForward.step`.

Stages are the model's children, also within DistributedDataParallel; in place of an `nn.Sequential`, `nn.ModuleList` or
`nn.ModuleDict` its own children. A stage's forward pass waits for all parameters in it, and the model's for those in no
stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.futures import Future
from torch.optim import Optimizer

from sumwire.errors import UsageError
from sumwire.training.comm_thread import wait_for

_CONTAINERS: Final = (nn.Sequential, nn.ModuleList, nn.ModuleDict)

_Settings = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class _Piece:
    """Mean gradients that are on their way: flat, of these parameters, in this order."""

    parameters: tuple[Tensor, ...]
    mean: Future[Tensor]


class EarlyForward:
    """The hooks on ``model`` and the updates of ``optimizer`` that are due.

    The optimizer's update of a parameter must depend on that parameter and its gradient alone, as that of SGD, Adam and
    AdamW does. A parameter must not be used before the forward pass of its stage has begun. The model's `state_dict`
    waits for all updates. To read parameters in another way, call :meth:`finish` first.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._announced: list[_Piece] = []
        self._due: list[_Piece] = []
        self._settings: _Settings = []
        for stage, parameters in stages(model):
            stage.register_forward_pre_hook(self._hook_of(parameters))
        model.register_state_dict_pre_hook(lambda *_: self.finish())  # type: ignore[no-untyped-call]

    def announce(self, parameters: Sequence[Tensor], mean: Future[Tensor]) -> None:
        """Take mean gradients that are still on their way. They belong to the next :meth:`step`.

        They replace earlier ones of the same parameters, because a second backward pass adds to the gradients of the
        first.
        """
        again = {id(p) for p in parameters}
        self._announced = [one for one in self._announced if again.isdisjoint(map(id, one.parameters))]
        self._announced.append(_Piece(tuple(parameters), mean))

    @property
    def announced(self) -> bool:
        """Whether mean gradients wait for the next :meth:`step`."""
        return bool(self._announced)

    def step(self) -> None:
        """Make the step from the announced gradients, piece by piece as the next forward pass needs it. Finishes the
        step before."""
        self.finish()
        self._due, self._announced = self._announced, []
        groups = self._optimizer.param_groups
        self._settings = [{key: _copied(value) for key, value in group.items() if key != "params"} for group in groups]

    def finish(self) -> None:
        """Wait for all mean gradients of the latest step, and complete it."""
        while self._due:
            self._update(self._due[0])

    def await_means(self) -> None:
        """Wait until all mean gradients have arrived, without updating anything. Their errors are not raised here.

        Call it before the first gradients of another step are sent. A forward pass may have skipped stages, and then
        nobody has waited for their means.
        """
        for piece in (*self._due, *self._announced):
            with suppress(Exception):
                wait_for(piece.mean)

    def _hook_of(self, parameters: frozenset[int]) -> Callable[[nn.Module, Any], None]:
        def hook(_module: nn.Module, _inputs: Any) -> None:
            for piece in list(self._due):
                if any(id(p) in parameters for p in piece.parameters):
                    self._update(piece)

        return hook

    @torch.no_grad()
    def _update(self, piece: _Piece) -> None:
        # An error stays with its piece: it is raised again by whoever needs it.
        mean = wait_for(piece.mean)
        self._due.remove(piece)
        groups = self._optimizer.param_groups
        everything = [p for group in groups for p in group["params"]]
        kept = [p.grad for p in everything]
        now = [{key: group[key] for key in settings} for group, settings in zip(groups, self._settings, strict=True)]
        try:
            for p in everything:
                p.grad = None
            for p, values in zip(
                piece.parameters, torch.split(mean, [p.numel() for p in piece.parameters]), strict=True
            ):
                p.grad = values.view(p.shape).to(p.dtype)
            for group, settings in zip(groups, self._settings, strict=True):
                group.update(settings)
            self._optimizer.step()
        finally:
            for group, settings in zip(groups, now, strict=True):
                group.update(settings)
            for p, gradient in zip(everything, kept, strict=True):
                p.grad = gradient


def _copied(setting: Any) -> Any:
    """A copy of a tensor, as a learning rate may be one: a schedule changes it in place."""
    return setting.clone() if isinstance(setting, Tensor) else setting


def stages(model: nn.Module) -> Iterator[tuple[nn.Module, frozenset[int]]]:
    """Yield each stage with the ids of the parameters that its forward pass waits for; the model itself comes first.

    Raises UsageError for a model without children, whose forward pass would wait for everything.
    """
    found = list(_stages_below(model))
    if not found:
        raise UsageError(f"{type(model).__name__} has no layers within it: early forward needs some to begin with")
    below = {id(p) for stage in found for p in stage.parameters()}
    yield model, frozenset(id(p) for p in model.parameters()) - below
    for stage in found:
        yield stage, frozenset(id(p) for p in stage.parameters())


def _stages_below(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        # DistributedDataParallel has one child, the model.
        if isinstance(child, _CONTAINERS) or isinstance(module, nn.parallel.DistributedDataParallel):
            yield from _stages_below(child)
        else:
            yield child
