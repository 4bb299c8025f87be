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
