# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a lower aggregator says of the one above, and learns from its answers."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from helpers.aggregator.served import tree_mapping
from helpers.logs import lines_of, of
from sumwire.aggregator.batches import ROW_BYTES, Batch
from sumwire.aggregator.core import Aggregator
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.parent_link import FIRST_ASK_S, ParentLink
from sumwire.aggregator.state import Shared, State, packed_address
from sumwire.config import parse_job
from sumwire.wire.packets import HEADER_BYTES, Header, pack, unpack
from sumwire_protocol import constants as p4
from sumwire_protocol.events import Event

MAPPING = tree_mapping((1, 1), (0,))
LEAF = MAPPING["tree"][0]["aggregator"]


@pytest.fixture
def line(caplog: pytest.LogCaptureFixture) -> ParentLink:
    caplog.set_level(logging.INFO, "sumwire.aggregator")
    parts = lanes_of([parse_job(MAPPING, 0)], LEAF)
    return ParentLink(parts, Shared(parts))


def answered(line: ParentLink, now: float, generation: int, digest_bits: int = 0) -> bool:
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


def test_silence_is_told(line: ParentLink, caplog: pytest.LogCaptureFixture) -> None:
    assert list(line.questions(0.0))
    assert not caplog.records
    list(line.questions(10.0))
    (told,) = of(lines_of(caplog.records), Event.ABOVE_SILENT)
    assert "no answer from the aggregator above" in told["reason"]


@pytest.mark.parametrize("told", [p4.TOKEN_NONE, p4.TOKENS_OF_RUNS, 2**64 - 1])
def test_what_is_no_generation_is_no_answer(line: ParentLink, told: int) -> None:
    """It ended the aggregator, and with it all its other jobs."""
    assert not answered(line, 0.0, told)
    assert not line.is_known
    assert answered(line, 10.0, 7)
    assert line.is_known


def test_a_generation_is_learnt_and_told_once(line: ParentLink, caplog: pytest.LogCaptureFixture) -> None:
    assert not line.is_known
    assert answered(line, 0.0, 7)
    assert line.is_known
    assert answered(line, 10.0, 7)
    (told,) = of(lines_of(caplog.records), Event.ABOVE_HEARD)
    assert told["generation"] == 7


def doubted(line: ParentLink) -> bool:
    return bool(line._shared.doubted[0])


def test_a_question_without_an_answer_puts_it_in_doubt(line: ParentLink) -> None:
    """It is asked often then, until it answers. One answer that is late is no doubt."""
    assert answered(line, 0.0, 7)
    assert list(line.questions(1.0)) and not doubted(line) and line.look_s > FIRST_ASK_S
    assert list(line.questions(2.0)) and doubted(line) and line.look_s == FIRST_ASK_S
    assert not list(line.questions(2.05))
    assert not answered(line, 2.2, 7, digest_bits=1) or doubted(line)
    assert answered(line, 2.4, 8) and not doubted(line)
    assert not list(line.questions(3.0))


@pytest.mark.parametrize(
    ("reason", "by", "doubts"), [(p4.REJECT_TOKEN, 0, True), (p4.REJECT_ROUND, 0, False), (p4.REJECT_TOKEN, 1, False)]
)
def test_a_refused_run_puts_it_in_doubt(line: ParentLink, reason: int, by: int, doubts: bool) -> None:
    """``by``: the address from which the refusal comes, that many above the one of the aggregator above."""
    assert answered(line, 0.0, 7)
    (asked,) = line.questions(1.0)
    head = Header(p4.KIND_REFUSED, p4.OP_MAX32, MAPPING["job"], slot=0, worker=0, count=reason, token=1 << 40)
    source = np.array([packed_address(asked.to[0]) + by], np.uint32)
    rows = np.frombuffer(pack(head), np.uint8)[None].copy()
    port = np.array([p4.SUMWIRE_PORT], ">u2")
    batch = Batch(rows, np.array([len(rows[0])], np.uint32), source, port, np.zeros(1, np.uint8), 1)
    assert line.hear(batch, np.zeros(1, np.uint8)) == 0
    assert doubted(line) == doubts
    assert bool(list(line.questions(1.2))) == doubts


def test_nobody_begins_a_run_while_the_one_above_is_in_doubt(native: bool) -> None:
    """A HELLO gets no answer until the aggregator above has given one. All else is as ever."""
    config = parse_job(MAPPING, 0)
    state = State(lanes_of([config], LEAF))
    aggregator = Aggregator(state, batch=4, native=native)
    hello = Header(p4.KIND_PROBE, p4.OP_NONE, config.job, slot=0, worker=0)
    probe = Header(p4.KIND_PROBE, p4.OP_MAX32, config.job, slot=0, worker=0, token=1 << 40)
    told = []
    for state.shared.doubted[0] in (0, 1, 0):
        state.adopt()
        rows = np.zeros((2, ROW_BYTES), np.uint8)
        rows[:, :HEADER_BYTES] = [np.frombuffer(pack(head), np.uint8) for head in (hello, probe)]
        sources = np.full(2, packed_address(config.own_address.ip), np.uint32)
        ports, tos = np.full(2, config.own_address.udp_port, ">u2"), np.zeros(2, np.uint8)
        batch = Batch(rows, np.full(2, HEADER_BYTES, np.uint32), sources, ports, tos, 2)
        told.append(aggregator.process(batch, 0.0).count)
    assert told[0] == told[2] == told[1] + 1


@pytest.mark.parametrize("bits", [1, 1 << 16])
def test_another_job_file_is_told_and_not_learnt(line: ParentLink, caplog: pytest.LogCaptureFixture, bits: int) -> None:
    assert answered(line, 0.0, 7, digest_bits=bits)
    assert not line.is_known
    (told,) = of(lines_of(caplog.records), Event.ABOVE_UNFIT)
    assert "another job file" in told["reason"]
