# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which GPU is the current one in a thread. No test here has one: torch's part is replaced."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest
import torch
from sumwire.training import comm_thread, streams
from sumwire.training.comm_thread import CommThread
from torch.futures import Future

_GPU = torch.device("cuda", 3)


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> threading.local:
    """The number of the current GPU, by thread, as torch has it: 0 in a new one."""
    place = threading.local()

    @contextlib.contextmanager
    def device(chosen: torch.device) -> Iterator[None]:
        before, place.number = getattr(place, "number", 0), chosen.index
        yield
        place.number = before

    monkeypatch.setattr(torch.cuda, "device", device)
    return place


def test_a_call_has_its_tensors_gpu(current: threading.local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comm_thread, "CallFuture", lambda devices=None: Future())
    thread = CommThread("test")

    def number() -> int:
        return getattr(current, "number", 0)

    found = [thread.submit(number, device).wait() for device in (_GPU, None, torch.device("cpu"))]
    thread.close()
    assert found == [3, 0, 0]


def test_nothing_is_queued_on_a_processor() -> None:
    assert streams.queued(torch.device("cpu")) is None
