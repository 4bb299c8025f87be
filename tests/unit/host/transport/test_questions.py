# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.errors import RefusedError
from sumwire.transport.connection import Connection
from sumwire.transport.questions import say_hello
from sumwire.transport.waiting import Waiting
from sumwire.wire.header import HEADER_BYTES, Header, pack
from sumwire.wire.packets import headers
from sumwire_protocol import constants as p4


class Link:
    """One datagram at each look: REFUSED at the looks given, and otherwise what is for another job."""

    last_failure = None

    def __init__(self, refused_at: set[int], job: int) -> None:
        self.refused_at, self.job = refused_at, job
        self.looks = itertools.count(1)
        self.sizes = np.array([HEADER_BYTES])

    def wait(self, timeout_ms: int, *, room: bool) -> bool:
        return True

    def receive(self) -> int:
        other_job = 0 if next(self.looks) in self.refused_at else 1
        header = Header(p4.KIND_REFUSED, p4.OP_NONE, self.job + other_job, slot=0, worker=0, count=p4.REJECT_COUNT)
        self.received = np.frombuffer(pack(header), np.uint8)[None]
        self.records = headers(self.received)
        return 1


def asked(refused_at: set[int], key: bytes | None) -> Any:
    config = replace(configs(job_mapping(2, 4))[0], key=key)
    ticks = itertools.count()
    connection = SimpleNamespace(
        config=config,
        clock=lambda: next(ticks) / 20,
        link=Link(refused_at, config.job),
        catch_up=None,
        say_hello=lambda: None,
    )
    return say_hello(cast(Connection, connection), 0.5)


def test_one_refusal_is_believed_without_a_key() -> None:
    with pytest.raises(RefusedError, match="COUNT"):
        asked({3}, None)


def test_with_a_key_a_single_refusal_may_be_that_of_a_changed_copy() -> None:
    assert asked({3}, bytes(32)) is None
    with pytest.raises(RefusedError, match="COUNT"):
        asked({2, 4}, bytes(32))


def refused_twice(*, informed_between: bool, contributors: int) -> None:
    """A waiting worker of seat 1 is refused at 1.0 s and at 1.5 s, and told in between who is in its slot."""
    config = configs(job_mapping(2, 4))[1]
    now = [1.0]
    window = SimpleNamespace(
        progress_at=0.0,
        contributes=True,
        had_results=False,
        oldest=lambda: 0,
        place=lambda _: (2, 3),
        waits_for=lambda *_: True,
    )
    connection = SimpleNamespace(config=config, window=window, clock=lambda: now[0], silence_s=3.0)
    buffers = SimpleNamespace(op=p4.OP_THC, bucket=5, token=6)
    waiting = Waiting(cast(Connection, connection), cast(Any, buffers), cast(Any, None))
    refusal = {"count": p4.REJECT_WORDS, "op": p4.OP_THC, "bucket": 5, "token": 6, "slot": 2, "round": 3}
    assert waiting.refused(refusal)
    now[0] = 1.25
    if informed_between:
        waiting.informed({"slot": 2, "round": 3, "contributors": contributors, "flags": 0})
    now[0] = 1.5
    assert waiting.refused(refusal)


def test_a_refusal_is_forgotten_once_the_contribution_is_in() -> None:
    refused_twice(informed_between=True, contributors=0b10)


@pytest.mark.parametrize(("informed_between", "contributors"), [(False, 0), (True, 0b01)])
def test_a_refusal_that_comes_again_is_believed(informed_between: bool, contributors: int) -> None:
    with pytest.raises(RefusedError, match="WORDS"):
        refused_twice(informed_between=informed_between, contributors=contributors)
