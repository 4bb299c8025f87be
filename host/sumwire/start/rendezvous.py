# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks tell each other before they have a job: texts in a store, as torch.distributed has it."""

from __future__ import annotations

import itertools
import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from sumwire.errors import SumwireError
from sumwire.job.gloo_group import Ranks, looks
from sumwire.start.errors import PlaceError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import PrefixStore, Store
else:
    from torch.distributed import PrefixStore, Store

# Numbers the starts of this process. All ranks make the same ones in the same order.
_NUMBERS: Final = itertools.count()


class Rendezvous:
    """The ranks of one start. All of them make the same calls in the same order."""

    def __init__(self, store: Store, rank: int, ranks: int, timeout: timedelta) -> None:
        self.rank = rank
        self.ranks = ranks
        self._store = PrefixStore(f"sumwire/start{next(_NUMBERS)}", store)
        self._timeout = timeout
        self._calls = itertools.count()

    def gather(self, own: Any) -> list[Any]:
        """The JSON values of all ranks, by rank. Raises PlaceError for one that has failed or has not come."""
        call = next(self._calls)
        self._put(call, {"value": own})
        end = time.monotonic() + self._timeout.total_seconds()
        told = [self._get(call, rank, end) for rank in range(self.ranks)]
        for rank, one in enumerate(told):
            if "error" in one:
                raise PlaceError(f"rank {rank} cannot start: {one['error']}; mend that, then start all ranks again")
        return [one["value"] for one in told]

    def fail(self, error: SumwireError) -> None:
        """Tell an error in place of the next value, without waiting."""
        self._put(next(self._calls), {"error": f"{type(error).__name__}: {error}"})

    def among(self, members: tuple[int, ...]) -> Ranks:
        """Some of the ranks as those of a job: a collective call of these, who are numbered in their order."""
        call = next(self._calls)
        store = PrefixStore(f"ranks{call}", self._store)
        return Ranks(store, members.index(self.rank), len(members), self._timeout)

    def _put(self, call: int, content: Any) -> None:
        self._store.set(f"{call}/{self.rank}", json.dumps(content))

    def _get(self, call: int, rank: int, end: float) -> Any:
        key = f"{call}/{rank}"
        for _ in looks():
            if self._store.check([key]):
                return json.loads(self._store.get(key))
            if time.monotonic() > end:
                break
        raise PlaceError(
            f"rank {rank} has not come within {self._timeout.total_seconds():.0f} s; start all ranks, and let "
            "each call sumwire.init()"
        )
