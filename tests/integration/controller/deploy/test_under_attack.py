# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`apply` and `watch`'s question are answered while others ask the switch for much or say nothing, and its memory does
not grow."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from helpers.controller.config_texts import star, text
from helpers.controller.real_switches import soft_switch_process
from p4.v1 import p4runtime_pb2
from sumwire_controller.deploy.channel import LivenessProbe
from sumwire_controller.deploy.operations import apply, read_status
from sumwire_controller.model import Config, Switch
from sumwire_controller.parse.files import parse_config

DEVICE_ID = 1
ANSWER_S = 10.0
MEMORY = 50 << 20
READS = 30
SILENT = 1000
CONNECTIONS = 20


@pytest.fixture(scope="module")
def switch() -> Iterator[tuple[subprocess.Popen[str], Config]]:
    """A switch in a process of its own that runs Sumwire's program, and its configuration."""
    with soft_switch_process(DEVICE_ID) as (process, address):
        config = parse_config(text(star()).replace("127.0.0.1:9559", address))
        apply(config)
        yield process, config


@pytest.fixture
def crowd(switch: tuple[subprocess.Popen[str], Config]) -> Iterator[list[grpc.Channel]]:
    options = (("grpc.use_local_subchannel_pool", 1),)
    with ExitStack() as stack:
        yield [
            stack.enter_context(grpc.insecure_channel(switch[1].switch.grpc, options=options))
            for _ in range(CONNECTIONS)
        ]


def resident(process: subprocess.Popen[str]) -> int:
    """The process's memory in bytes."""
    pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def check_others_are_answered(config: Config) -> None:
    probe = LivenessProbe(Switch("s1", config.switch.grpc, DEVICE_ID), ANSWER_S)
    assert probe.answers()
    probe.close()
    assert not apply(config, timeout=ANSWER_S).changed
    assert apply(config, timeout=ANSWER_S, renew=[config.jobs[0].name]).changed
    assert read_status(config, timeout=ANSWER_S).in_sync


@pytest.mark.parametrize("counters", [100, 31], ids=["402 bytes", "as much as one may"])
def test_reads_of_all_counters(
    switch: tuple[subprocess.Popen[str], Config], crowd: list[grpc.Channel], counters: int
) -> None:
    process, config = switch
    before = resident(process)
    asked = p4runtime_pb2.Entity(counter_entry=p4runtime_pb2.CounterEntry())
    request = p4runtime_pb2.ReadRequest(device_id=DEVICE_ID, entities=[asked] * counters).SerializeToString()
    calls = [crowd[k % CONNECTIONS].unary_stream("/p4.v1.P4Runtime/Read")(request) for k in range(READS)]
    threads = [threading.Thread(target=_consume, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    check_others_are_answered(config)
    grown = resident(process) - before
    for call in calls:
        call.cancel()
    for thread in threads:
        thread.join()
    assert grown <= MEMORY


def _consume(call: Any) -> None:
    try:
        for _ in call:
            pass
    except grpc.RpcError as error:
        assert error.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_streams_that_say_nothing(switch: tuple[subprocess.Popen[str], Config], crowd: list[grpc.Channel]) -> None:
    process, config = switch
    before = resident(process)
    released = threading.Event()

    def silence() -> Iterator[bytes]:
        released.wait()
        yield from ()

    calls: list[Any] = []
    try:
        for k in range(SILENT):
            calls.append(crowd[k % CONNECTIONS].stream_stream("/p4.v1.P4Runtime/StreamChannel")(silence()))
        check_others_are_answered(config)
        assert resident(process) - before <= MEMORY
    finally:
        released.set()
        for call in calls:
            call.cancel()
