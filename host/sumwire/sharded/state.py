# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Means of the gradients of FSDP's units: one communication thread, and the residuals of each unit.

A unit is the parameters of one wrapped module, which FSDP reduces together. The thread carries out exchanges in the
order of the backward pass, which is the same on all ranks. Used by `attaching` and `fsdp2`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn, SupportsIndex

import torch
import torch.distributed as dist
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.futures import Future

from sumwire.checkpoint import OTHER, Content, Place, Saved, refuse_pickling
from sumwire.codec.feedback import ParameterFeedback
from sumwire.codec.tensors import all_finite
from sumwire.errors import UsageError
from sumwire.job.job import Job, Residual
from sumwire.training.all_reduce import DEFAULT, Precision, check_precision, mean_at
from sumwire.training.comm_thread import CommThread, queued, wait_for
from sumwire.training.hierarchical import AnyJob, Mean

_NO_PASS: Final = -1
# From how a worker makes the mean to this rank's shard of it.
_Begun = Callable[[Mean], Tensor]


def over_nodes(ranks: Sequence[int], job: AnyJob) -> bool:
    """Return True if a model is sharded over the ranks of one node, so that nodes are replicas; False if over all
    ranks.

    Raises UsageError for other ranks, and for a job that does not cover all ranks.
    """
    world = dist.get_world_size()
    summands = job.workers if isinstance(job, Job) else job.ranks
    if summands != world:
        raise UsageError(f"a job of {summands} ranks, and {world} in all: sharded models need a job of all ranks")
    if list(ranks) == list(range(world)):
        return False
    node = [dist.get_rank()] if isinstance(job, Job) else job.node.ranks
    if list(ranks) == node:
        return True
    raise UsageError(
        f"sharded over ranks {list(ranks)}: must be all ranks, or those of this node, which are {node} in this job: "
        'give fully_shard a mesh of these; else init_process_group("sumwire")'
    )


@dataclass(frozen=True)
class Unit:
    """One unit. ``number``: its position in the model, equal on all ranks. ``values()``: the number of values in a
    gradient of all its parameters.

    ``shards``: its gradients are this rank's shards, and the mean is taken over the nodes, between shards with the same
    number. Otherwise gradients are whole, and the mean is taken over all ranks.
    """

    name: str
    number: int
    values: Callable[[], int]
    shards: bool


@dataclass(frozen=True)
class UnitExchange:
    """One exchange: a unit's flat gradient ``x``. ``write`` stores its mean, float32, in ``into``."""

    unit: Unit
    x: Tensor
    into: Tensor
    write: Callable[[Tensor], object]


@dataclass
class _Pass:
    """One backward pass: the futures that its end waits for, and its residuals, which are kept all or none."""

    graph: int
    futures: list[Future[Any]] = field(default_factory=list)
    residuals: list[tuple[str, Future[Tensor]]] = field(default_factory=list)
    finite: bool = True


class ShardedState(Saved):
    """The state that :func:`sumwire.sharded.attach` returns: the job, its thread, and the residuals.

    Each unit has one residual, as long as the gradient that this worker compresses: a whole one, or its shards. If a
    node has several ranks, only its first rank has residuals. If a mean of a backward pass has NaN or infinity, the
    residuals of all units stay as they were before that pass.

    `state_dict` has the residuals by the units' names, and the job's state. It can only be loaded with the same number
    of ranks and the same units, since shards would otherwise have other lengths.
    """

    def __init__(
        self,
        job: AnyJob,
        *,
        precision: Precision = DEFAULT,
        error_feedback: bool = True,
        scaler: GradScaler | None = None,
    ) -> None:
        check_precision(precision)
        self.job = job
        self.precision = precision
        self.scaler = scaler
        self.has_feedback = error_feedback
        self._own = job if isinstance(job, Job) else job.job
        self.feedback = ParameterFeedback() if error_feedback and self._own is not None else None
        self._scale: float | None = None
        self._units: dict[str, Unit] = {}
        self._pass: _Pass | None = None
        # Done once the latest residuals are kept.
        self._stored: Future[None] | None = None
        self._thread = CommThread.of(job, f"job {job.config.name if isinstance(job, Job) else job.name}")

    def unit(self, name: str, values: Callable[[], int], *, shards: bool = False) -> Unit:
        """Add a unit. Units are numbered in the order of these calls."""
        made = Unit(name, len(self._units), values, shards)
        self._units[name] = made
        return made

    def exchange(self, exchange: UnitExchange, *, later: bool = False) -> None:
        """Compute the mean and write it: at once, or, with ``later``, by the end of the backward pass.

        Raises the job's errors, and UsageError for a gradient that lacks some of the unit's parameters.
        """
        self._check_whole(exchange)
        passing, inside = self._current_pass()
        filled = queued(exchange.x.device)
        begun = self._begun(exchange) if filled is None else None
        future = self._thread.submit(partial(self._carry_out, exchange, passing, filled, begun), exchange.into.device)
        if later and inside:
            passing.futures.append(future)
            return
        wait_for(future)
        if not inside:
            self._keep(passing)

    def _check_whole(self, exchange: UnitExchange) -> None:
        """Raise UsageError for a gradient without some of the unit's parameters: residuals are matched by position."""
        has, needs = exchange.x.numel(), exchange.unit.values()
        if self.has_feedback and has != needs:
            raise UsageError(
                f"{called(exchange.unit.name)}: a gradient of {has} values, and its parameters have {needs}: some had "
                "none in this pass: call model.set_reduce_scatter_unused_params(True), or "
                "attach(..., error_feedback=False)"
            )

    def _current_pass(self) -> tuple[_Pass, bool]:
        """The current backward pass, and whether there is one. A pass that ended with an error is dropped."""
        graph = torch._C._current_graph_task_id()
        if graph == _NO_PASS:
            return self._begin(graph), False
        if self._pass is None or self._pass.graph != graph:
            self._pass = begun = self._begin(graph)
            torch.autograd.Variable._execution_engine.queue_callback(lambda: self._end(begun))
        return self._pass, True

    def _end(self, passing: _Pass) -> None:
        for future in passing.futures:
            wait_for(future)
        self._keep(passing)

    def _keep(self, passing: _Pass) -> None:
        """Keep the pass's residuals once the thread has computed them."""
        self._pass = None
        if self.feedback is not None:
            self._stored = self._thread.submit(partial(self._store, passing, self.feedback))

    def _store(self, passing: _Pass, feedback: ParameterFeedback) -> None:
        for name, made in passing.residuals if passing.finite else ():
            residual = made.value()
            feedback.store(((name, residual.numel()),), residual)

    def _begin(self, graph: int) -> _Pass:
        """Begin a pass. Raises the error of computing residuals in the pass before."""
        if self._stored is not None and self._stored.done():
            self._stored.value()
        self._follow_scale()
        return _Pass(graph)

    def _follow_scale(self) -> None:
        scale = None if self.scaler is None else self.scaler.get_scale()
        if self.feedback is not None and scale is not None and self._scale is not None and scale != self._scale:
            self._thread.submit(partial(self.feedback.rescale, scale / self._scale))
        self._scale = scale

    def _begun(self, exchange: UnitExchange) -> _Begun | None:
        """Start sending a node's shards to its first rank, while earlier means are in the network.

        Returns None if other units sum within the node: the thread makes their calls, in any order between these.
        """
        if isinstance(self.job, Job) or not all(unit.shards for unit in self._units.values()):
            return None
        return self.job.mean_of_shards(exchange.x.detach())

    def _carry_out(
        self, exchange: UnitExchange, passing: _Pass, filled: torch.cuda.Event | None, begun: _Begun | None
    ) -> Tensor:
        if filled is not None:
            filled.synchronize()
        make = partial(self._through, exchange.unit, passing)
        with torch.no_grad():
            exchange.write(self._mean(exchange, make) if begun is None else begun(make))
        return exchange.into

    def _mean(self, exchange: UnitExchange, make: Mean) -> Tensor:
        x = exchange.x.detach()
        if isinstance(self.job, Job):
            return make(self.job, x)[0]
        return self.job.mean_of_shards(x)(make) if exchange.unit.shards else self.job.mean(x, make)[0]

    def _through(self, unit: Unit, passing: _Pass, job: Job, x: Tensor) -> tuple[Tensor, Residual]:
        """Return the mean over the workers, and the function for this worker's residual."""
        given = x if self.feedback is None else self.feedback.compensate(x, ((unit.name, x.numel()),))
        mean, residual = mean_at(self.precision, job, given, unit.number)
        if self.feedback is None:
            return mean, residual
        if not all_finite(mean):
            passing.finite = False
        elif passing.finite:
            # The backward pass waits for the mean only, and the next one needs the residual.
            passing.residuals.append((unit.name, self._thread.submit(residual)))
        return mean, residual

    def settle(self) -> None:
        """Wait until the residuals of the last backward pass are kept."""
        if self._stored is not None:
            wait_for(self._stored)

    def place(self) -> Place:
        """Return this rank's place. Several ranks may share a worker."""
        return Place.here()

    def kept(self) -> Content:
        self.settle()
        feedback = Content() if self.feedback is None else self.feedback.kept()
        own = Content(feedback.residuals, {"units": self._layout(), "scale": self._scale})
        return Content.joined({"sharded": own} if self._own is None else {"sharded": own, "job": self._own.kept()})

    def restore(self, content: Content, /) -> None:
        own = content.part("sharded", self.kind())
        saved, here = [list(one) for one in own.rest["units"]], [list(one) for one in self._layout()]
        if saved != here:
            raise UsageError(
                f"state of {self.kind()}: saved with units {_shown(saved)}, here they are {_shown(here)} (values a "
                f"gradient): {OTHER} and as many ranks, or begin without it"
            )
        if self._own is not None:
            self._own.restore(content.part("job", self.kind()))
        self.settle()
        self._scale = own.rest["scale"]
        if self.feedback is not None:
            self.feedback.restore(Content(own.residuals))

    def _layout(self) -> list[tuple[str, int, int]]:
        """(name, values, ranks) of every unit."""
        return [(unit.name, unit.values(), dist.get_world_size()) for unit in self._units.values()]

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_pickling(self, "a job and a thread")

    def close(self) -> None:
        """Wait for all exchanges, and end the job's thread if nothing else uses it. Closing the job ends it too."""
        self._thread.close()


def called(name: str) -> str:
    """Return the name that messages give a unit: that of its module."""
    return f"unit {name}" if name else "the whole model"


def _shown(units: list[list[Any]]) -> str:
    return ", ".join(f"{name or 'model'}: {values} on {ranks} ranks" for name, values, ranks in units) or "none"
