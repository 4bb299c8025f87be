# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps the steps of all workers equal: with gradients scaled by torch.amp.GradScaler, and for Marsit's step size.

The scaler looks for NaN and infinity in this worker's own gradients, and does not call an optimizer if it finds some.
The other workers would wait for this one, and their scales would differ from its scale. An optimizer with
``_step_supports_amp_scaling`` and a step that takes ``grad_scaler`` is always called. It communicates whatever its own
gradients are. Then it lets the scaler look at the aggregated gradients, which are equal on all workers.

Marsit's step size is given, or follows the local updates: ``MULTIPLE`` times the mean magnitude of a value of the local
updates, over all workers and over about the last ``1 / (1 - KEPT)`` rounds. A smaller step lets the compensations grow
until they are applied far too late, a larger one adds noise. Workers agree on it by a mean of one value: when rounds of
signs begin, when their number has doubled, and at least every ``APART`` rounds.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any, Final

import torch
from sumwire_protocol.events import Event
from torch import Tensor
from torch.amp.grad_scaler import GradScaler, OptState
from torch.optim import Optimizer

from sumwire.errors import UsageError
from sumwire.numeric import is_number


def expect_scaler() -> None:
    """Silence torch's notice that the argument ``grad_scaler`` will be removed. Without the argument a scaler could not
    learn what others found."""
    warnings.filterwarnings("ignore", "GradScaler is going to stop passing itself", FutureWarning)


def is_unscaled(scaler: GradScaler, optimizer: Optimizer) -> bool:
    """Return whether the caller unscaled the gradients before the step, for example to clip them."""
    return bool(scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.UNSCALED)


def are_finite(scaler: GradScaler, optimizer: Optimizer) -> bool:
    """Let the scaler look at the gradients, for its next update. Returns whether they are finite."""
    found = scaler._check_inf_per_device(optimizer)
    return not any(bool(one) for one in found.values())


_log = logging.getLogger(__name__)

MULTIPLE: Final = 12.0
KEPT: Final = 0.95
APART: Final = 16
# Mean compensation over the step. Trainings that go well have 1 to 5.
OUTGROWN: Final = 10.0


class GlobalStep:
    """The step size of every round. ``given`` is a number, a function of the round, or None for the rule."""

    def __init__(self, given: float | Callable[[int], float] | None) -> None:
        self.given = given
        self._sum = 0.0
        self._weight = 0.0
        self._agreed = 0.0
        self._next = 0
        self._warned = False
        self.of(0)

    @property
    def magnitude(self) -> float:
        """Return the mean magnitude of a value of this worker's latest updates, with more weight on the last ones; 0
        before the first."""
        return self._sum / self._weight if self._weight else 0.0

    def of(self, round_: int) -> float:
        """Return the step size of a round. Raises UsageError for a given one that is not above 0 and finite."""
        if self.given is None:
            return self._agreed
        step = self.given(round_) if callable(self.given) else self.given
        if not is_number(step) or step <= 0:
            rule = "must be a finite number above 0; None follows the local updates"
            raise UsageError(f"global_lr = {step!r} in round {round_}: {rule}")
        return step

    def learn(self, update: Tensor) -> None:
        """Take the local update of a round into the mean magnitude. An update with NaN or infinity is ignored."""
        magnitude = _mean_magnitude(update)
        if magnitude < float("inf"):
            self._sum = KEPT * self._sum + (1 - KEPT) * magnitude
            self._weight = KEPT * self._weight + (1 - KEPT)

    def agree(self, round_: int, mean: Callable[[Tensor], Tensor]) -> None:
        """Agree on the step size with the other workers if the rule needs it. Called before a round of signs."""
        if self.given is None and round_ >= self._next:
            self._agreed = MULTIPLE * float(mean(torch.tensor([self.magnitude], dtype=torch.float32, device="cpu")))
            # Without any update yet, as in the first step of some warm-ups, the next round asks again.
            self._next = round_ + (min(max(round_, 1), APART) if self._agreed else 1)

    def watch(self, round_: int, compensation: Tensor) -> None:
        """Warn once if the compensation has outgrown the step."""
        if self._warned or round_ % APART:
            return
        step, kept = self.of(round_), _mean_magnitude(compensation)
        if kept > OUTGROWN * step > 0:
            self._warned = True
            _log.warning(
                "round %d: Marsit's compensation has the mean magnitude %.3g, %.0f times global_lr = %.3g: signs of "
                "that step do not keep up with local updates of the mean magnitude %.3g: leave global_lr out, or set "
                "it to about %.2g",
                round_, kept, kept / step, step, self.magnitude, MULTIPLE * self.magnitude,
                extra=Event.STEP_TOO_SMALL(round=round_, global_lr=step),
            )  # fmt: skip

    def kept(self) -> dict[str, Any]:
        """Return the state for a checkpoint. A step that was given as a function is not in it."""
        given = None if callable(self.given) else self.given
        return {"given": given, "sum": self._sum, "weight": self._weight, "agreed": self._agreed, "next": self._next}

    def restore(self, kept: dict[str, Any]) -> None:
        """Continue from what :meth:`kept` returned. A step that was given as a function stays."""
        if not callable(self.given):
            self.given = kept["given"]
        self._sum, self._weight = kept["sum"], kept["weight"]
        self._agreed, self._next = kept["agreed"], kept["next"]


def _mean_magnitude(x: Tensor) -> float:
    return float(torch.linalg.vector_norm(x, 1)) / max(x.numel(), 1)
