# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks that do not come to `sumwire.init()`, a store that ends, and one that an earlier attempt has used."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from helpers.logs import events_of
from sumwire.start import rendezvous
from sumwire.start.errors import PlaceError
from sumwire.start.rendezvous import Rendezvous, fresh
from sumwire_protocol.events import Event
from torch.distributed import HashStore

SOON = timedelta(seconds=0.05)


def test_who_has_not_come_is_named(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_WARN_AFTER_S", 0.0)
    with caplog.at_level(logging.WARNING, "sumwire"), pytest.raises(PlaceError, match="rank 1 has not come within 0 s"):
        Rendezvous(HashStore(), 0, 3, SOON).gather("here")
    assert events_of(caplog.records) == [Event.RANKS_AWAITED]
    assert "for ranks [1, 2]: start those that do not run" in caplog.text


def test_a_rank_with_something_to_do_first_is_given_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "_WARN_AFTER_S", 0.0)
    with caplog.at_level(logging.WARNING, "sumwire"), pytest.raises(PlaceError, match="rank 1 has not come"):
        Rendezvous(HashStore(), 0, 2, SOON).gather("here", patience_s=60.0)
    assert not caplog.records


def test_one_rank_tells_for_all(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 has come too, so rank 1 says nothing."""
    monkeypatch.setattr(rendezvous, "_WARN_AFTER_S", 0.0)
    store: Any = HashStore()
    late = Rendezvous(store, 1, 3, SOON)
    late._store.set("0/0", '{"value": null}')
    with caplog.at_level(logging.WARNING, "sumwire"), pytest.raises(PlaceError, match="rank 2 has not come"):
        late.gather(None)
    assert not caplog.records


def test_a_store_that_is_gone() -> None:
    class Gone(HashStore):
        def check(self, keys: list[str]) -> bool:
            raise RuntimeError("Connection reset by peer. And more")

    gone = Rendezvous(HashStore(), 0, 2, SOON)
    gone._store = Gone()
    with pytest.raises(PlaceError, match=r"store of the ranks cannot be reached any more \(Connection reset by peer\)"):
        gone.gather(None)


def test_an_own_error_goes_before_that_of_the_store() -> None:
    class Gone(HashStore):
        def set(self, key: str, value: str) -> None:
            raise RuntimeError("Broken pipe")

    gone = Rendezvous(HashStore(), 0, 2, SOON)
    gone._store = Gone()
    with pytest.raises(ZeroDivisionError):
        gone.telling(lambda: 1 // 0)


def test_any_failure_is_told() -> None:
    first, other = (Rendezvous(HashStore(), rank, 2, SOON) for rank in range(2))
    other._store = first._store

    def fail() -> None:
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        first.telling(fail)
    with pytest.raises(PlaceError, match="rank 0 cannot start: OSError: no such file"):
        other.gather(None)


def attempt(store: Any, ranks: int) -> list[Any]:
    """The ranks' stores, of one attempt of torchrun's."""
    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(lambda rank: fresh(store, rank, ranks, timedelta(seconds=60)), range(ranks)))


def test_an_earlier_attempt_of_torchruns_has_left_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun's own process has the store, and keeps it when it starts the ranks again."""
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    store: Any = HashStore()
    for rank in (1, 2):
        with pytest.raises(PlaceError, match="rank 0 has not come"):
            fresh(store, rank, 3, SOON)
    with pytest.raises(PlaceError, match="rank 1 has not come"):
        fresh(store, 0, 3, SOON)
    for number in range(2):
        stores = attempt(store, 3)
        assert not any(one.check(["said"]) for one in stores), number
        stores[number].set("said", str(number))
        assert [one.get("said").decode() for one in stores] == [str(number)] * 3


def test_without_torchrun_a_store_is_one_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    store: Any = HashStore()
    assert fresh(store, 1, 3, SOON) is store
