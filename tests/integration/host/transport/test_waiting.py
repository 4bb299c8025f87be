# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a worker finds out while it waits, and at the start: a silent switch, refusals, narrow paths, taken ports."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Collection
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import numpy as np
import pytest
from golden import model
from helpers.transport.udp_bridge import SILENCE_S, TABLE, Bridge, configs, golden_switch, job_mapping, run_workers
from sumwire.errors import (
    AddressError,
    DeadlineError,
    InterruptedJobError,
    JobBusyError,
    MismatchError,
    OrderError,
    RefusedError,
    StaleRunError,
    SumwireError,
    SwitchLostError,
)
from sumwire.job.handshake import join
from sumwire.transport.options import Alone, ExchangeOptions, TransportOptions
from sumwire.transport.switch_answers import SwitchState, is_hello_answer
from sumwire.transport.udp import Transport
from sumwire.wire.packets import HEADER_BYTES, Header, headers, pack
from sumwire_protocol import constants as p4

PAYLOAD = np.ones((3, 4, 128), np.uint8)
SOON = TransportOptions(silence_s=SILENCE_S)


def joined(mapping: dict[str, Any], worker: int) -> Any:
    config = configs(mapping)[worker]
    with Transport(config, SOON) as transport:
        return join(transport, config, {}, timeout_policy=Alone(10.0))


def changed(mapping: dict[str, Any], **fields: Any) -> model.GoldenSwitch:
    switch = golden_switch(mapping)
    switch.jobs = tuple(replace(job, **fields) for job in switch.jobs)
    return switch


class Log:
    """A time-out policy that takes down what it is asked, and gives up after ``most`` questions."""

    def __init__(self, most: int) -> None:
        self.missing: list[Collection[int] | None] = []
        self.lost: list[SwitchLostError] = []
        self._most = most

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        self.missing.append(missing)
        if len(self.missing) == self._most:
            raise InterruptedError

    def switch_lost(self, error: SwitchLostError) -> None:
        self.lost.append(error)


def test_hello_tells_the_state_of_slot_0() -> None:
    mapping = job_mapping(2, 8)
    with Bridge(mapping, changed(mapping, digest=0x12345678)), Transport(configs(mapping)[1]) as transport:
        assert transport.hello(5.0) == SwitchState(0, 0, False, 0x12345678, p4.PROGRAM_REVISION, 1)
        with Transport(configs(mapping)[0]) as other:
            other.rebase(77)
            other.start(p4.OP_THC, PAYLOAD)
            assert transport.hello(5.0) == SwitchState(77, 1, False, 0x12345678, p4.PROGRAM_REVISION, 1)


def test_a_generation_that_is_none_is_no_answer() -> None:
    config = configs(job_mapping(2, 8))[1]
    for token, is_one in ((0, True), (p4.TOKENS_OF_RUNS - 1, True), (p4.TOKENS_OF_RUNS, False), (2**64 - 1, False)):
        head = Header(p4.KIND_INFORM, p4.OP_NONE, config.job, slot=0, worker=config.seat, token=token)
        row = np.frombuffer(pack(head), np.uint8)[None]
        assert is_hello_answer(config, HEADER_BYTES, headers(row)[0]) is is_one


def test_a_silent_switch_at_the_start() -> None:
    mapping = job_mapping(2, 8)
    with pytest.raises(SwitchLostError, match=r"worker 0 \(127\..*6 questions in 0\.6 s.*ip route get 127") as caught:
        joined(mapping, 0)
    assert TransportOptions().silence_s == 3.0, "where a job says nothing else (docs/host.md)"
    assert caught.value.job == mapping["job"]
    assert "MTU, at least 1084 bytes" in str(caught.value)


def test_patience_learns_who_is_missing_and_that_the_switch_is_silent() -> None:
    mapping = job_mapping(3, 8)
    silent = threading.Event()
    timeout_policy = Log(24)
    options = ExchangeOptions(timeout_policy=timeout_policy)
    with (
        Bridge(mapping, golden_switch(mapping), deaf=lambda *_: silent.is_set()),
        Transport(configs(mapping)[0], SOON) as transport,
    ):
        exchange = transport.start(p4.OP_THC, PAYLOAD, options=options)
        while (1, 2) not in timeout_policy.missing:
            exchange.progress(block=True)
        silent.set()
        with pytest.raises(InterruptedError):
            exchange.finish()
    assert timeout_policy.lost
    assert "does not answer worker 0" in str(timeout_policy.lost[0])


TABLE_OF_15 = (*TABLE[:7], 15, *TABLE[8:])


@pytest.mark.parametrize(
    ("workers", "fields", "error", "match"),
    [
        (2, {"number": 99}, RefusedError, r"JOB: the job is not on the switch; `sumwire-con"),
        (2, {"digest": 5}, MismatchError, r"digest 00000005\) is not that of the job file \(digest"),
        (1, {"table": TABLE_OF_15}, MismatchError, r"value 7, indices \[7\]: the sum is 15, by the job file 14; apply"),
        (2, {"quorum": 1}, MismatchError, r"has 1 of 2 contributions: the quorum at the switch"),
    ],
    ids=["no job", "another digest", "another table", "another quorum"],
)
def test_another_job_at_the_switch_is_told_at_the_start(
    workers: int, fields: dict[str, Any], error: type[SumwireError], match: str
) -> None:
    mapping = job_mapping(workers, 8)
    with Bridge(mapping, changed(mapping, **fields)), pytest.raises(error, match=match) as caught:
        joined(mapping, 0)
    if isinstance(caught.value, RefusedError):
        assert (caught.value.reason, caught.value.name) == (p4.REJECT_JOB, "JOB")


def test_a_refusal_in_the_middle_is_a_lost_switch() -> None:
    mapping = job_mapping(1, 8)
    switch = golden_switch(mapping)
    with Bridge(mapping, switch), Transport(configs(mapping)[0]) as transport:
        transport.exchange(p4.OP_THC, PAYLOAD)
        switch.jobs = ()
        with pytest.raises(SwitchLostError, match="JOB: the job is not on the switch"):
            transport.exchange(p4.OP_THC, PAYLOAD)


def test_another_configuration_in_mid_run_is_noticed_by_the_first_packets_that_are_lost() -> None:
    mapping = job_mapping(1, 8)
    digest, lost = configs(mapping)[0].digest, chain([True], repeat(False))
    with Bridge(mapping, changed(mapping, digest=digest)) as bridge, Transport(configs(mapping)[0]) as transport:
        transport.exchange(p4.OP_THC, PAYLOAD)
        bridge.switch = changed(mapping, digest=digest ^ 1)
        bridge.deaf = lambda *_: next(lost)
        with pytest.raises(MismatchError, match="digest"):
            for _ in range(20):
                transport.exchange(p4.OP_THC, PAYLOAD)


def test_another_call_is_an_order_error_and_nobody_gets_a_mixed_sum() -> None:
    mapping = job_mapping(2, 8)

    def work(worker: int) -> str:
        options = TransportOptions(deadline_s=0.5)
        with Transport(configs(mapping)[worker], options) as transport:
            with pytest.raises((OrderError, DeadlineError)) as caught:
                transport.exchange(p4.OP_THC, PAYLOAD, bucket=worker)
            return type(caught.value).__name__

    with Bridge(mapping, golden_switch(mapping)):
        assert sorted(run_workers(work, 2)) == ["DeadlineError", "OrderError"]


def test_the_right_digest() -> None:
    mapping = job_mapping(1, 8)
    with Bridge(mapping, changed(mapping, digest=configs(mapping)[0].digest)):
        assert joined(mapping, 0).first_round == 0


def test_a_result_that_lacks_a_worker_is_refused_in_any_exchange() -> None:
    mapping = job_mapping(2, 8)
    with (
        Bridge(mapping, changed(mapping, quorum=1)),
        Transport(configs(mapping)[0]) as transport,
        pytest.raises(MismatchError, match="1 of 2 contributions"),
    ):
        transport.exchange(p4.OP_THC, PAYLOAD)


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_path_on_which_whole_packets_vanish(way: str) -> None:
    mapping = job_mapping(1, 8)

    def long(_: int, data: bytes) -> bool:
        return len(data) > 500

    lost = {"deaf": long} if way == "up" else {"mute": long}
    with (
        Bridge(mapping, golden_switch(mapping), **lost),
        pytest.raises(SwitchLostError, match=r"too narrow: it answers short packets.* need 1084 bytes"),
    ):
        joined(mapping, 0)


def test_another_run_is_noticed_while_waiting() -> None:
    mapping = job_mapping(2, 8)
    with Bridge(mapping, golden_switch(mapping)), Transport(configs(mapping)[0]) as transport:
        transport.rebase(1)
        exchange = transport.start(p4.OP_THC, PAYLOAD[:1], bucket=1)
        with Transport(configs(mapping)[1]) as other:
            other.rebase(50)
            other.start(p4.OP_THC, PAYLOAD[:1])
            with pytest.raises(StaleRunError, match="another run of the job has begun") as caught:
                exchange.finish()
    assert (caught.value.slot, caught.value.round) == (0, 50)


def test_a_second_run_at_once_and_an_address_of_another_host() -> None:
    mapping = job_mapping(2, 8)
    with (
        Transport(configs(mapping)[0]),
        pytest.raises(JobBusyError, match=rf"worker 0: {mapping['addresses'][0]['ip']}, UDP port 21335: another"),
    ):
        Transport(configs(mapping)[0])
    mapping["addresses"][0]["ip"] = "192.0.2.7"
    with pytest.raises(AddressError, match=r"job 7, worker 0: 192\.0\.2\.7, UDP port 21335: the address is not this"):
        Transport(configs(mapping)[0])


def test_ctrl_c_ends_a_wait_and_the_next_call_says_so() -> None:
    mapping = job_mapping(2, 8)
    timeout_policy = Log(0)
    timeout_policy.waiting = lambda *_: os.kill(os.getpid(), signal.SIGINT)  # type: ignore[method-assign]
    with Bridge(mapping, golden_switch(mapping)), Transport(configs(mapping)[0]) as transport:
        with pytest.raises(KeyboardInterrupt):
            transport.exchange(p4.OP_THC, PAYLOAD, options=ExchangeOptions(timeout_policy=timeout_policy))
        with pytest.raises(InterruptedJobError, match=r"3 chunks have no result; close the job and make a new one"):
            transport.exchange(p4.OP_THC, PAYLOAD)
        transport.restart()
        transport.rebase(16)
        assert transport.newest_round == 15


def test_a_run_of_fewer_workers_names_its_quorum() -> None:
    mapping = {**job_mapping(3, 8), "workers_min": 2}
    switch = changed(mapping, quorum_least=2)

    def work(worker: int) -> Any:
        config = configs(mapping)[worker].for_run(2)
        with Transport(config) as transport:
            join(transport, config, {}, timeout_policy=Alone(10.0))
            return transport.exchange(p4.OP_THC, PAYLOAD).counts.tolist()

    with Bridge(mapping, switch):
        assert run_workers(work, 2) == [[2, 2, 2]] * 2
