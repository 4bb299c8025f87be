# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Hierarchical reduction: the ranks of one machine (a node) share a worker.

Their tensors are summed inside the node, by NCCL or gloo, to the node's first rank. That rank is the worker: it sends
the node's mean through the network and passes the result to the others. So a node sends what one rank would send,
however many ranks it has.

Sums use one group and results another. So the next bucket can be summed while the results of the last one come from the
network, and all ranks still begin the collectives of each group in the same order.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal, Self

import torch
import torch.distributed as dist
from commonlib.logs import printable
from torch import Tensor
from torch.distributed import distributed_c10d as c10d

from sumwire.checkpoint import Place
from sumwire.codec.feedback import ErrorFeedback
from sumwire.errors import PeerLostError, SumwireError, UsageError
from sumwire.job.control import Change
from sumwire.job.fallback import added_as
from sumwire.job.gloo import first_clause, looks
from sumwire.job.heartbeat import Failure
from sumwire.job.job import Job, Residual
from sumwire.lifecycle import Lifecycle
from sumwire.transport.stats import JobStats

# Bytes of an error that the worker's rank tells the others.
_FAILURE_BYTES: Final = 4096
_GOOD, _BAD = 0, 1
# How often a rank that waits for another looks whether that one has given up.
_NOTICE_S: Final = 1.0
# All ranks of a node make their nodes in the same order.
_numbers: Final = itertools.count()
# From a worker's job and its node's mean: the mean over the workers, and the function for the residual.
Mean = Callable[[Job, Tensor], tuple[Tensor, Residual]]


class Notice:
    """A message that a rank leaves, in the store of all ranks and under its own key, for ranks that may wait for it."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._store: Any = c10d._get_default_store()

    def give(self, reason: str) -> None:
        """Leave the notice. A rank that cannot read it will notice the end of this process instead."""
        with contextlib.suppress(RuntimeError):
            self._store.set(self._key, reason)

    def check(self) -> None:
        """Raises PeerLostError if some rank has left a notice."""
        if self._store.check([self._key]):
            reason = printable(bytes(self._store.get(self._key)).decode(errors="replace"))
            raise PeerLostError(
                f"a rank of this node has given up ({reason}); start the training again, or make new jobs on all ranks"
            )


class RankGroup:
    """The ranks that share a worker, from the view of this one.

    ``size``: how many they are; ``leads``: this rank is the worker. ``up``, ``down``: two groups of the same ranks. Use
    :meth:`of` or :meth:`among` to create one.
    """

    def __init__(self, up: dist.ProcessGroup, down: dist.ProcessGroup) -> None:
        self.size = dist.get_world_size(up)
        self.leads = dist.get_rank(up) == 0
        self._notice = Notice(f"sumwire/node/{down.group_name}/{next(_numbers)}")
        self._first = dist.get_global_rank(up, 0)
        self._up, self._down = up, down
        self._gloo_on_gpu = dist.get_backend(up) == "gloo"

    @classmethod
    def of(cls, local_group: dist.ProcessGroup) -> Self:
        """Return the ranks of a group: a collective call of these. Raises UsageError on a rank that is not in it."""
        if dist.get_rank(local_group) < 0:
            raise UsageError(
                "local_group: this rank is not in it: give every rank the group of its own machine, as "
                "torch.distributed.new_subgroups() makes it"
            )
        ranks = dist.get_process_group_ranks(local_group)
        return cls(local_group, dist.new_group(ranks, use_local_synchronization=True))

    @classmethod
    def among(cls, nodes: Sequence[Sequence[int]]) -> Self:
        """Return this rank's node: a collective call of all ranks, which pass the same list of ranks by node."""
        mine = dist.get_rank()
        found = None
        for ranks in nodes:
            groups = dist.new_group([*ranks]), dist.new_group([*ranks])
            if mine in ranks:
                found = cls(*groups)
        if found is None:
            raise UsageError(f"rank {mine} is in no node: every rank must be in one")
        return found

    @property
    def ranks(self) -> list[int]:
        """Global ranks, in their order."""
        return dist.get_process_group_ranks(self._up)

    def gather(self, x: Tensor) -> Callable[[], Tensor | None]:
        """Start to gather the ranks' flat tensors, all of one length, on the first rank.

        Returns a function that waits for them. On the first rank it returns all of them in order, on the others None;
        it raises PeerLostError. ``x`` must not change until then. A collective call, in the same order on all ranks.
        """
        mine = x.cpu() if x.is_cuda and self._gloo_on_gpu else x
        whole = mine.new_empty(self.size * len(mine)) if self.leads else None
        pieces = None if whole is None else list(torch.split(whole, len(mine)))
        work = dist.gather(mine, pieces, self._first, group=self._up, async_op=True)

        def ended() -> Tensor | None:
            self._await(work)
            return None if whole is None else whole.to(x.device)

        return ended

    def sum_up(self, x: Tensor, *, divided: bool = True) -> Callable[[], None]:
        """Start to replace ``x`` on the first rank by the mean of the node's ranks, or, if not ``divided``, by their
        sum. On the others the content of ``x`` is lost.

        Returns a function that waits for it and raises PeerLostError. A collective call, in the same order on all
        ranks.
        """
        # Half precision is divided first, since the sum may exceed its range.
        if divided:
            x.div_(self.size)
        if x.is_cuda and self._gloo_on_gpu:
            work = dist.all_reduce(x, group=self._up, async_op=True)
        else:
            work = dist.reduce(x, self._first, group=self._up, async_op=True)
        return lambda: self._await(work)

    def give(self, make: Callable[[], Tensor]) -> Tensor:
        """On the first rank: compute a result with ``make``, send it to the others and return it. If ``make`` fails,
        the others get the error."""
        result = self._made(make)
        self._down_from_first(result)
        return result

    def take(self, into: Tensor) -> None:
        """On the other ranks: receive the result of :meth:`give` into ``into``. Raises its error."""
        self._await_made(into.device)
        self._down_from_first(into)

    def give_parts(self, make: Callable[[], Tensor]) -> Tensor:
        """Like :meth:`give`, for a flat result that is divided among the ranks in order. Returns this rank's part."""
        result = self._made(make)
        return self._scattered(result.new_empty(len(result) // self.size), result)

    def take_part(self, into: Tensor) -> None:
        """On the other ranks: receive this rank's part of the result of :meth:`give_parts`. Raises its error."""
        self._await_made(into.device)
        self._scattered(into, None)

    def _made(self, make: Callable[[], Tensor]) -> Tensor:
        """What ``make`` returns, when the others know that it is coming. They get its error."""
        try:
            result = make()
        except Exception as error:
            self._tell(error)
            raise
        self._down_from_first(torch.full((1,), _GOOD, device=result.device))
        return result

    def _await_made(self, device: torch.device) -> None:
        """Raises the error of the first rank if it has no result."""
        state = torch.empty(1, dtype=torch.int64, device=device)
        self._down_from_first(state)
        if int(state) != _GOOD:
            content = torch.empty(_FAILURE_BYTES, dtype=torch.uint8, device=device)
            self._down_from_first(content)
            raise Failure(**json.loads(bytes(content.cpu().numpy()))).error()

    def _scattered(self, own: Tensor, whole: Tensor | None) -> Tensor:
        """``own``, filled with this rank's part of the first rank's ``whole``."""
        staged = own.is_cuda and self._gloo_on_gpu
        into = own.cpu() if staged else own
        pieces = None if whole is None else list(torch.split(whole.cpu() if staged else whole, len(own)))
        self._await(dist.scatter(into, pieces, self._first, group=self._down, async_op=True))
        return own.copy_(into) if staged else own

    def _tell(self, error: Exception) -> None:
        failure = Failure.of(error) if isinstance(error, SumwireError) else _foreign(error)
        text = json.dumps({"kind": failure.kind, "text": failure.text[: _FAILURE_BYTES // 8]}).encode()
        device = self._device()
        try:
            self._down_from_first(torch.full((1,), _BAD, device=device))
            content = torch.frombuffer(bytearray(text.ljust(_FAILURE_BYTES)), dtype=torch.uint8)
            self._down_from_first(content.to(device))
        except PeerLostError:
            pass  # nobody is left to be told

    def _device(self) -> torch.device:
        """Return a device that the group's tensors may be on."""
        cpu = torch.device("cpu")
        return cpu if cpu in self._down._device_types else torch.device("cuda", torch.cuda.current_device())

    def give_up(self, reason: str) -> None:
        """Tell the node's other ranks, which may wait for this one, that it takes part in nothing more."""
        self._notice.give(reason)

    def _await(self, work: Any) -> None:
        """Wait without blocking in torch's code, which could abort the process at its exit."""
        looked = time.monotonic()
        try:
            for _ in looks():
                if work.is_completed():
                    break
                if time.monotonic() - looked > _NOTICE_S:
                    self._notice.check()
                    looked = time.monotonic()
            work.wait()
        except RuntimeError as error:
            raise PeerLostError(
                f"a rank of this node has ended or cannot be reached ({first_clause(str(error))}); start the training "
                "on every worker again, as torchrun --max-restarts does"
            ) from error

    def _down_from_first(self, x: Tensor) -> None:
        self._await(dist.broadcast(x, self._first, group=self._down, async_op=True))


def _foreign(error: Exception) -> Failure:
    text = f"{type(error).__name__}: {error}"
    return Failure("PeerLostError", f"the rank that is this node's worker has failed: {text}; see its log")


class NodeJob:
    """A job whose workers are nodes with several ranks; every rank has one. `sumwire.init` makes it.

    ``job``: the node's job on its first rank; None on the others. ``ranks``: those of all nodes. It takes a job's place
    in :func:`sumwire.all_reduce` and :class:`sumwire.DdpState`: all ranks make the same calls in the same order, and
    get the mean over all ranks. A node's weight is its number of ranks. Marsit and the systems by name need one rank
    per worker. Raises UsageError if a rank other than the first has a job, or the first has none.
    """

    def __init__(self, name: str, job: Job | None, node: RankGroup, ranks: int) -> None:
        if node.leads == (job is None):
            rank = "first" if node.leads else "only the first"
            raise UsageError(f"job {name}: {rank} rank of a node is its worker: give a job to that one and to no other")
        self.name = name
        self.job = job
        self.node = node
        self.ranks = ranks
        # Residuals are the worker's: on other ranks it stays empty.
        self.feedback = ErrorFeedback()
        self._life = Lifecycle(
            f"job {name}",
            "sumwire.init()",
            doing=lambda: f"an operation on rank {dist.get_rank()}",
            give_up=self._give_up,
        )
        self._stats = JobStats()

    @property
    def summands(self) -> int:
        """How many ranks a mean is over."""
        return self.ranks

    @property
    def stats(self) -> JobStats:
        """The statistics of the node's job; zeros on ranks that are not workers."""
        return self._stats if self.job is None else self.job.stats

    @property
    def fallen_back(self) -> bool:
        """Return whether the node's operations use the process group now; False on ranks that are not workers."""
        return self.job is not None and self.job.fallen_back

    def on_change(self, callback: Callable[[Change], None]) -> None:
        """See :meth:`Job.on_change`. On ranks that are not workers the callback is never called."""
        if self.job is not None:
            self.job.on_change(callback)

    def on_close(self, closer: Callable[[], None]) -> None:
        """See :meth:`Job.on_close`."""
        self._life.on_close(closer)

    def place(self) -> Place:
        """Return the place of this rank, for checkpoints."""
        return Place.here()

    def reduce(
        self, x: Tensor, bucket: int = 0, *, given: str = "", into: Tensor | None = None
    ) -> tuple[Tensor, Residual]:
        """Return the mean of all ranks' flat tensors, see :meth:`Job.reduce` and :meth:`mean`."""
        return self.mean(x, lambda job, node: job.reduce(node, bucket, given=given))

    def mean(self, x: Tensor, make: Mean) -> tuple[Tensor, Residual]:
        """Return the mean of all ranks' flat tensors, float32, and the residual. ``make(job, x)`` computes both for the
        workers' x.

        The residual is that of the node's mean, multiplied by the number of its ranks, on its first rank; zero on the
        others.
        """
        mean = x.detach().to(torch.float32, copy=True)
        with self._life as life:
            life.begun = True
            self.node.sum_up(mean)()
            if not self.node.leads:
                self.node.take(mean)
                return mean, lambda: torch.zeros_like(mean)
            kept: list[Residual] = []

            def made() -> Tensor:
                result, residual = self._weighted(mean, make)
                kept.append(residual)
                return result

            return self.node.give(made), lambda: kept[0]() * self.node.size

    def mean_of_shards(self, x: Tensor) -> Callable[[Mean], Tensor]:
        """Start the mean, over the nodes, of this rank's shard and the shards with the same number: gather the node's
        shards on its first rank.

        Returns a function that takes ``make`` and returns the mean, float32 of x's length. ``make(job, whole)``
        computes the mean of the workers' ``whole``, which is the concatenation of a node's shards. All ranks have
        shards of one length. Other shards may be started before the function is called, in the same order on all ranks.
        It raises UsageError if nodes have different numbers of ranks.
        """
        self._life.check()
        gathered = self.node.gather(x.detach().to(torch.float32))

        def mean_by(make: Mean) -> Tensor:
            with self._life as life:
                life.begun = True
                whole = gathered()
                if whole is not None:
                    return self.node.give_parts(partial(self._over_equal_nodes, whole, make))
                mean = torch.empty(len(x), dtype=torch.float32, device=x.device)
                self.node.take_part(mean)
                return mean

        return mean_by

    def _over_equal_nodes(self, whole: Tensor, make: Mean) -> Tensor:
        job = self._own()
        if self.node.size * job.workers != self.ranks:
            raise UsageError(
                f"job {self.name}: {self.ranks} ranks on {job.workers} nodes, {self.node.size} on this one: shards "
                "need as many ranks on every node"
            )
        return make(job, whole)[0]

    def total(self, x: Tensor, make: Callable[[Job, Tensor], Tensor]) -> Tensor:
        """Return the sum of all ranks' flat tensors, in their dtype. ``make(job, x)`` computes the sum of the workers'
        x."""
        total = x.detach().to(added_as(x.dtype), copy=True)
        with self._life as life:
            life.begun = True
            self.node.sum_up(total, divided=False)()
            if not self.node.leads:
                self.node.take(total)
                return total.to(x.dtype)
            return self.node.give(lambda: make(self._own(), total.to(x.dtype)).to(total.dtype)).to(x.dtype)

    def across(self, x: Tensor, bucket: int) -> tuple[Tensor, Residual]:
        """On a worker: return the mean over all ranks, computed from its node's mean, and the function for the residual
        of that."""
        return self._weighted(x, lambda job, node: job.reduce(node, bucket))

    def _weighted(self, x: Tensor, make: Mean) -> tuple[Tensor, Residual]:
        job = self._own()
        weight = self.node.size * job.workers / self.ranks
        if weight == 1:
            return make(job, x)
        result, residual = make(job, x * weight)
        return result, lambda: residual() / weight

    def _own(self) -> Job:
        assert self.job is not None, "to be called on a worker"
        return self.job

    def merged_signs(self, x: Tensor, bucket: int = 0, *, given: str = "", into: Tensor | None = None) -> Tensor:
        """Raise UsageError: signs of several ranks cannot be merged inside a node."""
        raise UsageError("op = 'sign': needs a rank for each worker; start one rank a node, or use op='mean'")

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """See :meth:`Job.pause`."""
        return contextlib.nullcontext() if self.job is None else self.job.pause()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[None]:
        self.close(agree=error is None)

    def close(self, *, agree: bool = True) -> None:
        """End this rank's part, see :meth:`Job.close`."""
        if not agree:
            self._life.give_up()
        self._life.close(lambda: None if self.job is None else self.job.close(agree=agree))

    def _give_up(self, why: str) -> None:
        self.node.give_up(first_clause(why))
        if self.job is not None:
            self.job.give_up()


AnyJob = Job | NodeJob
"""What `sumwire.init` returns."""
