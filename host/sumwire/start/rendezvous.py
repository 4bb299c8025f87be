# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Exchanges JSON values between ranks that have no job yet, in the store of torch.distributed.

torchrun keeps its store when it restarts all ranks, so values of an earlier attempt may still be in it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sumwire_protocol.events import Event

from sumwire.job.gloo import Ranks, first_clause, looks
from sumwire.start.errors import PlaceError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import PrefixStore, Store
else:
    from torch.distributed import PrefixStore, Store

_Made = TypeVar("_Made")
_LOG: Final = logging.getLogger("sumwire")
# Seconds until the first warning about ranks that have not come, and from one to the next.
_WARN_AFTER_S: Final = 10.0
_WARN_EVERY_S: Final = 30.0
# torchrun says by it that its own process has the store.
_KEPT_STORE: Final = ("TORCHELASTIC_USE_AGENT_STORE", "True")
# Numbers the starts of this process. All ranks make the same ones in the same order.
_NUMBERS: Final = itertools.count()


class Rendezvous:
    """The ranks of one start. All of them create it, and then make the same calls in the same order."""

    def __init__(self, store: Store, rank: int, ranks: int, timeout: timedelta) -> None:
        self.rank = rank
        self.ranks = ranks
        self._store = fresh(PrefixStore(f"sumwire/start{next(_NUMBERS)}", store), rank, ranks, timeout)
        self._timeout = timeout
        self._calls = itertools.count()
        # Counted apart, since only some ranks make these calls.
        self._some = itertools.count()

    def gather(self, own: Any, *, patience_s: float | None = None) -> list[Any]:
        """Return the JSON values of all ranks, by rank. Raises PlaceError for a rank that has failed or has not come.

        ``patience_s``: seconds until the first warning about ranks that have not come, which may have to do something
        long first.
        """
        call = next(self._calls)
        self._put(call, {"value": own})
        waiting = _Waiting(self._timeout.total_seconds(), patience_s)
        told = [self._get(call, rank, waiting) for rank in range(self.ranks)]
        for rank, one in enumerate(told):
            if "error" in one:
                raise PlaceError(f"rank {rank} cannot start: {one['error']}; mend that, then start all ranks again")
        return [one["value"] for one in told]

    def leave(self) -> None:
        """End, as the last call. Rank 0, whose process may have the store, stays until all others have come here."""
        call, waiting = next(self._calls), _Waiting(self._timeout.total_seconds())
        self._put(call, {"value": None})
        for rank in range(self.ranks if self.rank == 0 else 0):
            self._get(call, rank, waiting)

    def telling(self, make: Callable[[], _Made]) -> _Made:
        """Call ``make`` and return its result. If it fails, the other ranks get its error in their next call."""
        try:
            return make()
        except Exception as error:
            # Without the store nobody can be told, and this rank's own error says more.
            with contextlib.suppress(PlaceError):
                self.fail(error)
            raise

    def fail(self, error: Exception) -> None:
        """Send an error in place of the next value, without waiting."""
        self._put(next(self._calls), {"error": f"{type(error).__name__}: {error}"})

    def among(self, members: tuple[int, ...]) -> Ranks:
        """Return a job's group of only these ranks, numbered in the order of ``members``. All of them must call it."""
        store = PrefixStore(f"ranks{next(self._some)}", self._store)
        return Ranks(store, members.index(self.rank), len(members), self._timeout)

    def _put(self, call: int, content: Any) -> None:
        with _reaching_store():
            self._store.set(f"{call}/{self.rank}", json.dumps(content))

    def _get(self, call: int, rank: int, waiting: _Waiting) -> Any:
        key = f"{call}/{rank}"
        with _reaching_store():
            for _ in looks():
                if self._store.check([key]):
                    return json.loads(self._store.get(key))
                if waiting.is_over():
                    break
                if waiting.is_time_to_tell():
                    self._tell(call, waiting)
        raise _not_come(rank, self._timeout)

    def _tell(self, call: int, waiting: _Waiting) -> None:
        """Log the missing ranks, on the lowest rank that has come."""
        absent = [rank for rank in range(self.ranks) if not self._store.check([f"{call}/{rank}"])]
        if absent and self.rank == min(set(range(self.ranks)) - set(absent)):
            _tell_of(absent, waiting)


def fresh(store: Store, rank: int, ranks: int, timeout: timedelta) -> Store:
    """Return a view of the store that hides the values of earlier attempts of torchrun: a collective call of all ranks.

    Machines may count the attempts differently, so rank 0 draws a name for its attempt. It answers every rank that it
    finds in the store, also dead ones of earlier attempts, and goes on once all ranks have confirmed the name. Raises
    PlaceError for a rank that does not come.
    """
    return named_anew(store, rank, ranks, timeout) if os.environ.get(_KEPT_STORE[0]) == _KEPT_STORE[1] else store


def named_anew(store: Store, rank: int, ranks: int, timeout: timedelta) -> Store:
    """Return a view of the store that hides what earlier calls have left there, as :func:`fresh` says."""
    with _reaching_store():
        name = _named(store, ranks, timeout) if rank == 0 else _taken(store, rank, timeout)
    return PrefixStore(f"sumwire/{name}", store)


def _named(store: Store, ranks: int, timeout: timedelta) -> str:
    """On rank 0: return the name of this attempt once all ranks have confirmed it."""
    name, missing, waiting = uuid.uuid4().hex, list(range(1, ranks)), _Waiting(timeout.total_seconds())
    for _ in looks():
        missing = [rank for rank in missing if not store.check([f"{name}/{rank}"])]
        for rank in missing:
            if store.check([f"here/{rank}"]):
                store.set(f"answer/{store.get(f'here/{rank}').decode()}", name)
        if not missing:
            break
        if waiting.is_over():
            raise _not_come(missing[0], timeout)
        if waiting.is_time_to_tell():
            _tell_of(missing, waiting)
    return name


def _taken(store: Store, rank: int, timeout: timedelta) -> str:
    """On another rank: confirm and return the name from rank 0's answer."""
    own, waiting = uuid.uuid4().hex, _Waiting(timeout.total_seconds())
    store.set(f"here/{rank}", own)
    for _ in looks():
        if store.check([f"answer/{own}"]):
            break
        if waiting.is_over():
            raise _not_come(0, timeout)
        if waiting.is_time_to_tell():
            _tell_of([0], waiting)
    name = store.get(f"answer/{own}").decode()
    store.set(f"{name}/{rank}", "taken")
    return name


def _not_come(rank: int, timeout: timedelta) -> PlaceError:
    return PlaceError(
        f"rank {rank} has not come within {timeout.total_seconds():.0f} s; start all ranks, and let each call "
        "sumwire.init()"
    )


def _tell_of(absent: list[int], waiting: _Waiting) -> None:
    _LOG.warning(
        "sumwire.init() has waited %.0f s for ranks %s: start those that do not run, or see their logs",
        waiting.waited_s, absent,
        extra=Event.RANKS_AWAITED(name="", waited_s=waiting.waited_s, ranks=absent),
    )  # fmt: skip


class _Waiting:
    """How long a call has waited, and when to log that next."""

    def __init__(self, most_s: float, patience_s: float | None = None) -> None:
        self._began = time.monotonic()
        self._most_s = most_s
        self._tell_after_s = _WARN_AFTER_S if patience_s is None else patience_s

    @property
    def waited_s(self) -> float:
        return time.monotonic() - self._began

    def is_over(self) -> bool:
        return self.waited_s > self._most_s

    def is_time_to_tell(self) -> bool:
        if self.waited_s < self._tell_after_s:
            return False
        self._tell_after_s += _WARN_EVERY_S
        return True


@contextlib.contextmanager
def _reaching_store() -> Iterator[None]:
    """Raises PlaceError where torch says that the store is gone."""
    try:
        yield
    except RuntimeError as error:
        raise PlaceError(
            f"the store of the ranks cannot be reached any more ({first_clause(str(error))}), so the process that has "
            "it has ended, mostly rank 0 or its torchrun; see its log, then start all ranks again"
        ) from error
