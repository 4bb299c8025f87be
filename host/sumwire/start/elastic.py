# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Training whose ranks come and go, with torchft's quorum and recovery, and Sumwire's sums (docs/elastic.md).

    import sumwire

    training = sumwire.elastic(model, optimizer)             # each rank by itself: no torchrun, no process group
    while training.step < 1000:
        training.begin()                                     # who takes part: training.rank of training.ranks
        rows = batch(training.step)[training.rank :: training.ranks]
        loss(training.model(inputs[rows]), labels[rows]).backward()
        training.commit()                                    # False: the same step again, with those who are left

torchft's lighthouse says before each step who takes part. If that has changed, the members of the quorum leave their
job and make another run of it, for which each keeps its worker. A step counts once all of them have voted for it: the
vote is the last sum of the step, so it needs all contributions. If a rank is killed before, no survivor applies the
step, and each takes back its residuals.

One case is left: the vote's result reaches some ranks and not others. Those without it do not apply the step, and are
one step behind. torchft then brings them the model of the others. Their contribution is in it, so the residual that it
has left is theirs too. They recognise the case by the quorum in which the others made their last step.

A residual is what the model still gets from this rank's own gradients. So a new rank begins with zeros: a copy of a
peer's would count twice. The residual of a killed rank is lost.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import torch
from sumwire_protocol.events import Event
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from sumwire.checkpoint import Content
from sumwire.errors import RecreateError, SumwireError
from sumwire.job.gloo import first_clause
from sumwire.job.job import Job, Residual
from sumwire.start.errors import PlaceError, ServiceError
from sumwire.start.quorum import (
    LIGHTHOUSE_PORT,
    SILENCE,
    ElasticGroup,
    claimed,
    group_of_one,
    needing_torchft,
    transport_at,
)
from sumwire.start.rank_placement import SERVICE, WAIT_S
from sumwire.start.reach import check_reach
from sumwire.start.script import check_options
from sumwire.start.service import beside, first_of
from sumwire.training.all_reduce import all_reduce
from sumwire.training.ddp import DdpState, ddp_hook

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore
else:
    from torch.distributed import TCPStore

_LOG: Final = logging.getLogger("sumwire")
LIGHTHOUSE: Final = "TORCHFT_LIGHTHOUSE"
# Torchft's own limit, so for a model on its way to a new rank. Where the sender is killed, that ends at once.
_TRANSFER: Final = timedelta(minutes=10)
# Steps in a row that come to nothing. More have another cause than ranks that come and go.
_FAILURES_MOST: Final = 10


class Stateful(Protocol):
    """An object with a state that a new rank needs, such as a scheduler of learning rates."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""

    def load_state_dict(self, state: dict[str, Any], /) -> Any:
        """Continue from a state."""


def elastic(
    model: nn.Module,
    optimizer: Optimizer,
    *,
    also: Mapping[str, Stateful] | None = None,
    service: str | None = None,
    wait_s: float = WAIT_S,
    **options: Any,
) -> Elastic:
    """Return this rank's part in a training whose ranks come and go. Each rank calls it by itself, at any time.

    The job is that of `sumwire up --elastic`, at ``service`` or SUMWIRE_SERVICE, or beside MASTER_ADDR; the lighthouse
    is on the service's machine, or at TORCHFT_LIGHTHOUSE. ``model``: not wrapped yet, on its device.
    ``also``: by name, what else a new rank needs the state of. ``wait_s``: seconds to wait for a service that is not
    running yet, and in each step for enough ranks. ``options``: those of :class:`sumwire.Job`, equal on all ranks.

    Raises StartError without torchft, ServiceError without a service, PlaceError where the job is not elastic or has no
    free worker on this machine, and ReachError.
    """
    if "aggregator" in options:
        raise PlaceError(
            f"aggregator = {options['aggregator']!r} with elastic: must be left out, since it ends with rank 0, and "
            "any rank may end: start `sumwire up --hosts A,B --elastic 1` beside the ranks, and set SUMWIRE_SERVICE"
        )
    check_options(options, elastic)
    with needing_torchft():
        from torchft import Manager
    given = service or os.environ.get(SERVICE) or os.environ.get("MASTER_ADDR")
    if given is None:
        raise ServiceError(f"no service is known: start `sumwire up --hosts A,B --elastic 1`, and set {SERVICE} to it")
    found, description = first_of(beside(given), wait_s, _LOG.warning)
    config, place = claimed(description)
    own = config.own_address.ip
    try:
        check_reach(config, found)
        group = ElasticGroup(config, options)
        # Of this rank alone: torchft names it to the others.
        store = TCPStore(own, 0, is_master=True, wait_for_workers=False)
        training = Elastic(model, optimizer, group, also=also or {}, alone=group_of_one())
        manager = Manager(
            pg=group, load_state_dict=training.load, state_dict=training.saved, min_replica_size=config.workers_min,
            use_async_quorum=False, timeout=_TRANSFER, quorum_timeout=timedelta(seconds=wait_s),
            connect_timeout=SILENCE, rank=0, world_size=1, store_addr=own, store_port=store.port, hostname=own,
            lighthouse_addr=os.environ.get(LIGHTHOUSE) or f"http://{found.host}:{LIGHTHOUSE_PORT}",
            replica_id=f"worker{config.worker}", checkpoint_transport=transport_at(own, _TRANSFER),
        )  # fmt: skip
    except BaseException:
        place.close()
        raise
    training.enter(manager, place, store)
    return training


@dataclass(frozen=True)
class _Undecided:
    """A step that this rank has voted for without learning the result, its quorum, and the residuals after it."""

    quorum: int
    after: Content


class Elastic:
    """One rank's part in a training whose ranks come and go. :func:`elastic` makes it.

    ``model``: the DistributedDataParallel to call. ``alone``: a process group of this rank alone, for it. Parameters
    have equal bits on all ranks after each step; buffers, such as running means of BatchNorm, are each rank's own.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        group: ElasticGroup,
        *,
        alone: Any,
        also: Mapping[str, Stateful] | None = None,
    ) -> None:
        self._group = group
        self._kept: dict[str, Stateful] = {"model": model, "optimizer": optimizer, **(also or {})}
        self._optimizer = optimizer
        self.state = DdpState(None, reduce=self._reduce, model=model)
        # With parameters that may be unused, DDP never regroups its buckets: a new rank has those of the others.
        self.model = DistributedDataParallel(model, process_group=alone, find_unused_parameters=True)
        self.model.register_comm_hook(self.state, ddp_hook)
        assert self.state.feedback is not None
        self._feedback = self.state.feedback
        self._before = Content()
        self._undecided: _Undecided | None = None
        # The quorum of the latest step that counts.
        self._committed_in = -1
        self._error: Exception | None = None
        self._failures = 0
        self._manager: Any = None
        self._held: tuple[Any, ...] = ()

    def enter(self, manager: Any, *held: object) -> None:
        """Take torchft's manager. ``held``: what has to stay for as long as this rank takes part."""
        self._manager, self._held = manager, held

    @property
    def step(self) -> int:
        """Number of steps that count so far, equal on all ranks."""
        return int(self._manager.current_step())

    @property
    def rank(self) -> int:
        """This rank's number in the present step: 0 .. ranks - 1. It changes where others come and go."""
        return int(self._manager.participating_rank())

    @property
    def ranks(self) -> int:
        """Number of ranks in the present step. Means are over so many."""
        return int(self._manager.num_participants())

    @property
    def job(self) -> Job | None:
        """The job of the present quorum; None before the first."""
        return self._group.job

    def begin(self) -> None:
        """Begin a step: wait for a quorum, take over the others' model where this rank is behind, and clear gradients.

        Raises PlaceError if there is no quorum in time, and the error of the last of many attempts to make its job.
        """
        self._group.step = self.step
        self._error = None
        self._await_quorum()
        while (failed := self._manager.errored()) is not None:
            if self._group.fatal is not None:
                raise self._group.fatal
            self._count_failure(failed.original_exception)
            # The next quorum gets another number, and so another job.
            self._manager.should_commit()
            self._await_quorum()
        self._undecided = None
        self.state.settle()
        self._before = self._feedback.kept()
        self._optimizer.zero_grad()

    def commit(self) -> bool:
        """End a step, after the backward pass: apply it, if all ranks have made it. Returns whether it counts.

        If not, nothing has changed on this rank, and the next step has the same number. Raises RecreateError if that
        happens many times in a row.
        """
        voted = self._error is None and self._vote()
        if self._error is not None:
            self._manager.report_error(self._error)
        if self._manager.should_commit():
            self._optimizer.step()
            self._committed_in, self._failures = self._group.quorum, 0
            return True
        self._take_back(voted=voted)
        self._count_failure(self._error)
        return False

    def close(self, *, agree: bool = True) -> None:
        """End this rank's part once all have made the latest step. Others that begin a further one go on without it.

        ``agree=False``, used when an exception ends the run, does not wait for others.
        """
        self._group.leave(agree=agree)
        self.state.close()
        if self._manager is not None:
            self._manager.shutdown(wait=False)
        for one in self._held:
            if isinstance(one, socket.socket):
                one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(agree=error is None)

    def saved(self) -> dict[str, Any]:
        """Return what a rank that is behind needs: torchft sends it."""
        return {"quorum": self._committed_in, **{name: one.state_dict() for name, one in self._kept.items()}}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`saved` has returned on another rank."""
        for name, one in self._kept.items():
            one.load_state_dict(state[name])
        undecided, self._undecided = self._undecided, None
        if undecided is not None and undecided.quorum == state["quorum"]:
            # The others have applied the step that this rank has voted for: its contribution is in their model.
            self._feedback.restore(undecided.after)
        else:
            self._feedback.reset()
        self._committed_in = state["quorum"]

    def _reduce(self, x: Tensor, bucket: int) -> tuple[Tensor, Residual]:
        """The mean by the quorum's job. After an error the step comes to nothing, so what is returned does not
        matter."""
        job = self._group.job
        if self._error is None and job is not None:
            try:
                return job.reduce(x, bucket)
            except RecreateError as error:
                self._error = error
        return x, lambda: torch.zeros_like(x)

    def _vote(self) -> bool:
        """Tell the others that this rank has made the step, and learn whether all have. Returns whether it has told."""
        assert self._group.job is not None
        try:
            all_reduce(torch.ones(1, dtype=torch.int32, device="cpu"), self._group.job, op="sum")
        except RecreateError as error:
            self._error = error
        return True

    def _take_back(self, *, voted: bool) -> None:
        """Bring back the residuals that were there before the step."""
        try:
            self.state.settle()
        except SumwireError:
            voted = False
        if voted:
            self._undecided = _Undecided(self._group.quorum, self._feedback.kept())
        self._feedback.restore(self._before)

    def _await_quorum(self) -> None:
        try:
            self._manager.start_quorum()
        except (RuntimeError, TimeoutError) as error:
            raise PlaceError(
                f"no quorum of {self._group.config.workers_min} ranks or more ({first_clause(str(error))}): start the "
                "ranks that are missing, or see whether `sumwire up --elastic` runs"
            ) from error

    def _count_failure(self, error: Exception | None) -> None:
        self._failures += 1
        _LOG.info(
            "step %d comes to nothing: %s",
            self.step,
            error,
            extra=Event.STEP_DISCARDED(step=self.step, reason=str(error)),
        )
        if self._failures > _FAILURES_MOST:
            raise RecreateError(
                f"step {self.step} has come to nothing {self._failures} times in a row, the last time since {error}; "
                "see the logs of all ranks, then start them again"
            ) from error
