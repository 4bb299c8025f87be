# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The job's process group: the rendezvous of its ranks, gloo groups of its own, and the collectives of the fall-back.

:class:`sumwire.job.job.Job` calls :func:`taking_part` before it makes groups of its own, because making a group waits
    for all ranks, also for those that have ended. The default group is connected already, and gloo notices at once when
    one of
its connections ends. So every rank first tells all others, by one collective of the default group, that it takes part
or why it cannot. It writes the same to the default group's store, where it stays when the rank ends. A default group
without gloo, such as NCCL alone, has no rendezvous.

A collective (:class:`GlooGroup`) runs in gloo's own threads. The main thread waits for it in torch, a moment at a time,
so Ctrl-C works. Any other thread of Python polls: one that waits in torch's code, or Python code in gloo's threads,
could abort the process at its exit. gloo cannot cancel a collective, and destroying a group waits for the one under
way. So such a group is left alone until the process exits.

:class:`Fallback` has the collectives that replace the switch during the fall-back.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
import torch.distributed as dist
from sumwire_protocol.events import Event
from torch import Tensor

from sumwire.errors import GroupError, OrderError, PeerLostError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import PrefixStore, Store
else:
    from torch.distributed import PrefixStore, Store


# Seconds between two looks: at first, at most, and the factor by which they grow. So a short collective seems at most a
# tenth longer than it is.
_FIRST_LOOK_S: Final = 5e-5
_LONGEST_LOOK_S: Final = 2e-2
_GROWTH: Final = 1.1
# How long the main thread waits before it looks around. Each moment ends with an exception in torch, which takes
# 0.4 ms; of a moment this long that is little, and Ctrl-C still seems to work at once.
_MOMENT: Final = timedelta(seconds=0.1)
# The places in gloo's source that its texts begin with, such as "[/src/gloo/transport/tcp/pair.cc:553] ".
_SOURCE: Final = re.compile(r"^(?:\[[^\]]*\.\w+:\d+\]\s*)+")
_CLAUSE_END: Final = re.compile(r"[.;!](?:\s|$)")


class Work(Protocol):
    """A collective under way."""

    def is_completed(self) -> bool:
        """Return whether the collective is over, with or without an error."""

    def wait(self, timeout: timedelta = ...) -> Any:
        """Wait for the collective. Raises RuntimeError if it failed, or is not over after ``timeout``."""


def available() -> bool:
    """Return whether this process has a default process group."""
    return dist.is_available() and dist.is_initialized()


def first_clause(text: str) -> str:
    """Return the first statement of an error text of gloo, without source location, remarks and advice."""
    return _CLAUSE_END.split(_SOURCE.sub("", text.partition("\n")[0]))[0]


def looks() -> Iterator[None]:
    """Yield at the moments at which to poll: often at first, then less and less, without end."""
    pause_s = _FIRST_LOOK_S
    while True:
        yield
        time.sleep(pause_s)
        pause_s = min(pause_s * _GROWTH, _LONGEST_LOOK_S)


class _Collectives:
    """Collectives of one group, one at a time."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self.ranks: int = group.size()
        self.rank: int = group.rank()
        self._under_way = False

    def run(self, start: Callable[[Any], Work], check: Callable[[], None]) -> None:
        """Carry out one collective. ``start(group)`` begins it. ``check`` is called while it lasts, and may raise; then
        the group must not be used any more. Raises GroupError if the collective fails."""
        if self._under_way:
            raise GroupError("an earlier collective was left: the group cannot be used any more; make a new Job")
        self._under_way = True
        try:
            work = start(self._group)
            if threading.current_thread() is threading.main_thread():
                _await_here(work, check)
            else:
                for _ in looks():
                    if work.is_completed():
                        break
                    check()
            self._under_way = False
            work.wait()
        except RuntimeError as error:
            raise GroupError(first_clause(str(error))) from error


def _await_here(work: Work, check: Callable[[], None]) -> None:
    """Wait in torch until a collective is over, well or not."""
    while not work.is_completed():
        check()
        with contextlib.suppress(RuntimeError):
            work.wait(_MOMENT)


class Ranks:
    """The ranks that are a job's workers, where these are not the ranks of the default process group.

    ``store``: a store that only these ranks use, for one such object. ``rank``: this process's number among ``ranks``.
    All collectives end after ``timeout``; with ``connect`` their groups must connect within that. Making one is a
    collective call of these ranks, and needs no process group. torch.distributed does not know its groups, so they
    outlive `destroy_process_group`. Raises GroupError.
    """

    def __init__(
        self, store: Store, rank: int, ranks: int, timeout: timedelta, *, connect: timedelta | None = None
    ) -> None:
        self.store = store
        self.rank = rank
        self.ranks = ranks
        # Of the jobs that these ranks make. Another process may have made others before.
        self.meetings = itertools.count()
        self._timeout = timeout
        self._connect = connect
        self._groups = itertools.count()
        self.meeting = self.gloo()

    def gloo(self) -> Any:
        """Make a new gloo group: a collective call, in the same order on all ranks. Raises GroupError."""
        store = PrefixStore(f"gloo{next(self._groups)}", self.store)
        within = self._connect or self._timeout
        try:
            group = dist.distributed_c10d.ProcessGroupGloo(store, self.rank, self.ranks, within)
        except RuntimeError as error:
            raise GroupError(first_clause(str(error))) from error
        if within != self._timeout:
            group._set_default_timeout(self._timeout)
        return group


class MeetingGroup(_Collectives):
    """The collectives of an existing gloo group: that of ``ranks``, or the default group's for CPU tensors."""

    def __init__(self, ranks: Ranks | None = None) -> None:
        super().__init__(dist.distributed_c10d._get_default_group() if ranks is None else ranks.meeting)
        self.store = dist.distributed_c10d._get_default_store() if ranks is None else ranks.store
        self.number = next(_NUMBERS if ranks is None else ranks.meetings)

    @staticmethod
    def has_gloo() -> bool:
        """Return whether the default group has gloo for processors."""
        group = dist.distributed_c10d._get_default_group()
        cpu = torch.device("cpu")
        return cpu in group._device_types and group._get_backend(cpu).name() == "gloo"

    def run(self, start: Callable[[Any], Work], check: Callable[[], None]) -> None:
        try:
            super().run(start, check)
        finally:
            if self._under_way:
                _never_destroy(self._group)

    def leave(self, start: Callable[[Any], Work]) -> None:
        """Start a collective without waiting for it; gloo's threads complete it. Raises GroupError if it cannot
        start."""
        try:
            start(self._group)
        except RuntimeError as error:
            raise GroupError(first_clause(str(error))) from error
        _never_destroy(self._group)


class GlooGroup(_Collectives):
    """A gloo group of ``ranks``, or of all ranks of the default group, with the default group's timeout.

    Creating one is a collective call: all ranks create theirs in the same order.
    """

    def __init__(self, ranks: Ranks | None = None) -> None:
        super().__init__(dist.new_group(backend="gloo", timeout=default_timeout()) if ranks is None else ranks.gloo())

    def close(self) -> None:
        """Destroy the group. Its connections end, so other ranks that still wait in it get an error."""
        group, self._group = self._group, None
        if group is None:
            return
        if self._under_way:
            _never_destroy(group)
        else:
            destroy(group)


def destroy(group: Any) -> None:
    """Remove a gloo group from torch, unless it is removed already. Its threads, which poll 100 times a second, end
    with the last reference. Groups of other backends stay, because NCCL's would wait for all ranks."""
    if dist.is_initialized() and group in dist.distributed_c10d._world.pg_map and dist.get_backend(group) == "gloo":
        dist.destroy_process_group(group)


def _never_destroy(group: Any) -> None:
    """Leave a group with a collective under way alone, or the process would wait for the collective's end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def default_timeout() -> timedelta:
    """Return the default group's time-out."""
    group = dist.distributed_c10d._get_default_group()
    for device in group._device_types:
        options = getattr(group._get_backend(torch.device(device)), "options", None)
        if options is not None:
            found: timedelta = options._timeout
            return found
    return dist.default_pg_timeout


_LOG: Final = logging.getLogger("sumwire")
# Bytes of what a rank says.
_WORDS_BYTES: Final = 8192
# Seconds until the first warning about ranks that have not come, and from one to the next.
_WARN_AFTER_S: Final = 10.0
_WARN_EVERY_S: Final = 30.0
# Seconds that ranks have to come after one has ended, before they count as absent too.
_GRACE_S: Final = 3.0
# Numbers the meetings of this process. All ranks make the same jobs in the same order.
_NUMBERS: Final = itertools.count()


@contextlib.contextmanager
def taking_part(job: str, ranks: Ranks | None = None) -> Iterator[None]:
    """Context manager in which each rank prepares for a job. When it exits, all ranks are prepared. ``ranks``: the
    job's own, if it has them.

    If this rank raises inside, the others learn why, and it does not wait for them. Raises PeerLostError, which names
    the ranks that cannot take part.
    """
    if ranks is None and not (available() and MeetingGroup.has_gloo()):
        yield
        return
    meeting = _Rendezvous(job, MeetingGroup(ranks))
    try:
        yield
    except Exception as error:
        meeting.refuse(f"{type(error).__name__}: {error}")
        raise
    meeting.come()


class _Rendezvous:
    def __init__(self, job: str, group: MeetingGroup) -> None:
        self._job = job
        self._number = group.number
        self._group = group
        self._store = group.store
        self._began = time.monotonic()
        self._warned = self._began + _WARN_AFTER_S - _WARN_EVERY_S

    def refuse(self, why: str) -> None:
        """Tell the others that this rank takes no part. Does not wait."""
        self._write(why)
        sent, received = self._buffers(why)
        with contextlib.suppress(GroupError):
            self._group.leave(lambda group: group.alltoall_base(received, sent, [], []))

    def come(self) -> None:
        """Wait for all ranks."""
        self._write("")
        sent, received = self._buffers("")
        try:
            self._group.run(lambda group: group.alltoall_base(received, sent, [], []), self._look)
        except GroupError as error:
            words = self._read_soon()
            for rank, why in words.items():
                if why:
                    raise PeerLostError(_refused(self._job, rank, why)) from error
            absent = self._absent(words)
            who = f"ranks {absent}" if absent else "another rank"
            raise PeerLostError(
                f"job {self._job}: {who} did not come to make the job ({first_clause(str(error))}); see the log there, "
                "then start the training on every worker again"
            ) from error
        for rank, row in enumerate(received.view(self._group.ranks, _WORDS_BYTES)):
            if why := json.loads(bytes(row.numpy())):
                raise PeerLostError(_refused(self._job, rank, why))

    def _buffers(self, words: str) -> tuple[torch.Tensor, torch.Tensor]:
        content = json.dumps(words[: _WORDS_BYTES // 8]).encode().ljust(_WORDS_BYTES)
        sent = torch.frombuffer(bytearray(content), dtype=torch.uint8).repeat(self._group.ranks)
        return sent, torch.empty_like(sent)

    def _absent(self, words: dict[int, str]) -> list[int]:
        return [rank for rank in range(self._group.ranks) if rank not in words]

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._warned >= _WARN_EVERY_S:
            self._warned = now
            absent = self._absent(self._read())
            # On a busy machine the collective itself takes long.
            if not absent:
                return
            _LOG.warning(
                "job %s: waits %.0f s for ranks %s to make it", self._job, now - self._began, absent,
                extra=Event.RANKS_AWAITED(name=self._job, waited_s=now - self._began, ranks=absent),
            )  # fmt: skip

    def _key(self, rank: int) -> str:
        return f"sumwire/{self._number}/{rank}"

    def _write(self, words: str) -> None:
        # Whoever has the store may have ended. Then the collective fails too.
        with contextlib.suppress(RuntimeError):
            self._store.set(self._key(self._group.rank), json.dumps(words))

    def _read(self) -> dict[int, str]:
        """What the ranks that have come say. If the store is gone with its owner, all count as come."""
        try:
            came = [rank for rank in range(self._group.ranks) if self._store.check([self._key(rank)])]
            return {rank: json.loads(self._store.get(self._key(rank))) for rank in came}
        except RuntimeError:
            return dict.fromkeys(range(self._group.ranks), "")

    def _read_soon(self) -> dict[int, str]:
        """As :meth:`_read`, after a while for those who come a little later than the rank that ended.

        With one rank absent, or with a reason, there is nothing to wait for.
        """
        give_up = time.monotonic() + _GRACE_S
        for _ in looks():
            words = self._read()
            if len(self._absent(words)) <= 1 or any(words.values()) or time.monotonic() > give_up:
                break
        return words


def _refused(job: str, rank: int, why: str) -> str:
    return f"job {job}: rank {rank} cannot take part: {why}; mend that, then start all workers again"


# Bytes of a call's description that are compared.
_CALL_BYTES: Final = 256


# What torch calls the ufuncs.
_REDUCTIONS: Final = {
    "maximum": "MAX", "minimum": "MIN", "bitwise_and": "BAND", "bitwise_or": "BOR", "bitwise_xor": "BXOR"
}  # fmt: skip


class Fallback:
    """The collectives of the fall-back. All ranks make the same calls in the same order. Every method raises GroupError
    if a rank is gone.

    Creating one is a collective call. ``check`` is called while a collective waits, and may raise. ``ranks``: see
    :class:`sumwire.job.gloo.GlooGroup`.
    """

    def __init__(self, check: Callable[[], None], ranks: Ranks | None = None) -> None:
        self._group = GlooGroup(ranks)
        self._check = check

    @property
    def ranks(self) -> int:
        """Ranks of the group."""
        return self._group.ranks

    def close(self) -> None:
        """End the group. No other method may be called afterwards."""
        self._group.close()

    def compare(self, call: str) -> None:
        """Raise OrderError unless all ranks give the same description of the call. gloo itself would mix up their
        tensors."""
        own = torch.zeros(_CALL_BYTES, dtype=torch.uint8, device="cpu")
        text = call.encode()[:_CALL_BYTES]
        own[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        texts = [bytes(each.tolist()).rstrip(b"\0").decode(errors="replace") for each in self.gather(own)]
        if len({*texts}) > 1:
            raise OrderError(
                f"the workers' calls differ, by rank: {'; '.join(texts)}; make the same calls in the same order on "
                f"every worker"
            )

    def mean(self, x: Tensor, *, counts: bool = True) -> Tensor:
        """Return the mean of a float32 CPU tensor over the workers, a new tensor with equal bits on all of them.

        ``counts=False``: this worker does not contribute. Its tensor only gives the length.
        """
        weight = torch.full((1,), float(counts), dtype=x.dtype, device="cpu")
        total = torch.cat([x if counts else torch.zeros_like(x), weight])
        self._reduce(total, dist.ReduceOp.SUM)
        return total[:-1].div_(total[-1].clamp(min=1.0))

    def total(self, x: Tensor) -> Tensor:
        """Return the sum of a CPU tensor over all workers, in its dtype; a new tensor."""
        return self._reduce(x.clone(), dist.ReduceOp.SUM)

    def add_(self, x: Tensor) -> None:
        """Replace a CPU tensor by its sum over all workers, with equal bits on all of them."""
        self._reduce(x, dist.ReduceOp.SUM)

    def elementwise(self, ufunc: str, x: Tensor) -> Tensor:
        """Return what a numpy ufunc of an op makes of all workers' integers, element by element, as a new tensor."""
        return self._reduce(x.clone(), getattr(dist.ReduceOp, _REDUCTIONS[ufunc]))

    def gather(self, x: Tensor) -> list[Tensor]:
        """Return the tensors of all workers, by rank."""
        everyone = [torch.empty_like(x) for _ in range(self._group.ranks)]
        self._group.run(lambda group: group.allgather([everyone], [x]), self._check)
        return everyone

    def _reduce(self, x: Tensor, op: Any) -> Tensor:
        self._group.run(lambda group: group.allreduce([x], op), self._check)
        return x
