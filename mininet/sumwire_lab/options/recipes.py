# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The systems that a run can compare, and the learning rates that each one trains each task with.

A name is that of a system of the library or of a variant here, and after an @ what it runs over: `switch` (a job:
P4 switches, or the software aggregator) or `group` (torch's process group, gloo). Without it: the switch for
systems that can have one. All else about a system is in its entry in the library (`sumwire.systems.TABLE`).

Learning rates were chosen for each system alone, without a network (docs/lab.md). All of them follow the same
schedule (model.learning_rate_factor), and so does Marsit's global step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sumwire.systems import TABLE
from sumwire.systems.spec import SWITCH, Route, SystemSpec
from sumwire_protocol.ops import OPS

from sumwire_lab.errors import OptionError
from sumwire_lab.options.priority_lanes import BOUNDED, FLAGS, TAGGED
from sumwire_lab.options.tasks import DIGITS, DIGITS_CNN, TEXT

BASELINE: Final = "gloo"
"""S-SGD over the group; `ssgd` is another name of it."""
MOMENTUM: Final = 0.9
PLAIN: Final = "plain"
INNER: Final[Mapping[str, float]] = {PLAIN: 0.0, "momentum": 0.1, "adam": 3e-3}
"""Marsit's local optimizers, with their learning rates. That of plain SGD is in the recipe, with a global step; with
the others the global step follows the local updates."""


@dataclass(frozen=True)
class Rates:
    """The optimizer of a system whose result is not close to the mean gradient: plain SGD, without momentum.

    With momentum, a worker's local updates would differ from the others' for many rounds, and Marsit's compensation
    would keep the difference. Learning rate 1 makes steps of the size that 0.1 makes with momentum 0.9.
    """

    learning_rate: float
    global_lr: float | None = None
    """Marsit's step while the schedule's factor is 1."""


@dataclass(frozen=True)
class Recipe:
    """How one system trains."""

    system: str
    """Its name in `sumwire.systems`."""
    rates: Mapping[str, Rates] | None = None
    """By task; None: the task's own optimizer, as the baseline."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its options that make this variant of it."""
    bounded: bool = False
    """Whether its job has the run's quorum and loss bound, though no lanes."""

    @property
    def spec(self) -> SystemSpec:
        """The library's entry."""
        return TABLE[self.system]

    @property
    def ops(self) -> Mapping[str, tuple[str, ...]]:
        """By transport, the preferred one first: what the job must have; nothing for the group."""
        return {transport: route.ops for transport, route in self.spec.routes.items()}

    @property
    def ranked(self) -> bool:
        """Whether it takes the run's rank."""
        return self._takes("rank")

    @property
    def merges_updates(self) -> bool:
        """Whether it is Marsit: an optimizer of its own makes the local updates, and every K-th round is exact."""
        return self._takes("full_precision_every")

    @property
    def sparse(self) -> bool:
        """Whether it takes the run's share of values."""
        return self._takes("k")

    @property
    def tabled(self) -> bool:
        """Whether it adds values of a table, which has to fit the number of workers."""
        return self.spec.table is not None

    @property
    def uniform(self) -> bool:
        """Whether that table has evenly spaced values."""
        return self.spec.table == "uniform"

    @property
    def estimates_mean(self) -> bool:
        """Whether the result stands for the mean gradient, so that its NMSE means something."""
        return self.spec.approximates_mean

    @property
    def laned(self) -> bool:
        """Whether its tensors go in lanes of their own, with tagged packets and a bound of what may be missing."""
        return any(route.laned for route in self.spec.routes.values())

    @property
    def tagged(self) -> bool:
        """Whether its packets have priorities and drop classes."""
        return self.laned or self._takes("loss_bound")

    @property
    def warm_up_steps(self) -> int:
        """Steps that take other time than later ones."""
        steps: int = self._default_route.options.warm_up_steps(self.options)
        return steps

    @property
    def _default_route(self) -> Route[Any]:
        return next(iter(self.spec.routes.values()))

    def _takes(self, option: str) -> bool:
        return option in self._default_route.options.names()


@dataclass(frozen=True)
class Chosen:
    """A system that a run names, with its transport."""

    name: str
    recipe: Recipe
    transport: str

    @property
    def ops(self) -> tuple[str, ...]:
        """The ops that its job must have; none for a system that needs no job."""
        return self.recipe.ops[self.transport]

    @property
    def switched(self) -> bool:
        """Whether it needs a job."""
        return self.transport == SWITCH

    @property
    def bounded(self) -> bool:
        """Whether its job has the run's quorum and loss bound, though no lanes."""
        return self.recipe.bounded and self.switched

    @property
    def laned_options(self) -> frozenset[str]:
        """Names of the run's options of lanes that it has."""
        if self.recipe.laned:
            return frozenset(FLAGS)
        return (BOUNDED if self.bounded else frozenset()) | (TAGGED if self.recipe.tagged else frozenset())


def _rates(digits: Rates, digits_cnn: Rates, text: Rates) -> dict[str, Rates]:
    return {DIGITS.name: digits, DIGITS_CNN.name: digits_cnn, TEXT.name: text}


_VOTE_RATES: Final = _rates(Rates(2e-3), Rates(1e-3), Rates(2e-3))
_SSDM_RATES: Final = _rates(Rates(3e-2), Rates(1e-2), Rates(1e-3))
_MEAN_SIGN_RATES: Final = _rates(Rates(1.0), Rates(0.5), Rates(0.5))
_MARSIT_RATES: Final = _rates(Rates(1.0, 4.5e-3), Rates(1.0, 4.5e-3), Rates(1.0, 2e-3))

RECIPES: Final[Mapping[str, Recipe]] = {
    BASELINE: Recipe("ssgd"),
    "fp16": Recipe("fp16"),
    # Torch sends whole gradients in the first steps; 2 is the fewest that it allows.
    "powersgd": Recipe("powersgd", options={"start_iter": 2}),
    "topk": Recipe("topk"),
    "topk10": Recipe("topk", options={"k": 0.1}),
    "terngrad": Recipe("terngrad"),
    "acp": Recipe("acp"),
    "acp-thc": Recipe("acp-thc"),
    "thc": Recipe("thc"),
    "thc-uniform": Recipe("thc-uniform"),
    "thc-wide": Recipe("thc-wide"),
    "thc-bounded": Recipe("thc", bounded=True),
    "dlcp": Recipe("dlcp"),
    "sum32": Recipe("sum32"),
    "marsit": Recipe("marsit", _MARSIT_RATES, {"full_precision_every": None}),
    "marsit100": Recipe("marsit", _MARSIT_RATES, {"full_precision_every": 100}),
    "vote": Recipe("vote", _VOTE_RATES),
    "ef-sign": Recipe("ef-sign", _MEAN_SIGN_RATES),
    "ssdm": Recipe("ssdm", _SSDM_RATES),
    "cascade": Recipe("cascade", _SSDM_RATES),
    "cascade-magnitude": Recipe("cascade-magnitude", _MEAN_SIGN_RATES),
    "dlcp-ring": Recipe("dlcp-ring"),
    # The same packets, of which none may be missing.
    "udp-ring": Recipe("dlcp-ring", options={"loss_bound": 0.0}),
    "marsit-ring": Recipe("marsit-ring", _MARSIT_RATES, {"full_precision_every": None}),
    "marsit-torus": Recipe("marsit-torus", _MARSIT_RATES, {"full_precision_every": None}),
}
_ALIASES: Final = {"ssgd": BASELINE}
SYSTEMS: Final = tuple(RECIPES)
SYSTEM_OPS: Final = tuple(op for op in OPS if any(op.name in recipe.ops.get(SWITCH, ()) for recipe in RECIPES.values()))
"""The ops that systems use."""
BENCHED: Final = tuple(name for name, recipe in RECIPES.items() if not recipe.laned and not recipe.bounded)
"""What the benchmark compares: systems of one job, on links without conditions."""
DEFAULT_SYSTEMS: Final = (BASELINE, "thc")
ALL_SYSTEMS: Final = (
    "thc", "marsit", "marsit100", "vote", "ef-sign", "ssdm", "cascade", "fp16", "powersgd", "topk", "sum32", "acp"
)  # fmt: skip
"""What `all` stands for, beside the baseline."""


def parse(name: str) -> Chosen:
    """Return the system of a name such as `thc` or `acp@group`. Raises OptionError for an unknown one."""
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
    """Return the systems of a list with commas, by their shortest names.

    `all` stands for those of ALL_SYSTEMS that are not named before it. Raises OptionError for an unknown system.
    """
    names: list[str] = []
    for name in text.split(","):
        names += [one for one in ALL_SYSTEMS if one not in names] if name == "all" else [parse(name).name]
    return tuple(names)
