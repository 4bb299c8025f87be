# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""torch.amp.GradScaler with optimizers that communicate in their step.

The scaler looks for NaN and infinity in this worker's own gradients, and does not call an optimizer if it finds some.
The other workers would wait for this one, and their scales would differ from its scale. An optimizer with
``_step_supports_amp_scaling`` and a step that takes ``grad_scaler`` is always called. It communicates, whatever the own
gradients are, then lets the scaler look at the aggregated gradients, which are equal on all workers.
"""

from __future__ import annotations

import warnings

from torch.amp.grad_scaler import GradScaler, OptState
from torch.optim import Optimizer


def expect_scaler() -> None:
    """Silence torch's notice that the argument will go. Without it a scaler could not be told what others found."""
    warnings.filterwarnings("ignore", "GradScaler is going to stop passing itself", FutureWarning)


def is_unscaled(scaler: GradScaler, optimizer: Optimizer) -> bool:
    """Return whether the caller has unscaled the gradients before the step, as for clipping."""
    return bool(scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.UNSCALED)


def are_finite(scaler: GradScaler, optimizer: Optimizer) -> bool:
    """Let the scaler look at the gradients, for its next update. Returns whether they are finite."""
    found = scaler._check_inf_per_device(optimizer)
    return not any(bool(one) for one in found.values())
