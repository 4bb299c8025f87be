# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The tasks that a run can train, the systems that it can compare, and their options and learning rates.

A name is that of a system of the library or of a variant defined here. After an @ it may name the transport: `switch`
(a job: P4 switches, or the software aggregator) or `group` (torch's process group, gloo). Without it, systems that can
use a switch do so. Everything else about a system is in its entry in the library (`sumwire.systems.TABLE`).

Learning rates were chosen for each system alone, without a network (docs/lab.md). All of them follow the same schedule
(model.learning_rate_factor), and so does Marsit's global step.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from functools import cache
from typing import Any, Final, get_type_hints

from sumwire.systems import TABLE
from sumwire.systems.spec import SWITCH, Route, SystemSpec
from sumwire.systems.table import MEANINGS
from sumwire_protocol.ops import OPS
from sumwire_protocol.tables import DEFAULT_BITS, P_LEAST, SUM_MAX, can_clip

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fields import Checked, Rule, at_least, between, flags_of, from_arguments, option
from sumwire_lab.options.priority_lanes import BOUNDED, TAGGED, flags


@dataclass(frozen=True)
class TrainingTask:
    """The defaults of one task; `TrainOptions` explains the fields that a run can change."""

    name: str
    title: str
    """Model and data, for reports."""
    target: float
    """Test accuracy, 0 to 1, to reach: the run records the time to it."""
    epochs: int
    batch: int
    hidden: int
    max_steps: int | None
    adam: bool
    """Whether mean gradients are applied by AdamW; else by SGD with Nesterov momentum."""
    learning_rate: float
    """Learning rate of systems that aggregate the mean gradient. The recipes of the others have their own."""
    weight_decay: float
    rank: int
    """Rank of the low-rank systems."""
    evaluate_every: int = 1
    """Steps between two evaluations of the test accuracy."""


DIGITS: Final = TrainingTask(
    "digits",
    "MLP on handwritten digits",
    target=0.95,
    epochs=10,
    batch=32,
    hidden=1024,
    max_steps=None,
    adam=False,
    learning_rate=0.1,
    weight_decay=1e-4,
    rank=4,
)
DIGITS_CNN: Final = TrainingTask(
    "digits-cnn",
    "convolutional network on handwritten digits",
    target=0.96,
    epochs=20,
    batch=64,
    hidden=256,
    max_steps=None,
    adam=False,
    learning_rate=0.05,
    weight_decay=1e-4,
    rank=4,
)
TEXT: Final = TrainingTask(
    "text",
    "character transformer on Python's own help texts",
    target=0.42,
    epochs=10,
    batch=4,
    hidden=192,
    max_steps=150,
    adam=True,
    learning_rate=3e-3,
    weight_decay=0.0,
    rank=16,
    evaluate_every=10,
)
TASKS: Final[Mapping[str, TrainingTask]] = {task.name: task for task in (DIGITS, DIGITS_CNN, TEXT)}
DEFAULT_TASK: Final = DIGITS.name


# -- systems -------------------------------------------------------------------------------------------

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
    """Learning rates by task. None: the task's own optimizer, as the baseline has it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its options that make this variant of it."""
    bounded: bool = False
    """Whether its job has the run's quorum and loss bound, though no lanes."""

    @property
    def spec(self) -> SystemSpec:
        """The library's entry for the system."""
        return TABLE[self.system]

    @property
    def ops(self) -> Mapping[str, tuple[str, ...]]:
        """The ops that the job must have, by transport. The preferred transport is first; the group needs no ops."""
        return {transport: route.ops for transport, route in self.spec.routes.items()}

    @property
    def merges_updates(self) -> bool:
        """Whether it is Marsit: a local optimizer makes updates, which are merged, and every K-th round is exact."""
        return self._has("full_precision_every")

    @property
    def tabled(self) -> bool:
        """Whether it adds values of a table, which must fit the number of workers."""
        return self.spec.table is not None

    @property
    def uniform(self) -> bool:
        """Whether the system's table has evenly spaced values."""
        return self.spec.table == "uniform"

    @property
    def estimates_mean(self) -> bool:
        """Whether the result approximates the mean gradient, so that its NMSE is meaningful."""
        return self.spec.approximates_mean

    @property
    def laned(self) -> bool:
        """Whether its tensors use separate lanes, with tagged packets and a bound on what may be missing."""
        return any(route.laned for route in self.spec.routes.values())

    @property
    def tagged(self) -> bool:
        """Whether the system's packets have priorities and drop classes."""
        return self.laned or self._has("loss_bound")

    @property
    def warm_up_steps(self) -> int:
        """Number of first steps whose time differs from that of later ones."""
        steps: int = self._default_route.options.warm_up_steps(self.options)
        return steps

    @property
    def _default_route(self) -> Route[Any]:
        return next(iter(self.spec.routes.values()))

    def _has(self, option: str) -> bool:
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
        """Whether the system needs a job."""
        return self.transport == SWITCH

    @property
    def bounded(self) -> bool:
        """Whether its job has the run's quorum and loss bound, but no lanes."""
        return self.recipe.bounded and self.switched

    @property
    def hooked(self) -> bool:
        """Whether its gradients go through DDP's hook, bucket by bucket."""
        return self.recipe.spec.acts == "hook"

    def has(self, option: str) -> bool:
        """Return whether the library's system has this option over this transport."""
        return option in self.recipe.spec.routes[self.transport].options.names()

    def takes(self, option: str) -> bool:
        """Return whether an option of a system, by the library's name, changes its behaviour in a run. An option that
        the system's name already fixes (`topk10`) does not."""
        if option in self.recipe.options and option not in _CHANGED:
            return False
        return self.has(option) or (option in TABLED and self.recipe.tabled and self.switched)

    @property
    def laned_options(self) -> frozenset[str]:
        """Names of the run's lane options that the system has."""
        if self.recipe.laned:
            return frozenset(flags())
        return (BOUNDED if self.bounded else frozenset()) | (TAGGED if self.recipe.tagged else frozenset())


def _rates(digits: Rates, digits_cnn: Rates, text: Rates) -> dict[str, Rates]:
    return {DIGITS.name: digits, DIGITS_CNN.name: digits_cnn, TEXT.name: text}


_VOTE_RATES: Final = _rates(Rates(2e-3), Rates(1e-3), Rates(2e-3))
_SSDM_RATES: Final = _rates(Rates(3e-2), Rates(1e-2), Rates(1e-3))
_MEAN_SIGN_RATES: Final = _rates(Rates(1.0), Rates(0.5), Rates(0.5))
_PUBLISHED: Final = {"rule": "published"}
_MARSIT_RATES: Final = _rates(Rates(1.0, 4.5e-3), Rates(1.0, 4.5e-3), Rates(1.0, 2e-3))

# Torch's docs advise to begin with a tenth of the steps: about as many in each task with four workers.
_ADVISED: Final = 10

RECIPES: Final[Mapping[str, Recipe]] = {
    BASELINE: Recipe("ssgd"),
    "fp16": Recipe("fp16"),
    "bf16": Recipe("bf16"),
    # Torch sends whole gradients in the first steps; 2 is the fewest that it allows.
    "powersgd": Recipe("powersgd", options={"start_iter": 2}),
    **{f"powersgd{rank}": Recipe("powersgd", options={"start_iter": _ADVISED, "rank": rank}) for rank in (1, 4)},
    "topk": Recipe("topk"),
    "topk10": Recipe("topk", options={"k": 0.1}),
    "terngrad": Recipe("terngrad"),
    "acp": Recipe("acp"),
    "acp-thc": Recipe("acp-thc"),
    "thc": Recipe("thc"),
    "thc-unbiased": Recipe("thc-unbiased"),
    "thc-uniform": Recipe("thc-uniform"),
    "thc-wide": Recipe("thc-wide"),
    "naive4": Recipe("naive4"),
    "thc-bounded": Recipe("thc", bounded=True),
    "dlcp": Recipe("dlcp"),
    "sum32": Recipe("sum32"),
    "marsit": Recipe("marsit", _MARSIT_RATES, {**_PUBLISHED, "full_precision_every": None}),
    "marsit100": Recipe("marsit", _MARSIT_RATES, {**_PUBLISHED, "full_precision_every": 100}),
    # The library's default, around the task's own optimizer. Its rule has no lead, so a run cannot give it one.
    "marsit-adaptive": Recipe("marsit", options={"rule": "adaptive", "full_precision_every": 100, "lead": None}),
    "vote": Recipe("vote", _VOTE_RATES),
    "ef-sign": Recipe("ef-sign", _MEAN_SIGN_RATES),
    "ssdm": Recipe("ssdm", _SSDM_RATES),
    "cascade": Recipe("cascade", _SSDM_RATES),
    "cascade-magnitude": Recipe("cascade-magnitude", _MEAN_SIGN_RATES),
    "dlcp-ring": Recipe("dlcp-ring"),
    # The same packets, of which none may be missing.
    "udp-ring": Recipe("dlcp-ring", options={"loss_bound": 0.0}),
    "marsit-ring": Recipe("marsit-ring", _MARSIT_RATES, {**_PUBLISHED, "full_precision_every": None}),
    "marsit-torus": Recipe("marsit-torus", _MARSIT_RATES, {**_PUBLISHED, "full_precision_every": None}),
}
_ALIASES: Final = {"ssgd": BASELINE, "gloo-fp16": "fp16", "gloo-bf16": "bf16"}
SYSTEMS: Final = tuple(RECIPES)
SYSTEM_OPS: Final = tuple(op for op in OPS if any(op.name in recipe.ops.get(SWITCH, ()) for recipe in RECIPES.values()))
"""The ops that systems use."""
BENCHED: Final = tuple(name for name, recipe in RECIPES.items() if not recipe.laned and not recipe.bounded)
"""What the benchmark compares: systems of one job, on links without conditions."""
BASELINES: Final = (
    BASELINE, "fp16", "bf16", "powersgd", "powersgd1", "powersgd4", "topk", "topk10", "terngrad", "naive4",
)  # fmt: skip
"""What Sumwire's systems are compared with: torch's hooks and methods of others over the group, and naive quantization
over the same switch."""
DEFAULT_SYSTEMS: Final = (BASELINE, "thc")
ALL_SYSTEMS: Final = (
    "thc", "marsit", "marsit100", "marsit-adaptive", "vote", "ef-sign", "ssdm", "cascade", "fp16", "bf16", "powersgd",
    "powersgd1", "powersgd4", "topk", "naive4", "sum32", "acp",
)  # fmt: skip
"""What `all` stands for, beside the baseline."""


# -- options of systems, as the library has them --------------------------------------------------------

TABLED: Final = ("bits", "granularity", "p")
"""Options of THC's table. Over a switch the job's table has them."""
# Recipes set these, and a run may set them otherwise.
_CHANGED: Final = frozenset({"full_precision_every", "start_iter"})
# The run sets these itself: by its seed, its workers, its schedule, its buckets and its lanes.
_OF_THE_RUN: Final = frozenset(
    {"seed", "rows", "address", "global_lr", "threshold_bytes", "accumulation", "loss_bound", "early_forward"}
)
# Flags that have another name than the library's option.
_FLAGS: Final = {"k": "share", "p": "clip", "error_feedback": "no-feedback"}
_RULES: Final[Mapping[str, Rule]] = {
    "rank": at_least(1),
    "k": Rule(lambda value: 0 < value <= 1, "must be above 0 and at most 1"),
    "bits": between(1, DEFAULT_BITS, f"must be 1..{DEFAULT_BITS}"),
    "granularity": between(1, SUM_MAX, f"must be 1..{SUM_MAX}"),
    "p": Rule(can_clip, f"a share is above 0 and below 1, and no less than {P_LEAST:g}"),
    "full_precision_every": at_least(0, "must be at least 1, or 0 for never"),
}


def takers_of(option: str) -> list[str]:
    """Return the systems that take an option of the library, over at least one of their transports."""
    return [
        name
        for name, recipe in RECIPES.items()
        if any(Chosen(name, recipe, transport).takes(option) for transport in recipe.ops)
    ]


@cache
def settings_class() -> type:
    """Return a dataclass with a field for every option of a system that a run may set, None for the system's own value.

    The fields come from the library's table, so a new option there is also one of `run`.
    """
    hints = {
        name: kind
        for spec in TABLE.values()
        for route in spec.routes.values()
        for name, kind in get_type_hints(route.options).items()
    }
    made = []
    for name, meaning in MEANINGS.items():
        takers = takers_of(name)
        if name in _OF_THE_RUN or not takers:
            continue
        switch = hints[name] is bool
        told = f"{', '.join(takers)}: {'do not ' if switch else ''}{meaning}"
        rule, flag = _RULES.get(name), _FLAGS.get(name, "")
        field_ = option(True if switch else None, told, flag=flag, rule=rule, shown="default: the system's own")
        made.append((name, hints[name] if switch else hints[name] | None, field_))
    return make_dataclass("SystemSettings", made, bases=(Checked,), frozen=True)


def settings_of(arguments: Namespace) -> dict[str, Any]:
    """Return the systems' options from a command line, by the library's names. Raises OptionError."""
    given = vars(from_arguments(settings_class(), arguments))
    return {name: value for name, value in given.items() if value not in (None, True)}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise OptionError for an option that no system takes, and for a value that breaks its rule."""
    known = {flag.field.name: flag for flag in flags_of(settings_class())}
    for name, value in settings.items():
        if name not in known:
            raise OptionError(f"{name}={value}: no system takes it; known are {', '.join(known)}")
        rule = known[name].option.rule
        if rule is not None:
            rule.check(known[name].name, value)


def parse(name: str) -> Chosen:
    """Return the system with a name such as `thc` or `acp@group`. Raises OptionError for an unknown one."""
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

    `all` stands for ALL_SYSTEMS. A repeated system counts at its first place only. Raises OptionError for an unknown
    one.
    """
    names: dict[str, None] = {}
    for name in text.split(","):
        names |= dict.fromkeys(ALL_SYSTEMS if name == "all" else (parse(name).name,))
    return tuple(names)
