# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A gloo group of the job's own, whose collectives can be left while they wait.

A collective runs in gloo's own threads. The main thread waits for it in torch, a moment at a time, so Ctrl-C works. Any
other thread of Python looks from time to time whether it is over: one that waits in torch's code, or Python code in
gloo's threads, could abort the process at its exit. gloo cannot cancel a collective, and a group with one under way
waits for it when it is destroyed. So such a group is left alone until the process exits.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
import torch.distributed as dist

from sumwire.errors import GroupError

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
        """Whether it is over, well or not."""

    def wait(self, timeout: timedelta = ...) -> Any:
        """Raises RuntimeError if it failed, or is not over after the time."""


def available() -> bool:
    """Whether this process has a default process group."""
    return dist.is_available() and dist.is_initialized()


def first_clause(text: str) -> str:
    """What a text of gloo says first, without the place in its source, remarks and advice."""
    return _CLAUSE_END.split(_SOURCE.sub("", text.partition("\n")[0]))[0]


def looks() -> Iterator[None]:
    """Moments at which to look at something: often at first, then less and less, without end."""
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
    """The ranks that are the workers of a job, where these are not the ranks of the default process group.

    ``store``: of these ranks alone, for one such object. ``rank``: this one's number among them, of ``ranks``. All
    collectives end after ``timeout``. Making one is a collective call of these ranks, and needs no process group. Its
    groups are unknown to torch.distributed, so they outlive `destroy_process_group`. Raises GroupError.
    """

    def __init__(self, store: Store, rank: int, ranks: int, timeout: timedelta) -> None:
        self.store = store
        self.rank = rank
        self.ranks = ranks
        self._timeout = timeout
        self._groups = itertools.count()
        self.meeting = self.gloo()

    def gloo(self) -> Any:
        """A new group: a collective call, in the same order on all ranks. Raises GroupError."""
        store = PrefixStore(f"gloo{next(self._groups)}", self.store)
        try:
            return dist.distributed_c10d.ProcessGroupGloo(store, self.rank, self.ranks, self._timeout)
        except RuntimeError as error:
            raise GroupError(first_clause(str(error))) from error


class MeetingGroup(_Collectives):
    """The collectives of a group that is there already: that of ``ranks``, or the default one on processors, which must
    be gloo's."""

    def __init__(self, ranks: Ranks | None = None) -> None:
        super().__init__(dist.distributed_c10d._get_default_group() if ranks is None else ranks.meeting)
        self.store = dist.distributed_c10d._get_default_store() if ranks is None else ranks.store

    @staticmethod
    def has_gloo() -> bool:
        """Whether the default group has gloo for processors."""
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
        """Begin a collective, and leave the rest to gloo's threads. Raises GroupError if it cannot begin."""
        try:
            start(self._group)
        except RuntimeError as error:
            raise GroupError(first_clause(str(error))) from error
        _never_destroy(self._group)


class GlooGroup(_Collectives):
    """A gloo group of ``ranks``, or of all ranks of the default group, with that one's time-out.

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
        elif dist.is_initialized() and group in dist.distributed_c10d._world.pg_map:
            dist.destroy_process_group(group)


def _never_destroy(group: Any) -> None:
    """Leave a group with a collective under way alone, or the process would wait for the collective's end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def default_timeout() -> timedelta:
    """The default group's time-out."""
    group = dist.distributed_c10d._get_default_group()
    for device in group._device_types:
        options = getattr(group._get_backend(torch.device(device)), "options", None)
        if options is not None:
            found: timedelta = options._timeout
            return found
    return dist.default_pg_timeout
