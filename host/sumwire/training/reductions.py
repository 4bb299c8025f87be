# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reductions and collectives that optimizers and hooks take in place of a job.

A reduction is a function from this worker's flat tensor to the workers' mean (:data:`sumwire.training.ddp.Reduce`):

* :func:`through_job`: by the switch or the software aggregator, whichever the job file names;
* :func:`through_group`: by the ordinary all-reduce of torch.distributed (gloo, NCCL, MPI);
* :func:`thc_through_group`: by THC over the ordinary all-reduce, since THC's sums are sums of plain integers.

All ranks must make the collectives of a group in the same order. If calls came from a thread while
DistributedDataParallel uses the same group, their order would differ between ranks. :class:`Peers` therefore makes a
group of its own.

:class:`Collective` has the calls that Marsit needs. :class:`sumwire.Job` makes them through the switch,
:class:`sumwire.multihop.RingSigns` and ``TorusSigns`` over torch.distributed without a switch, and :class:`Threads`
exactly, for several workers in one process.
"""

from __future__ import annotations

import threading
from functools import partial, wraps
from typing import Final, Protocol

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from sumwire_protocol.tables import SUM_MAX
from torch import Tensor

from sumwire.checkpoint import Content, Saved
from sumwire.codec import layout
from sumwire.codec.base import GradientCodec, staged
from sumwire.codec.errors import CodecError
from sumwire.codec.tables import ThcTable
from sumwire.codec.thc import BLOCK_VALUES, ThcCodec
from sumwire.errors import GroupError, UsageError
from sumwire.job.gloo import destroy, first_clause
from sumwire.job.job import Job, Residual
from sumwire.job.rules import NonFinite, result_check
from sumwire.training.ddp import Reduce


class Collective(Protocol):
    """All calls block until all workers have made them, in the same order. Results have equal bits on all workers."""

    def sign_merge(self, plus: Tensor, /) -> Tensor:
        """Return merged signs, bool of shape (length,), True for plus: each is drawn from the workers' signs with equal
        probability."""

    def mean(self, x: Tensor, /) -> Tensor:
        """Return the mean of the workers' flat tensors in full precision, a new tensor."""

    def all_finite(self, finite: bool, /) -> bool:
        """Return whether all workers have called with True. A collective may raise NonFiniteError on all instead."""


class Threads:
    """Workers as threads of one process, for tests and simulations: exact sums, and draws repeatable by ``seed``.

    :meth:`of` returns one worker's collective. A worker that fails calls :meth:`abort`; the others then get
    threading.BrokenBarrierError.
    """

    def __init__(self, workers: int, seed: int = 1) -> None:
        self.workers = workers
        self._generator = torch.Generator().manual_seed(seed)
        self._given: list[Tensor | None] = [None] * workers
        self._result = torch.zeros(0, dtype=torch.float32, device="cpu")
        self._merging = False
        self._barrier = threading.Barrier(workers, self._combine)

    def of(self, worker: int) -> ThreadsEnd:
        """Return the collective of one worker."""
        return ThreadsEnd(self, worker)

    def abort(self) -> None:
        """End the waiting of the other workers, with an error."""
        self._barrier.abort()

    def exchange(self, worker: int, x: Tensor, *, merging: bool) -> Tensor:
        """Make one worker's call: merge signs if ``merging``, else average."""
        self._given[worker] = x
        self._merging = merging
        self._barrier.wait()
        return self._result.clone()

    def _combine(self) -> None:
        given = torch.stack([x for x in self._given if x is not None])
        if self._merging:
            chosen = torch.randint(self.workers, (1, given.shape[1]), generator=self._generator, device="cpu")
            self._result = given.gather(0, chosen)[0]
        else:
            self._result = given.mean(0)


class ThreadsEnd:
    """One worker's end of :class:`Threads`."""

    def __init__(self, threads: Threads, worker: int) -> None:
        self._threads = threads
        self.worker = worker
        self.workers = threads.workers

    def sign_merge(self, plus: Tensor, /) -> Tensor:
        """See :class:`Collective`."""
        return self._threads.exchange(self.worker, plus, merging=True)

    def mean(self, x: Tensor, /) -> Tensor:
        """See :class:`Collective`."""
        return self._threads.exchange(self.worker, x, merging=False)

    def all_finite(self, finite: bool, /) -> bool:
        """See :class:`Collective`."""
        return bool(self.mean(torch.tensor([float(finite)], device="cpu")) == 1.0)


_HALVES: Final = (torch.float16, torch.bfloat16)
_THC_DTYPES: Final = (torch.float32, *_HALVES)


class Peers:
    """A new process group with the ranks of an existing one, for a reduction's own collectives.

    Making one is a collective call: it makes a new group of the same ranks and backend. ``group`` None is the default
    group. ``sent_bytes`` counts the bytes that this rank passed to collectives.

    Raises UsageError without torch.distributed, or for a group that this process is not in.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        ranks = members(group)
        backend = None if group is None else dist.get_backend(group)
        self.group = dist.new_group(
            ranks, backend=None if backend == "undefined" else backend, use_local_synchronization=group is not None
        )
        self.workers = len(ranks)
        self.rank = dist.get_rank(self.group)
        self.sent_bytes = 0
        if dist.get_backend(self.group) == "gloo":
            # Ranks that have not joined yet could not any more if this one left.
            dist.barrier(self.group)

    def close(self) -> None:
        """Leave the group, after this rank's last call; its threads end with this object. Closing twice is allowed."""
        destroy(self.group)

    def add_(self, x: Tensor) -> Tensor:
        """Replace x by its sum over all ranks, and return it. Raises GroupError."""
        return self._reduced_(x, dist.ReduceOp.SUM)

    def largest_(self, x: Tensor) -> Tensor:
        """Replace every value of x by the largest of all ranks, and return x. Raises GroupError."""
        return self._reduced_(x, dist.ReduceOp.MAX)

    def gather(self, x: Tensor) -> list[Tensor]:
        """Return every rank's tensor, by rank. All have the same length. Raises GroupError."""
        everyone = [torch.empty_like(x) for _ in range(self.workers)]
        self.sent_bytes += x.numel() * x.element_size()
        try:
            dist.all_gather(everyone, x, group=self.group)
        except RuntimeError as error:
            raise self._failed("all-gather", x, error) from error
        return everyone

    def _reduced_(self, x: Tensor, op: dist.ReduceOp.RedOpType) -> Tensor:
        self.sent_bytes += x.numel() * x.element_size()
        try:
            dist.all_reduce(x, op, group=self.group)
        except RuntimeError as error:
            raise self._failed("all-reduce", x, error) from error
        return x

    def _failed(self, what: str, x: Tensor, error: RuntimeError) -> GroupError:
        why = first_clause(str(error))
        return GroupError(f"rank {self.rank}: {what} of {x.numel()} values failed: {why}; start all workers again")


def members(group: dist.ProcessGroup | None) -> list[int]:
    """Return the global ranks of a group. Raises UsageError if there is none, or this process is not in it."""
    if not (dist.is_available() and dist.is_initialized()):
        raise UsageError("no process group: call torch.distributed.init_process_group first")
    if dist.get_rank(group) < 0:
        raise UsageError("this process is not in the group: call it on the ranks of the group only")
    return dist.get_process_group_ranks(dist.group.WORLD if group is None else group)


def through_job(job: Job, codec: GradientCodec | None = None) -> Reduce:
    """Return the job's own reduction, THC, or the reduction by ``codec``, whose ops the job must have."""
    return job.reduce if codec is None else partial(job.reduce_with, codec)


def checked(reduce: Reduce, nonfinite: NonFinite) -> Reduce:
    """Return ``reduce``; with "raise", one that raises NonFiniteError on all ranks for a result with NaN or infinity.

    Raises UsageError for another ``nonfinite`` than "propagate" and "raise".
    """
    check = result_check(nonfinite)
    if nonfinite == "propagate":
        return reduce

    @wraps(reduce)
    def reduce_checked(x: Tensor, number: int) -> tuple[Tensor, Residual]:
        result, residual = reduce(x, number)
        return check(result, number), residual

    return reduce_checked


def through_group(peers: Peers | dist.ProcessGroup | None = None, *, nonfinite: NonFinite = "propagate") -> Reduce:
    """Return the ordinary all-reduce, in x's dtype; its residual is zero. ``nonfinite``: see :func:`checked`."""
    ranks = _peers(peers)

    def reduce(x: Tensor, number: int) -> tuple[Tensor, Residual]:
        # Half precision is divided first, since the sum may exceed its range.
        halves = x.dtype in _HALVES
        mean = ranks.add_(x / ranks.workers) if halves else ranks.add_(x.clone()).div_(ranks.workers)
        return mean, lambda: torch.zeros_like(x)

    return checked(reduce, nonfinite)


def thc_through_group(
    peers: Peers | dist.ProcessGroup | None,
    table: ThcTable,
    *,
    seed: int = 1,
    block: int | None = BLOCK_VALUES,
    nonfinite: NonFinite = "propagate",
) -> Reduce:
    """Return THC by two ordinary all-reduces: the blocks' norms by MAX, then the table values, a byte each, by SUM.

    It sends 8 bits per value each way, and 32 per block for the norm. ``table``, ``seed`` and ``block`` must be the
    same on all ranks. It uses :class:`sumwire.codec.thc.ThcCodec`, and the mean has the same bits as from a switch.

    A block in which any rank has NaN, infinity or a norm above 2**96 becomes NaN on all ranks; see :func:`checked` for
    ``nonfinite``. Raises UsageError for a table whose sums over all ranks exceed a byte, one of more than 4 bits, or an
    impossible block.
    """
    ranks = _peers(peers)
    if table.granularity * ranks.workers > SUM_MAX:
        rule = f"the sum of {ranks.workers} workers must fit a byte: at most {SUM_MAX // ranks.workers}"
        raise UsageError(f"granularity = {table.granularity}: {rule}")
    try:
        codec = ThcCodec(table, job=seed, worker=ranks.rank, block=block)
    except CodecError as error:
        raise UsageError(str(error)) from error
    return checked(_ThcOverGroup(ranks, codec).reduce, nonfinite)


class _ThcOverGroup(Saved):
    def __init__(self, peers: Peers, codec: ThcCodec) -> None:
        self._peers = peers
        self._codec = codec
        self._calls = 0
        # By index. The codec never sends indices that the table does not have.
        self._values = np.zeros(2**layout.INDEX_PLANES, np.uint8)
        self._values[: len(codec.table.values)] = codec.table.values

    def kept(self) -> Content:
        """Return the number of calls, by which random bits are drawn."""
        return Content(rest={"operations": self._calls})

    def restore(self, content: Content, /) -> None:
        self._calls = content.rest["operations"]

    def reduce(self, x: Tensor, number: int) -> tuple[Tensor, Residual]:
        if x.dtype not in _THC_DTYPES:
            raise UsageError(f"tensor of {x.dtype}: must be one of {', '.join(map(str, _THC_DTYPES))}")
        if x.numel() == 0:
            return x.to(torch.float32, copy=True), lambda: torch.zeros_like(x, dtype=torch.float32)
        sequence, self._calls = self._calls, self._calls + 1
        round_ = self._codec.begin(staged(self._codec, x), sequence, number)
        words = round_.encode(self._agree(x, round_.norms()))
        counts = np.full(round_.chunks, self._peers.workers)
        return round_.decode(self._sums(x, words), counts).to(x.device), lambda: round_.residual().to(x.device)

    def _agree(self, x: Tensor, norms: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the largest norm of every block, as float32 bits."""
        # Bits of non-negative floats order as the floats do, also as int32, which all backends support.
        agreed = self._peers.largest_(torch.from_numpy(norms.view(np.int32)).to(x.device))
        return agreed.cpu().numpy().view(np.uint32)

    def _sums(self, x: Tensor, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the sum planes of the table values that all ranks' index planes stand for."""
        values = self._values[layout.unpack_index_planes(words)]
        sums = self._peers.add_(torch.from_numpy(values).to(x.device))
        return layout.pack_index_planes(sums.cpu().numpy(), layout.SUM_PLANES)


def _peers(peers: Peers | dist.ProcessGroup | None) -> Peers:
    return peers if isinstance(peers, Peers) else Peers(peers)
