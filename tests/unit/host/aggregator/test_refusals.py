# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""REFUSED: how often a sender is told, and what the log says. Who is told why is in tests/packet/test_refusals.py."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from golden import model
from golden.model import Packet
from helpers.aggregator.streams import Datagram, aggregator, load
from helpers.logs import lines_of, of
from helpers.packet.aggregator_rig import PLAIN, part
from helpers.packet.play import contribution
from helpers.packet.star import FULL, HOSTS, NORMS
from sumwire.aggregator.batches import Refusal
from sumwire.aggregator.core import Aggregator
from sumwire.aggregator.refusals import _LINES, GAP_S, RefusalLog
from sumwire.aggregator.state import Senders, State, packed_address, unpacked_address
from sumwire_protocol import constants as p4
from sumwire_protocol.events import Event

STRANGER = bytes([10, 9, 9, 9])
GAP = p4.REFUSAL_GAP_US / 1e6
GOOD = contribution(FULL, 0, 3, 5, bytes(4 * model.WORD), bucket=0x1234)


def ip(address: bytes) -> str:
    return ".".join(map(str, address))


def told(served: Aggregator, *datagrams: Datagram, now: float = 0.0) -> Sequence[Refusal]:
    return list(served.process(load(datagrams, np.random.default_rng(0)), now).refusals)


def asked(packet: Packet, source: bytes = HOSTS[0].ip, port: int = model.UDP_PORT, tos: int = 0) -> Datagram:
    return Datagram(source, packet.encode(), tos, port)


def test_a_sender_is_told_once_in_a_while_and_the_first_reason(native: bool) -> None:
    served = aggregator(native=native)
    wrong, later = asked(GOOD._replace(job=999)), asked(GOOD._replace(slot=8))
    other = asked(GOOD._replace(job=999), source=HOSTS[1].ip, port=5)
    first = told(served, wrong, later, other, wrong, now=1.0)
    assert [(refusal.to, refusal.data[7]) for refusal in first] == [
        ((ip(HOSTS[0].ip), model.UDP_PORT), p4.REJECT_JOB), ((ip(HOSTS[1].ip), 5), p4.REJECT_JOB),
    ]  # fmt: skip
    assert told(served, later, other, now=1.0 + 0.9 * GAP) == []
    assert [refusal.data[7] for refusal in told(served, later, now=1.0 + GAP)] == [p4.REJECT_SLOT]
    assert served.state.rejects.sum() == 7


def test_processes_share_who_was_told() -> None:
    """The kernel spreads a sender's slots over processes."""
    first = aggregator(native=False)
    second = aggregator(native=False, shared=first.state.shared)
    wrong = asked(GOOD._replace(job=999))
    assert len(told(first, wrong)) == 1
    assert told(second, wrong) == []


def test_every_workers_address_is_known_and_strangers_share_rows() -> None:
    senders = Senders([part(job) for job in PLAIN])
    rows = senders.rows_of(np.array([packed_address(ip(host.ip)) for host in HOSTS], np.uint32))
    assert sorted(rows.tolist()) == list(range(senders.known)) == [0, 1, 2, 3]
    strange = senders.rows_of(np.arange(1, 1000, dtype=np.uint32))
    assert strange.min() >= senders.known and strange.max() < senders.rows
    assert unpacked_address(packed_address("10.1.2.3")) == "10.1.2.3"


def logged(caplog: pytest.LogCaptureFixture, log: RefusalLog, datagram: Datagram, now: float, reason: int) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "sumwire.aggregator"):
        log.note(load([datagram], np.random.default_rng(0)), np.array([reason], np.uint8), now)
    return [record.getMessage() for record in caplog.records]


def refusal_log() -> RefusalLog:
    """Of the star's jobs, one of which has a name to be escaped."""
    parts = [part(job) for job in PLAIN]
    named = [
        replace(one, job=replace(one.job, name="d\n\x1b[2J")) if one.job.job == NORMS.number else one for one in parts
    ]
    return RefusalLog(State(named))


@pytest.mark.parametrize(
    ("packet", "reason", "text"),
    [
        (GOOD, p4.REJECT_LENGTH, r"544 bytes from 10\.0\.0\.1 is no whole .* UDP port 21335"),
        (GOOD._replace(version=1), p4.REJECT_VERSION, r"version 1 .* speaks 2: install one version of Sumwire"),
        (GOOD._replace(kind=9), p4.REJECT_KIND, r"kind 9 from 10\.0\.0\.1, .*: install one version"),
        (GOOD._replace(op=99), p4.REJECT_OP, r"op 99 from 10\.0\.0\.1, .*: install one version"),
        (GOOD, p4.REJECT_WORDS, r"op thc from .* payload .* with `tree`, and each its own address"),
        (
            GOOD._replace(job=23),
            p4.REJECT_JOB,
            r"^unknown job 23 from 10\.0\.0\.1: this aggregator serves jobs 1, 2, 3.*; start it with that job's file: "
            r"sumwire-aggregator JOB\.json",
        ),
        (
            GOOD._replace(worker=9),
            p4.REJECT_WORKER,
            r"job 1 \('job1'\): seat 9 from .* has seats 0, 1, 2, 3: .* sumwire-aggregator JOB.json$",
        ),
        (GOOD._replace(worker=2), p4.REJECT_ADDRESS, r"seat 2 from 10\.0\.0\.1, the job file says 10\.0\.0\.3: "),
        (GOOD, p4.REJECT_UDP_PORT, r"seat 0 .*, from another UDP port than the job file's 21335: end the program"),
        (GOOD._replace(flags=0x52), p4.REJECT_FLAGS, r"flags 0x52 from .*, which only a lower switch sets: "),
        (GOOD._replace(slot=70), p4.REJECT_SLOT, r"slot 70 from .*, the job file has 8: .*same job file"),
        (GOOD._replace(op=model.VOTE), p4.REJECT_JOB_OP, r"op vote from .*, the job file has .*thc.*: add it to `ops`"),
        (GOOD._replace(count=4), p4.REJECT_COUNT, r"a sum of 4 from .*, which stands for fewer: .*with `tree`"),
        (GOOD, p4.REJECT_CALL, r"slot 3, round 5, which another call began: .*start the job again on all$"),
        (GOOD, p4.REJECT_TOKEN, r"of a run that is not open here: .*start all workers of the job again$"),
        (GOOD, p4.REJECT_ROUND, r"slot 3, round 5 from .*, which is not the slot's next one: .*start all workers"),
        (
            GOOD._replace(kind=model.RESULT),
            p4.REJECT_PARENT,
            r"as from an aggregator above, this aggregator has none: .*--at ADDRESS",
        ),
    ],
)
def test_the_log_names_sender_value_and_cure(
    caplog: pytest.LogCaptureFixture, packet: Packet, reason: int, text: str
) -> None:
    (line,) = logged(caplog, refusal_log(), asked(packet), 0.0, reason)
    (told,) = of(lines_of(caplog.records), Event.REFUSED)
    assert (told["sender"], told["message"]) == ("10.0.0.1", line)
    assert vars(p4)[f"REJECT_{told['reason']}"] == reason
    assert re.search(text, line), line
    assert "\n" not in line


def test_names_are_escaped(caplog: pytest.LogCaptureFixture) -> None:
    packet = contribution(NORMS, 9, 0, 0, bytes(128), model.MAX32)
    (line,) = logged(caplog, refusal_log(), asked(packet), 0.0, p4.REJECT_WORKER)
    assert line.startswith(r"job 5 ('d\n\x1b[2J'): seat 9")
    (told,) = lines_of(caplog.records)
    assert (told["job"], told["worker"], told["name"], told["slot"]) == (NORMS.number, None, "d\n\x1b[2J", 0)


def test_a_line_a_sender_reason_and_while(caplog: pytest.LogCaptureFixture) -> None:
    log = refusal_log()
    wrong, other = asked(GOOD._replace(job=999)), asked(GOOD._replace(job=999), source=HOSTS[1].ip)

    def lines(datagram: Datagram, now: float, reason: int = p4.REJECT_JOB) -> int:
        return len(logged(caplog, log, datagram, now, reason))

    assert [lines(wrong, 0.0), lines(wrong, 1.0), lines(other, 1.0)] == [1, 0, 1]
    assert lines(asked(GOOD), 1.0, p4.REJECT_SLOT) == 1
    assert [lines(wrong, 0.99 * GAP_S), lines(wrong, GAP_S), lines(wrong, 1.9 * GAP_S)] == [0, 1, 0]


def test_one_batch_logs_a_line_a_sender(caplog: pytest.LogCaptureFixture) -> None:
    log, wrong = refusal_log(), GOOD._replace(job=999)
    datagrams = [asked(wrong), asked(wrong), asked(wrong, source=HOSTS[1].ip)]
    with caplog.at_level(logging.WARNING, "sumwire.aggregator"):
        log.note(load(datagrams, np.random.default_rng(0)), np.full(3, p4.REJECT_JOB, np.uint8), 0.0)
    assert len(caplog.records) == 2


def test_forged_addresses_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log, rng = refusal_log(), np.random.default_rng(0)
    datagrams = [asked(GOOD, source=rng.bytes(4)) for _ in range(2000)]
    with caplog.at_level(logging.WARNING, "sumwire.aggregator"):
        log.note(load(datagrams, rng), np.full(2000, p4.REJECT_ADDRESS, np.uint8), 0.0)
    assert 1 <= len(caplog.records) <= 20


def test_every_reason_of_a_datagram_has_its_line() -> None:
    not_here = {
        p4.REJECT_NONE,
        p4.REJECT_PORT,
        p4.REJECT_CHECKSUM,
        p4.REJECT_NOT_SUMWIRE,
        p4.REJECT_SOURCE,
        p4.REJECT_BUDGET,
    }
    reasons = {value for name, value in vars(p4).items() if name.startswith("REJECT_")}
    assert set(_LINES) == reasons - not_here
