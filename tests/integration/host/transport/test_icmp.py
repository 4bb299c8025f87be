# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ICMP errors about a worker's and an aggregator's packets, made up by somebody else: anybody can send them."""

from __future__ import annotations

import errno
import socket
import struct
from contextlib import closing, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from commonlib.events import ProgramEvent
from golden import model
from helpers.aggregator.served import every_op_mapping, serving
from helpers.logs import lines_of, of
from helpers.transport.udp_bridge import configs, run_workers
from sumwire import Job
from sumwire.errors import SwitchLostError
from sumwire.transport import link as links
from sumwire.transport.link import Link
from sumwire.transport.stats import JobStats
from sumwire.wire.batch import BatchSocket
from sumwire.wire.messages import send_despite_icmp

UDP = 17
# Type and code: no host, no protocol, no port, too narrow, an isolated host, filtered, a broken header.
ERRORS = [(3, 1), (3, 2), (3, 3), (3, 4), (3, 8), (3, 13), (12, 0)]
NARROW = 552
OPERATIONS = 8


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def icmp(kind: int, code: int, source: tuple[str, int], to: tuple[str, int]) -> bytes:
    """An error about a long packet from ``source`` ``to`` somebody."""
    ends = socket.inet_aton(source[0]) + socket.inet_aton(to[0])
    quoted = struct.pack("!BBHHHBBH", 0x45, 0, 1076, 1, 0x4000, 64, UDP, 0) + ends
    quoted = quoted[:10] + struct.pack("!H", checksum(quoted)) + quoted[12:]
    quoted += struct.pack("!HHHH", source[1], to[1], 1056, 0)
    head = struct.pack("!BBHHH", kind, code, 0, 0, NARROW if (kind, code) == (3, 4) else 0)
    return head[:2] + struct.pack("!H", checksum(head + quoted)) + head[4:] + quoted


@pytest.mark.root
@pytest.mark.parametrize(("kind", "code"), ERRORS)
def test_made_up_errors_end_no_run_and_no_train(kind: int, code: int, caplog: pytest.LogCaptureFixture) -> None:
    mapping = every_op_mapping(2, 64)
    jobs = configs(mapping)
    ends = [(config.own_address.ip, config.own_address.udp_port) for config in jobs]
    switch = (jobs[0].aggregator, model.UDP_PORT)

    def work(worker: int) -> Any:
        means = []
        with Job(jobs[worker]) as job, socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
            for _ in range(OPERATIONS):
                raw.sendto(icmp(kind, code, ends[worker], switch), (ends[worker][0], 0))
                raw.sendto(icmp(kind, code, switch, ends[worker]), (switch[0], 0))
                means.append(float(job.mean(torch.ones(50_000)).mean()))
            return means, job.stats.without_trains

    with serving(mapping):
        for means, without_trains in run_workers(work, 2):
            assert means == pytest.approx([1.0] * OPERATIONS, abs=0.1)
            assert without_trains == 0
    assert not of(lines_of(caplog.records), ProgramEvent.TRAINS_MISSING), "the aggregator's"


@pytest.mark.root
@pytest.mark.parametrize(("kind", "code"), ERRORS[1:])  # of the first the kernel tells nobody
def test_one_that_a_receiving_call_meets_passes(kind: int, code: int) -> None:
    config = configs(every_op_mapping(2, 64))[0]
    own = config.own_address
    with (
        closing(Link(config, JobStats())) as link,
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw,
    ):
        raw.sendto(icmp(kind, code, (own.ip, own.udp_port), (config.aggregator, model.UDP_PORT)), (own.ip, 0))
        assert link.collect() == 0
        assert link.last_failure


def test_a_device_that_takes_no_long_messages_refuses_each_time() -> None:
    """Loopback takes 65,507 bytes. An error that is told once is another one's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.connect(("127.0.0.1", 9))
        with pytest.raises(OSError) as caught:
            send_despite_icmp(lambda: udp.send(bytes(65_508)))
    assert caught.value.errno == errno.EMSGSIZE
    told = iter([OSError(errno.EMSGSIZE, "")])

    def send() -> int:
        for error in told:
            raise error
        return 7

    assert send_despite_icmp(send) == 7


def test_a_path_that_is_narrow_for_a_moment_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it refuses is lost, and sent again."""
    plain, refused = BatchSocket.send, iter([OSError(errno.EMSGSIZE, "")] * 6)

    def send(own: BatchSocket, *arguments: Any) -> int:
        for error in refused:
            raise error
        return plain(own, *arguments)

    monkeypatch.setenv("SUMWIRE_NATIVE", "0")
    monkeypatch.setattr(BatchSocket, "send", send)
    # However busy this machine is.
    monkeypatch.setattr(links, "_NARROW_S", 60.0)
    mapping = every_op_mapping(2, 64)
    jobs = configs(mapping)

    def work(worker: int) -> Any:
        with Job(jobs[worker]) as job:
            return float(job.mean(torch.ones(50_000)).mean()), job.stats.send_failures

    with serving(mapping):
        means, failures = zip(*run_workers(work, 2), strict=True)
    assert means == pytest.approx([1.0, 1.0])
    assert sum(failures) == 6


@pytest.mark.parametrize(("moments", "lost"), [((0.0, 0.5, 0.99), False), ((0.0, 0.5, 1.0), True), ((0.0, 9.0), False)])
def test_a_path_that_stays_narrow_is_an_error(
    moments: tuple[float, ...], lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(own: BatchSocket, *arguments: Any) -> int:
        raise OSError(errno.EMSGSIZE, "")

    monkeypatch.setattr(BatchSocket, "send", send)
    clock = iter(moments)
    with closing(Link(configs(every_op_mapping(2, 64))[0], JobStats())) as link:
        link.load(np.zeros((1, 1056), np.uint8), None, 0)
        monkeypatch.setattr(links, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        with pytest.raises(SwitchLostError, match=r"its MTU is .* need 1084 bytes") if lost else nullcontext():
            for _ in moments:
                assert link.send(np.zeros(1, np.int64), 1) == 1
