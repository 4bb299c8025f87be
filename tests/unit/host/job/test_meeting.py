# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a rank says while it waits for the others to make a job."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from sumwire.job import meeting
from torch.distributed import HashStore


def test_only_ranks_that_have_not_come_are_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If all have come, the collective takes long, and nobody is absent."""
    monkeypatch.setattr(meeting, "_WARN_AFTER_S", 0.0)
    monkeypatch.setattr(meeting, "_WARN_EVERY_S", 0.0)
    group: Any = SimpleNamespace(rank=0, ranks=2, store=HashStore())
    waiting = meeting._Meeting("digits", group)
    waiting._write("")
    with caplog.at_level(logging.WARNING, "sumwire"):
        waiting._look()
        assert caplog.messages == ["job digits: waits 0 s for ranks [1] to make it"]
        group.store.set(waiting._key(1), '""')
        waiting._look()
    assert len(caplog.messages) == 1
