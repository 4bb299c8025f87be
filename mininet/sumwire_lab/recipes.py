# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The systems that a run can compare, and how each one trains: its place in the library, its optimizer.

Learning rates were chosen one system at a time by training in one process without a network (docs/lab.md). All of
them follow the same schedule (model.learning_rate_factor), and so does Marsit's global step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sumwire import _p4 as p4

BASELINE: Final = "gloo"
# Hosts of a job, and hosts below a switch that is not the root, for the ops with less room than the others.
OP_WORKERS_MAX: Final = {"sign": p4.SIGN_WORKERS_MAX, "vote": p4.VOTE_WORKERS_MAX}
OP_BELOW_MAX: Final = {"vote": p4.VOTE_WORKERS_BELOW_MAX}
MOMENTUM: Final = 0.9


@dataclass(frozen=True)
class Recipe:
    """How one system trains. `learning_rate` None: the run's own, as the baseline."""

    system: str | None
    """Its name in `sumwire.systems`; None for torch's own all-reduce."""
    learning_rate: float | None = None
    momentum: float = MOMENTUM
    """Nesterov's; 0 for none."""
    global_lr: float | None = None
    """Marsit's step where the schedule is at 1. Such a system replaces updates, not gradients."""
    options: Mapping[str, Any] = field(default_factory=dict)
    ops: tuple[str, ...] = ("thc", "max32")
    """What the job must have; none for systems that need no switch."""
    estimates_mean: bool = False
    """The result stands for the mean gradient, so its NMSE means something."""


_SIGN_OPS: Final = ("sign", "sum32", "max32")


def _marsit(every: int | None, system: str = "marsit", ops: tuple[str, ...] = _SIGN_OPS) -> Recipe:
    """Plain SGD with the step that momentum 0.9 makes of the baseline's 0.1.

    With momentum the local updates of one worker differ from the others' for many rounds, and compensation keeps it.
    """
    return Recipe(
        system,
        learning_rate=1.0,
        momentum=0.0,
        global_lr=4.5e-3,
        options={"full_precision_every": every},
        ops=ops,
    )


RECIPES: Final[Mapping[str, Recipe]] = {
    BASELINE: Recipe(None, ops=()),
    "thc": Recipe("thc", estimates_mean=True),
    "marsit": _marsit(None),
    "marsit100": _marsit(100),
    "vote": Recipe("vote", learning_rate=2e-3, momentum=0.0, ops=("vote", "max32")),
    "ef-sign": Recipe("ef-sign", learning_rate=1.0, momentum=0.0, ops=("sign", "max32"), estimates_mean=True),
    "ssdm": Recipe("ssdm", learning_rate=1e-2, momentum=0.0, ops=("sign", "max32")),
    "cascade": Recipe("cascade", learning_rate=1.0, momentum=0.0, ops=(), estimates_mean=True),
    "marsit-ring": _marsit(None, "marsit-ring", ops=()),
}
SYSTEMS: Final = tuple(RECIPES)
DEFAULT_SYSTEMS: Final = (BASELINE, "thc")
ALL_SYSTEMS: Final = ("thc", "marsit", "marsit100", "vote", "ef-sign", "ssdm", "cascade")
"""What `all` stands for, beside the baseline."""


def named(text: str) -> tuple[str, ...]:
    """Systems of a list with commas; `all` stands for those of ALL_SYSTEMS that the list has not named before."""
    names: list[str] = []
    for name in text.split(","):
        names += [one for one in ALL_SYSTEMS if one not in names] if name == "all" else [name]
    return tuple(names)
