# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a lower aggregator says of the one above, and learns from its answers."""

from __future__ import annotations

import logging

import pytest
from helpers.aggregator.tree import tree_mapping
from helpers.logs import lines_of, of
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.senders import packed_address
from sumwire.aggregator.state import Shared
from sumwire.aggregator.upward import Upward
from sumwire.config import parse_job
from sumwire.wire.header import Header, pack, unpack
from sumwire_protocol import constants as p4
from sumwire_protocol.logs.events import Event

MAPPING = tree_mapping((1, 1), (0,))
LEAF = MAPPING["tree"][0]["aggregator"]


@pytest.fixture
def line(caplog: pytest.LogCaptureFixture) -> Upward:
    caplog.set_level(logging.INFO, "sumwire.aggregator")
    parts = lanes_of([parse_job(MAPPING, 0)], LEAF)
    return Upward(parts, Shared(parts))


def answered(line: Upward, now: float, generation: int, digest_bits: int = 0) -> bool:
    """Ask, and answer as an aggregator above does whose job file's digest differs in these bits."""
    (asked,) = line.questions(now)
    (hello, _), digest = unpack(asked.data), parse_job(MAPPING, 0).digest ^ digest_bits
    chunk = p4.PROGRAM_REVISION << 16 | digest & 0xFFFF
    head = Header(
        p4.KIND_INFORM, p4.OP_NONE, hello.job, slot=hello.slot, worker=hello.worker, token=generation,
        bucket=digest >> 16, chunk=chunk,
    )  # fmt: skip
    address, port = asked.to
    return line.take(pack(head), (packed_address(address), port))


def test_silence_is_told(line: Upward, caplog: pytest.LogCaptureFixture) -> None:
    assert list(line.questions(0.0))
    assert not caplog.records
    list(line.questions(10.0))
    (told,) = of(lines_of(caplog.records), Event.ABOVE_SILENT)
    assert "no answer from the aggregator above" in told["reason"]


def test_a_generation_is_learnt_and_told_once(line: Upward, caplog: pytest.LogCaptureFixture) -> None:
    assert not line.is_known
    assert answered(line, 0.0, 7)
    assert line.is_known
    assert answered(line, 10.0, 7)
    (told,) = of(lines_of(caplog.records), Event.ABOVE_HEARD)
    assert told["generation"] == 7


@pytest.mark.parametrize("bits", [1, 1 << 16])
def test_another_job_file_is_told_and_not_learnt(line: Upward, caplog: pytest.LogCaptureFixture, bits: int) -> None:
    assert answered(line, 0.0, 7, digest_bits=bits)
    assert not line.is_known
    (told,) = of(lines_of(caplog.records), Event.ABOVE_UNFIT)
    assert "another job file" in told["reason"]
