# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A process group of the backend "sumwire".

torch lets Python define process groups, but not the backends within one. So a group of this class serves all devices.
It carries out itself what goes through the network. All other calls go to an inner group, of gloo or NCCL, whose
backends are registered as this group's too. Made by `registration`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from sumwire_protocol.events import Event
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.distributed import distributed_c10d as c10d

from sumwire.backend.gradients import called_for_gradient, check_built_in_hooks
from sumwire.backend.inner_group import make_inner_group, passing_through
from sumwire.backend.jobs import LaneWorker, Options, job_for, map_rank, source_of
from sumwire.backend.network import (
    GroupRank,
    Network,
    ReduceRoute,
    Reduction,
    op_of,
    opener,
    possible,
    reduced,
    route_of,
    written_by,
)
from sumwire.backend.work import JointWork, NetworkWork, dynamo_disabled
from sumwire.config import JobConfig
from sumwire.errors import UsageError
from sumwire.job.job import Job

_LOG: Final = logging.getLogger("sumwire")
# As registration registers it.
_NAME: Final = "sumwire"
# Those of the default group, which later groups take if they have none of their own.
_options_of_default: Final[list[Options]] = []
# Torch's stubs know the methods with more forms than are called.
_ProcessGroup: Any = dist.ProcessGroup


def create(given: Any, options: Any) -> SumwireGroup:
    """Create a group; torch.distributed calls this for each new one. Raises UsageError for options of another
    backend."""
    if options is not None and not isinstance(options, Options):
        raise UsageError(f"pg_options = {options!r}: must be sumwire.backend.Options(...), or left out")
    default = not dist.is_initialized()
    if default:
        _options_of_default[:] = [options or Options()]
    chosen = options or next(iter(_options_of_default), Options())
    world = given.group_size if default else dist.get_world_size()
    ranks = list(given.global_ranks_in_group) or list(range(given.group_size))
    # A second group of all ranks could be used in another order on each rank: it only has a job if it is told to.
    may_have_job = default or len(ranks) < world or options is not None
    return SumwireGroup(GroupRank(given.store, given.group_rank, ranks, world, given.timeout), chosen, may_have_job)


@dynamo_disabled
@passing_through
class SumwireGroup(_ProcessGroup):  # type: ignore[misc]
    """One process group, made by :func:`create`. ``has_part``: whether it may have a job."""

    def __init__(self, place: GroupRank, options: Options, has_part: bool) -> None:
        # With a store torch would make an object that Python cannot extend.
        super().__init__(place.rank, place.size)
        self._place, self._choice, self._has_part = place, options, has_part
        self._inner = make_inner_group(place.store, place.rank, place.size, place.timeout)
        self._inner.register(self)
        self._network: Network | None = None
        self._config: JobConfig | None = None
        self._looked = False
        # Collectives since the beginning of coalescing, if there is one.
        self._coalesced: list[Any] | None = None
        # Lengths of float16 tensors that came of no hook that cannot work.
        self._checked: set[int] = set()

    def get_group_store(self) -> Any:
        """Return the store in which the ranks have met."""
        return self._place.store

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        return _NAME

    @property
    def job(self) -> Job | None:
        """The group's job, once a collective has gone through it."""
        return None if self._network is None else self._network.job

    # -- what may go through the network ---------------------------------------------------------------

    def allreduce(self, tensors: Any, opts: Any = None, *rest: Any, **named: Any) -> Any:
        """See torch.distributed.all_reduce."""
        tensors, opts = _list(tensors), _options(dist.AllreduceOptions, opts, rest, named)
        what = self._reduction(opts, tensors)
        if what is None:
            return self._note(self._inner.group.allreduce(tensors, opts))
        if tensors[0].dtype == torch.float16 and tensors[0].numel() not in self._checked:
            check_built_in_hooks(self)
            self._checked.add(tensors[0].numel())
        works = [self._all_reduce(what, [x]) for x in tensors]
        return self._note(works[0] if len(works) == 1 else JointWork(works))

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Any:
        """See torch.distributed.all_reduce_coalesced. Tensors of the same dtype and device are sent as one."""
        opts = dist.AllreduceCoalescedOptions() if opts is None else opts
        alike = len({(x.dtype, x.device) for x in tensors}) == 1
        what = self._reduction(opts, tensors, values=sum(x.numel() for x in tensors)) if alike else None
        if what is None:
            return self._note(self._inner.group.allreduce_coalesced(tensors, opts))
        return self._note(self._all_reduce(what, tensors))

    def reduce(self, tensors: Any, opts: Any = None, *rest: Any, **named: Any) -> Any:
        """See torch.distributed.reduce. All ranks get the result from the network, and only the root keeps it."""
        what = None if isinstance(tensors, Tensor) or opts is None else self._reduction(opts, tensors)
        if what is None or len(tensors) != 1:
            return self._note(self._inner.group.reduce(tensors, opts, *rest, **named))
        [x] = tensors
        keeps = self._place.rank == opts.rootRank

        def call(job: Job) -> list[Tensor]:
            result = reduced(what, job, x.detach().reshape(-1))
            return [x.copy_(result.view(x.shape)) if keeps else x]

        return self._note(self._submit(call, x))

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, *rest: Any, **named: Any) -> Any:
        """See torch.distributed.reduce_scatter."""
        if isinstance(outputs, Tensor):
            return self._note(self._inner.group.reduce_scatter(outputs, inputs, opts, *rest, **named))
        opts = dist.ReduceScatterOptions() if opts is None else opts
        alike = all(len({x.numel() for x in each}) == 1 for each in inputs)
        what = self._reduction(opts, [x for each in inputs for x in each], values=sum(x.numel() for x in inputs[0]))
        if what is None or not alike:
            return self._note(self._inner.group.reduce_scatter(outputs, inputs, opts))
        works = [
            self._reduce_scatter(what, out, torch.cat([x.reshape(-1) for x in each]))
            for out, each in zip(outputs, inputs, strict=True)
        ]
        return self._note(works[0] if len(works) == 1 else JointWork(works))

    def _reduce_scatter_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        """See torch.distributed.reduce_scatter_tensor: the whole is summed as by all_reduce, and a rank keeps its
        shard."""
        opts = dist.ReduceScatterOptions() if opts is None else opts
        what = self._reduction(opts, [input])
        if what is None or input.numel() != output.numel() * self.size():
            return self._note(self._inner.group._reduce_scatter_base(output, input, opts))
        return self._note(self._reduce_scatter(what, output, input))

    # Its name since torch 2.12.
    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        """Do several `_reduce_scatter_base` in one call."""
        with self._coalescing() as works:
            for output, each in zip(outputs, inputs, strict=True):
                self._reduce_scatter_base(output, each, opts)
        return self._note(JointWork(works))

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    # -- coalescing ------------------------------------------------------------------------------------

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> Any:
        works, self._coalesced = self._coalesced or [], None
        return JointWork(works)

    # Names by which torch's C++ calls them.
    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing

    @contextlib.contextmanager
    def _coalescing(self) -> Any:
        outer, self._coalesced = self._coalesced, []
        try:
            yield self._coalesced
        finally:
            self._coalesced = outer

    def _note(self, work: Any) -> Any:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    # -- the job ---------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """End the group, and its job if the group opened it. A collective call."""
        network, self._network = self._network, None
        self._has_part = False
        if network is not None:
            network.close()
        if hasattr(self._inner.group, "shutdown"):
            self._inner.group.shutdown()

    def _reduction(self, opts: Any, tensors: Sequence[Tensor], values: int | None = None) -> Reduction | None:
        """How the network carries out the call under way in this thread; None where the inner group does."""
        first = tensors[0] if tensors else None
        if first is None or first.is_sparse or not self._has_part or len({x.dtype for x in tensors}) > 1:
            return None
        gradient = called_for_gradient(all_reduce=isinstance(opts, dist.AllreduceOptions))
        op, precision = op_of(opts.reduceOp), self._choice.chosen(gradient=gradient)
        route = route_of(op, first.dtype, values or first.numel(), self._choice.exact_below, precision)
        if route is ReduceRoute.INNER or not self._serves(first.device):
            return None
        config = self._joined(route)
        return Reduction(route, op, precision) if config is not None and possible(route, config) else None

    def _serves(self, device: torch.device) -> bool:
        """Whether the device's tensors are this backend's: not those of cuda in "cpu:sumwire,cuda:nccl"."""
        asked = str(c10d._world.pg_backend_config.get(self, _NAME))
        pairs = dict(pair.split(":") for pair in asked.split(",") if ":" in pair)
        return pairs.get(device.type, _NAME) == _NAME

    def _joined(self, route: ReduceRoute) -> JobConfig | None:
        """Find and join the group's job. Returns its description, None if the group has none. Raises UsageError if
        floats need a job."""
        needed = route is ReduceRoute.FLOATS and self._place.size == self._place.world
        if self._network is None and (needed or not self._looked or source_of(self._choice) is not None):
            self._looked = True
            self._join(needed=needed)
        return self._config

    def _join(self, *, needed: bool) -> None:
        try:
            found = job_for(self._place.rank, self._place.size, self._place.store, self._choice)
        except UsageError:
            if needed or source_of(self._choice) is not None:
                raise
            return
        if isinstance(found, Job):
            self._has_part = self._config_fits(found)
            if self._has_part:
                self._config, self._network = found.config, Network(found.config.name, found)
            return
        seat = map_rank(found, self._place.ranks, self._place.rank, self._place.world)
        if seat is None:
            self._has_part = False
            _LOG.info("backend sumwire: ranks %s are not the workers of job %s: they go by the process group beneath",
                      self._place.ranks, found.name,
                      extra=Event.PATH_CHOSEN(job=found.job, name=found.name, ranks=None))  # fmt: skip
            return
        self._config, place = self._seated(found, seat), self._place
        self._network = Network(self._config.name, opener(self._config, place))
        if place.rank == 0:
            _LOG.info("backend sumwire: ranks %s are the workers of job %s; from %d values on gradients at %s, "
                      "other floats at %s", place.ranks, self._config.name, self._choice.exact_below,
                      self._choice.chosen(gradient=True), self._choice.chosen(gradient=False),
                      extra=Event.PATH_CHOSEN(job=self._config.job, name=self._config.name, ranks=[*place.ranks])
                      )  # fmt: skip

    def _config_fits(self, job: Job) -> bool:
        return self._place.size == self._place.world == job.workers

    def _seated(self, config: JobConfig, seat: LaneWorker) -> JobConfig:
        """The job as this rank sees it. A description that was read as a worker keeps that worker."""
        read_here = isinstance(source_of(self._choice), str | Path)
        return (replace(config, worker=seat.worker) if read_here else config).for_lane(seat.lane)

    # -- through the network ---------------------------------------------------------------------------

    def _all_reduce(self, what: Reduction, tensors: list[Tensor]) -> Any:
        into = written_by(tensors[0]) if len(tensors) == 1 and what.route is ReduceRoute.FLOATS else None

        def call(job: Job) -> list[Tensor]:
            x = into if into is not None else torch.cat([each.detach().reshape(-1) for each in tensors])
            result = reduced(what, job, x, into)
            if result is into:
                # Autograd only notices what torch writes.
                increment_version(tensors[0])
            else:
                _copy_out(result, tensors)
            return tensors

        return self._submit(call, tensors[0])

    def _reduce_scatter(self, what: Reduction, output: Tensor, whole: Tensor) -> Any:
        shard = output.numel()

        def call(job: Job) -> list[Tensor]:
            result = reduced(what, job, whole.detach().reshape(-1))
            own = result[self._place.rank * shard : (self._place.rank + 1) * shard]
            return [output.copy_(own.view(output.shape))]

        return self._submit(call, output)

    def _submit(self, call: Any, x: Tensor) -> Any:
        assert self._network is not None
        return NetworkWork(self._network.submit(call, x.device))


def _copy_out(result: Tensor, tensors: list[Tensor]) -> None:
    start = 0
    for x in tensors:
        x.copy_(result[start : start + x.numel()].view(x.shape))
        start += x.numel()


def _list(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _options(kind: Any, given: Any, rest: Sequence[Any], named: dict[str, Any]) -> Any:
    """The options of a call: torch's methods take options, an operation, or nothing."""
    if given is not None and not isinstance(given, dist.ReduceOp | dist.ReduceOp.RedOpType):
        return given
    made = kind()
    operation = given if given is not None else named.pop("op", None)
    if operation is not None:
        made.reduceOp = operation
    timeout = next(iter(rest), named.pop("timeout", None))
    if timeout is not None:
        made.timeout = timeout
    return made
