# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The process group: texts of gloo, and the rendezvous."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from sumwire.job import gloo
from sumwire.job.gloo import first_clause
from torch.distributed import HashStore


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        (
            "[/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:35549. This is typically "
            "caused by a remote worker crashing. Check the logs of the remote worker before reporting an error. GLHF!",
            "Connection closed by peer [127.0.0.1]:35549",
        ),
        (
            "[/src/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
            "Timed out waiting 1800000ms for recv operation to complete",
        ),
        ("Application timeout caused pair closure\nException raised from f", "Application timeout caused pair closure"),
        (
            "an earlier collective was left: make it anew; make a new Job",
            "an earlier collective was left: make it anew",
        ),
        ("", ""),
    ],
)
def test_what_gloo_says_first(text: str, clause: str) -> None:
    assert first_clause(text) == clause


def test_only_ranks_that_have_not_come_are_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If all have come, the collective takes long, and nobody is absent."""
    monkeypatch.setattr(gloo, "_WARN_AFTER_S", 0.0)
    monkeypatch.setattr(gloo, "_WARN_EVERY_S", 0.0)
    group: Any = SimpleNamespace(rank=0, ranks=2, number=0, store=HashStore())
    waiting = gloo._Rendezvous("digits", group)
    waiting._write("")
    with caplog.at_level(logging.WARNING, "sumwire"):
        waiting._look()
        assert caplog.messages == ["job digits: waits 0 s for ranks [1] to make it"]
        group.store.set(waiting._key(1), '""')
        waiting._look()
    assert len(caplog.messages) == 1
