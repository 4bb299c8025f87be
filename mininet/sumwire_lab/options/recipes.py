# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The systems that a run can compare, and how each one trains each task: its place in the library, its optimizer.

A name is that of a system of the library, or of a variant here, and after an @ what it goes through: `switch` (a job:
P4 switches, or the software aggregator) or `group` (torch's process group, gloo). Without it: the switch for
systems that can have one.

Learning rates were chosen one system at a time, without a network between (docs/lab.md). All of them follow the same
schedule (model.learning_rate_factor), and so does Marsit's global step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sumwire_protocol.ops import OPS

from sumwire_lab.errors import OptionError
from sumwire_lab.options.tasks import DIGITS, DIGITS_CNN, TEXT

BASELINE: Final = "gloo"
"""S-SGD over the group; `ssgd` is taken as the same."""
SWITCH: Final = "switch"
GROUP: Final = "group"
MOMENTUM: Final = 0.9
BITS_MAX: Final = 4
# A slot's sum has 8 planes.
SUM_MAX: Final = 255
GRANULARITY_DEFAULT: Final = 30
# Torch's Power-SGD sends whole gradients in its first steps.
POWERSGD_START: Final = 2


@dataclass(frozen=True)
class Rates:
    """The optimizer of a system whose result is no mean gradient, or hardly one: plain SGD, without momentum.

    With momentum the local updates of one worker differ from the others' for many rounds, and Marsit's compensation
    keeps it. Learning rate 1 makes steps of the size that momentum 0.9 makes of 0.1.
    """

    learning_rate: float
    global_lr: float | None = None
    """Marsit's step where the schedule is at 1."""


@dataclass(frozen=True)
class Recipe:
    """How one system trains."""

    system: str
    """Its name in `sumwire.systems`."""
    ops: Mapping[str, tuple[str, ...]]
    """By transport: what the job must have; nothing for the group."""
    rates: Mapping[str, Rates] | None = None
    """By task; None: the task's own optimizer, as the baseline."""
    options: Mapping[str, Any] = field(default_factory=dict)
    ranked: bool = False
    """Takes the run's rank."""
    sparse: bool = False
    """Takes the run's share of values."""
    tabled: bool = False
    """Adds values of a table, which has to fit the number of workers."""
    uniform: bool = False
    """That table has evenly spaced values."""
    estimates_mean: bool = False
    """The result stands for the mean gradient, so its NMSE means something."""
    laned: bool = False
    """Its tensors go in lanes of their own, with tagged packets and a bound of what may be missing."""
    warm_up_steps: int = 2
    """Steps that are not like the others: in the first two, DDP lays out its buckets."""


@dataclass(frozen=True)
class Chosen:
    """A system that a run names, with its transport."""

    name: str
    recipe: Recipe
    transport: str

    @property
    def ops(self) -> tuple[str, ...]:
        """What its job must have; none for systems that need no switch."""
        return self.recipe.ops[self.transport]

    @property
    def switched(self) -> bool:
        """Whether it needs a job."""
        return self.transport == SWITCH


_THC: Final = ("thc", "max32")
_SUM32: Final = ("sum32", "max32")
_SIGN: Final = ("sign", "max32")
_VOTE: Final = ("vote", "max32")
_MARSIT: Final = ("sign", "sum32", "max32")


def _rates(digits: Rates, digits_cnn: Rates, text: Rates) -> dict[str, Rates]:
    return {DIGITS.name: digits, DIGITS_CNN.name: digits_cnn, TEXT.name: text}


_VOTE_RATES: Final = _rates(Rates(2e-3), Rates(1e-3), Rates(2e-3))
_SSDM_RATES: Final = _rates(Rates(1e-2), Rates(1e-2), Rates(1e-3))
_MEAN_SIGN_RATES: Final = _rates(Rates(1.0), Rates(0.5), Rates(0.5))
_MARSIT_RATES: Final = _rates(Rates(1.0, 4.5e-3), Rates(1.0, 4.5e-3), Rates(1.0, 2e-3))


def _both(ops: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {SWITCH: ops, GROUP: ()}


def _marsit(system: str, ops: Mapping[str, tuple[str, ...]], every: int | None) -> Recipe:
    return Recipe(system, ops, _MARSIT_RATES, options={"full_precision_every": every})


_ONLY_GROUP: Final[Mapping[str, tuple[str, ...]]] = {GROUP: ()}
RECIPES: Final[Mapping[str, Recipe]] = {
    BASELINE: Recipe("ssgd", _ONLY_GROUP),
    "fp16": Recipe("fp16", _ONLY_GROUP, estimates_mean=True),
    "powersgd": Recipe(
        "powersgd",
        _ONLY_GROUP,
        options={"start_iter": POWERSGD_START},
        ranked=True,
        estimates_mean=True,
        # Its first compressed step, too, makes the factors that the later ones use again.
        warm_up_steps=POWERSGD_START + 1,
    ),
    "topk": Recipe("topk", _ONLY_GROUP, sparse=True, estimates_mean=True),
    "acp": Recipe("acp", _both(_SUM32), ranked=True),
    "acp-thc": Recipe("acp-thc", _both(_THC), ranked=True, tabled=True),
    "thc": Recipe("thc", _both(_THC), tabled=True, estimates_mean=True),
    "thc-uniform": Recipe("thc-uniform", _both(_THC), tabled=True, uniform=True, estimates_mean=True),
    "dlcp": Recipe("dlcp", {SWITCH: _THC}, tabled=True, estimates_mean=True, laned=True),
    "sum32": Recipe("sum32", {SWITCH: _SUM32}, estimates_mean=True),
    "marsit": _marsit("marsit", {SWITCH: _MARSIT}, None),
    "marsit100": _marsit("marsit", {SWITCH: _MARSIT}, 100),
    "vote": Recipe("vote", _both(_VOTE), _VOTE_RATES),
    "ef-sign": Recipe("ef-sign", _both(_SIGN), _MEAN_SIGN_RATES, estimates_mean=True),
    "ssdm": Recipe("ssdm", {SWITCH: _SIGN}, _SSDM_RATES),
    "cascade": Recipe("cascade", _ONLY_GROUP, _MEAN_SIGN_RATES, estimates_mean=True),
    "marsit-ring": _marsit("marsit-ring", _ONLY_GROUP, None),
}
_ALIASES: Final = {"ssgd": BASELINE}
SYSTEMS: Final = tuple(RECIPES)
SYSTEM_OPS: Final = tuple(op for op in OPS if any(op.name in recipe.ops.get(SWITCH, ()) for recipe in RECIPES.values()))
"""The ops that systems use."""
BENCHED: Final = tuple(name for name, recipe in RECIPES.items() if not recipe.laned)
"""What the benchmark compares: systems of one job, on links without conditions."""
DEFAULT_SYSTEMS: Final = (BASELINE, "thc")
ALL_SYSTEMS: Final = (
    "thc", "marsit", "marsit100", "vote", "ef-sign", "ssdm", "cascade", "fp16", "powersgd", "topk", "sum32", "acp"
)  # fmt: skip
"""What `all` stands for, beside the baseline."""


def table_options(recipe: Recipe, workers: int) -> dict[str, int]:
    """Of the recipe's table for as many workers: 4 bits and granularity 30, or less where the sums would overflow."""
    granularity = min(GRANULARITY_DEFAULT, SUM_MAX // workers)
    bits = min(BITS_MAX, (granularity + 1).bit_length() - 1)
    return {"bits": bits} if recipe.uniform else {"bits": bits, "granularity": granularity}


def parse(name: str) -> Chosen:
    """`thc`, `acp@group` and so on. Raises OptionError for an unknown system or transport."""
    short, at, transport = name.partition("@")
    short = _ALIASES.get(short, short)
    if short not in RECIPES:
        raise OptionError(f"systems={name}: known are {', '.join(SYSTEMS)}")
    recipe = RECIPES[short]
    default = next(iter(recipe.ops))
    if at and transport not in recipe.ops:
        known = ", ".join(f"{short}@{one}" for one in recipe.ops)
        raise OptionError(f"systems={name}: {short} goes as {known}")
    used = transport or default
    return Chosen(short if used == default else f"{short}@{used}", recipe, used)


def named(text: str) -> tuple[str, ...]:
    """Systems of a list with commas, by their shortest names; `all` stands for those of ALL_SYSTEMS that the list has
    not named before. Raises OptionError."""
    names: list[str] = []
    for name in text.split(","):
        names += [one for one in ALL_SYSTEMS if one not in names] if name == "all" else [parse(name).name]
    return tuple(names)
