# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the entry of a system says: everything about it in one place.

Entries are read by :func:`sumwire.systems.make`, by docs/systems.md and by the lab. They load no torch: makers and
codecs import it when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from sumwire.systems.cost import Cost

if TYPE_CHECKING:
    from sumwire.codec.base import GradientCodec
    from sumwire.codec.tables import ThcTable
    from sumwire.config import JobConfig
    from sumwire.systems.system import System

SWITCH: Final = "switch"
GROUP: Final = "group"
AUTO: Final = "auto"
TRANSPORTS: Final = (SWITCH, GROUP)

# Meanings of the options that systems have, in the order of the docs.
MEANINGS: Final[Mapping[str, str]] = {
    "error_feedback": "add what was left out to the next gradients",
    "early_forward": "make the step piece by piece, as the next forward pass needs it",
    "scale": "what a sign stands for",
    "momentum": "share of a worker's momentum that stays for the next step, from 0 to below 1",
    "k": "fraction of a bucket's values that is sent, above 0 and at most 1",
    "rank": "columns of the factors; a matrix with a smaller side has so many",
    "min_compression": "a matrix is compressed if its factors are smaller by more than this",
    "start_iter": "steps with whole gradients before, 2 or more",
    "seed": "of shared random numbers; alike on all workers",
    "accumulation": "backward passes a step; None if not known beforehand",
    "threshold_bytes": "of uncompressed gradient that shares a buffer; None tries several sizes in the first steps",
    "reuse": "take the basis from the last result, instead of drawing it in every step",
    "bits": "of an index, 1 to 4",
    "granularity": "largest table value; times n at most 255; None for the best one",
    "p": "fraction of values that is clipped",
    "global_lr": "step of a sign, or a function of the round; None: follows the local updates",
    "full_precision_every": "rounds; None for never",
    "lead": "weight of the new update in the signs; 1 as published",
    "rows": "of the torus; divides n",
    "loss_bound": "share of a tensor's contributions that may be missing, from 0 to below 1; alike on all workers",
    "address": "of this worker, IPv4; None for that on the way to MASTER_ADDR",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The keywords that `make` takes for one system over one transport, with their defaults.

    A field without default must be given. ``MEANINGS`` explains every field.
    """

    @classmethod
    def warm_up_steps(cls, given: Mapping[str, Any]) -> int:
        """First steps that take longer, if these keywords are given. DDP lays out its buckets in the first two."""
        return 2

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The keywords."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def required(cls) -> tuple[str, ...]:
        """The keywords without default."""
        return tuple(field.name for field in fields(cls) if _is_required(field))

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The other keywords with their defaults."""
        return {field.name: field.default for field in fields(cls) if not _is_required(field)}


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING


@dataclass(frozen=True, slots=True)
class Member:
    """One worker of a job, as its codec must know it. ``worker`` counts from 0; ``table`` is the job's THC table."""

    job: int
    worker: int
    workers: int
    table: ThcTable | None = None

    @classmethod
    def of(cls, config: JobConfig) -> Member:
        """The worker of a job description. Its THC table is left out: the job itself applies it."""
        return cls(config.job, config.worker, config.workers)


_O = TypeVar("_O", bound=Options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Generic[_O]):
    """A system over one transport.

    ``make(name, over, options)`` gives the system; ``over`` is a job, a job's lanes if ``laned``, or a process group.
    ``ops`` are those that the job must have, ``codec`` the codec that encodes for it.
    """

    make: Callable[[str, Any, _O], System]
    options: type[_O]
    cost: Cost
    ops: tuple[str, ...] = ()
    codec: Callable[[Member], GradientCodec] | None = None
    laned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSpec:
    """The entry of one system.

    ``what`` travels, ``paper`` it is from, ``routes`` by transport with the preferred one first. ``acts``: in DDP's
    communication hook, or in the optimizer that `attach` returns. ``keeps``: state of a worker between steps.
    ``limits``: what it cannot do. ``table``: the kind of THC table whose values it adds, which must fit the number of
    workers. ``approximates_mean``: its result stands for the mean gradient and differs from it, so that the distance is
    worth measuring.
    """

    what: str
    paper: str
    routes: Mapping[str, Route[Any]]
    acts: Literal["hook", "optimizer"] = "hook"
    keeps: str = "nothing"
    limits: str = ""
    table: Literal["solved", "uniform"] | None = None
    approximates_mean: bool = False

    @property
    def transports(self) -> tuple[str, ...]:
        """What it runs over, the preferred one first."""
        return tuple(self.routes)

    @property
    def ops(self) -> tuple[str, ...]:
        """What a job must have; empty for a system that does not run over a switch."""
        return self.routes[SWITCH].ops if SWITCH in self.routes else ()
