# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The entry of a system, which has everything about it in one place: a SystemSpec with a Route for each transport.

:func:`sumwire.systems.make`, docs/systems.md and the lab read the entries. They load no torch: makers and codecs import
it when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
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


def option(meaning: str, default: Any = MISSING) -> Any:
    """Declare a field of :class:`SystemOptions`. ``meaning`` is its text in the docs. An option without a default is
    required."""
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True, kw_only=True)
class SystemOptions:
    """The keywords that `make` takes for one system over one transport: a field made by :func:`option` for each.

    An option is written here only. Its default, its row in docs/systems.md and the lab's flag come from the field.
    """

    @classmethod
    def warm_up_steps(cls, given: Mapping[str, Any]) -> int:
        """Return how many of the first steps take longer with these options. DDP needs two to lay out its buckets."""
        return 2

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the keywords."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def required(cls) -> tuple[str, ...]:
        """Return the keywords without a default."""
        return tuple(field.name for field in fields(cls) if field.default is MISSING)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the keywords that have a default, with their defaults."""
        return {field.name: field.default for field in fields(cls) if field.default is not MISSING}

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """Return the text that explains each keyword."""
        return {field.name: field.metadata["meaning"] for field in fields(cls)}


@dataclass(frozen=True, kw_only=True)
class WithFeedback(SystemOptions):
    """Options of systems with error feedback."""

    error_feedback: bool = option("add what was left out to the next gradients", True)


@dataclass(frozen=True, kw_only=True)
class Seeded(SystemOptions):
    """Options of systems that draw random numbers by a seed."""

    seed: int = option("of shared random numbers; alike on all workers", 1)


@dataclass(frozen=True, slots=True)
class Member:
    """What a codec needs to know about one worker of a job: the job's number, ``worker`` from 0, and the job's THC
    table."""

    job: int
    worker: int
    workers: int
    table: ThcTable | None = None

    @classmethod
    def of(cls, config: JobConfig) -> Member:
        """Return the member that a job description describes."""
        from sumwire.codec.tables import ThcTable

        table = None if config.thc is None else ThcTable.of(config.thc)
        return cls(config.job, config.worker, config.workers, table)


_O = TypeVar("_O", bound=SystemOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Generic[_O]):
    """A system over one transport.

    ``make(name, over, options)`` returns the system; ``over`` is a job, a job's lanes if ``laned``, or a process group.
    The job must have the ``ops``. ``codec(member)`` makes the codec that encodes for it.
    """

    make: Callable[[str, Any, _O], System]
    options: type[_O]
    cost: Cost
    ops: tuple[str, ...] = ()
    codec: Callable[..., GradientCodec] | None = None
    laned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSpec:
    """The entry of one system.

    ``what``: what it sends. ``paper``: its source. ``routes``: by transport, the preferred one first. ``acts``: whether
    it acts in DDP's communication hook, or in the optimizer that `attach` returns. ``keeps``: a worker's state between
    steps. ``limits``: what it cannot do. ``table``: the kind of THC table whose values it adds, which must fit the
    number of workers. ``approximates_mean``: its result estimates the mean gradient with an error, which the lab then
    measures.
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
        """The transports that the system can use, the preferred one first."""
        return tuple(self.routes)

    @property
    def ops(self) -> tuple[str, ...]:
        """Return the ops that a job must have; empty for a system that does not run over a switch."""
        return self.routes[SWITCH].ops if SWITCH in self.routes else ()
