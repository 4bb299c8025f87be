# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Crowds of callers, silent or loud, keep nobody out."""

from __future__ import annotations

import queue
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from fuzz.p4runtime.__main__ import Campaign
from fuzz.p4runtime.load_test import BEGINNINGS, CROWD_SIZES, run_load_test, silent_connections
from google.rpc import code_pb2
from helpers.certificates import authority
from helpers.p4runtime.client import DEVICE_ID, PROGRAMS, TIMEOUT_SECONDS, Controller, Program, code_of, insert
from helpers.p4runtime.messages import cell
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc
from softswitch.p4runtime import server as module
from softswitch.p4runtime.read import MAX_STEPS
from softswitch.p4runtime.rpcs import MAX_ANSWER_BYTES, MAX_READS, MAX_WAITING
from softswitch.p4runtime.server import P4RuntimeServer, ServerTls, allow_connections, serve
from softswitch.runtime.entries import CounterValue, Entry
from softswitch.switch import SoftSwitch

COUNT = 40 * len(BEGINNINGS)


def hasten(monkeypatch: pytest.MonkeyPatch, option: str, divisor: int) -> None:
    """A time of the server is divided: a test does not wait as long. Where the option is gone nothing changes."""
    options = tuple((name, value // divisor if name == option else value) for name, value in module._OPTIONS)
    monkeypatch.setattr(module, "_OPTIONS", options)


@pytest.fixture
def quick_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch, "grpc.server_handshake_timeout_ms", 10)


@pytest.fixture
def quick_idleness(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch, "grpc.max_connection_idle_ms", 100)


@contextmanager
def served(tls: ServerTls | None = None) -> Iterator[str]:
    """The address of a server."""
    server = serve(SoftSwitch(engine="python"), "127.0.0.1:0", DEVICE_ID, tls=tls)
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        server.stop()


def answered(channel: grpc.Channel) -> None:
    p4runtime_pb2_grpc.P4RuntimeStub(channel).Capabilities(p4rt.CapabilitiesRequest(), timeout=TIMEOUT_SECONDS)


def wait_for_end(connection: socket.socket) -> None:
    """Raises TimeoutError where the server leaves the connection open."""
    connection.settimeout(TIMEOUT_SECONDS)
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass


@pytest.mark.usefixtures("quick_handshakes")
def test_connections_without_a_call() -> None:
    with served() as address, silent_connections(address, DEVICE_ID, COUNT) as connections:
        with grpc.insecure_channel(address) as channel:
            answered(channel)
        for connection in connections:
            wait_for_end(connection)


@pytest.mark.openssl
@pytest.mark.usefixtures("quick_handshakes")
def test_connections_without_a_handshake(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    own, client = ca.sign("switch"), ca.sign("client")
    tls = ServerTls(own.certificate, own.key, ca.certificate, client_auth=True)
    with served(tls) as address, silent_connections(address, DEVICE_ID, COUNT) as connections:
        files = (ca.certificate, client.key, client.certificate)
        credentials = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
        with grpc.secure_channel(address, credentials) as channel:
            answered(channel)
        for connection in connections:
            wait_for_end(connection)


@pytest.mark.usefixtures("quick_idleness")
def test_a_connection_without_calls_is_ended_and_its_client_comes_again() -> None:
    was_ready, idle = threading.Event(), threading.Event()

    def watch(state: grpc.ChannelConnectivity) -> None:
        if state is grpc.ChannelConnectivity.IDLE and was_ready.is_set():
            idle.set()

    with served() as address, grpc.insecure_channel(address) as channel:
        answered(channel)
        was_ready.set()
        channel.subscribe(watch)
        assert idle.wait(TIMEOUT_SECONDS)
        answered(channel)


def test_files_for_all_connections() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
    try:
        allow_connections()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.long
def test_a_load_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short form: fewer callers. `make fuzz-p4runtime` has as many as there may be."""
    for kind in CROWD_SIZES:
        monkeypatch.setitem(CROWD_SIZES, kind, 20)
    campaign = Campaign(PROGRAMS / "tables.p4info.txtpb", PROGRAMS / "tables.json", 1, "soft")
    result = run_load_test(campaign.config, "python")
    assert set(result["answers_s"]) == {"nothing", *(f"20 {kind}" for kind in CROWD_SIZES)}
    assert result["grown_mib"] < 100


CELLS = 8192
COPIES = 512
#: The longest read that is not refused, in whole counters.
MOST = (MAX_STEPS - 1) // (CELLS + 1)
CROWD = 30
#: Far longer than the server takes to end what is too much; after it a call that nobody ended fails.
CROWD_SECONDS = 40.0
READ = "/p4.v1.P4Runtime/Read"
PIPELINE = "/p4.v1.P4Runtime/GetForwardingPipelineConfig"
STREAM = "/p4.v1.P4Runtime/StreamChannel"
UNARY = ("Write", "SetForwardingPipelineConfig", "GetForwardingPipelineConfig", "Capabilities")
NO_SHARING = (("grpc.use_local_subchannel_pool", 1),)
#: Of a client that takes no more than it has asked for: what comes before that stays with the server.
TAKES_LITTLE = (*NO_SHARING, ("grpc.http2.lookahead_bytes", 1), ("grpc.http2.bdp_probe", 0))


class Vast(SoftSwitch):
    """Has large counters and counts how often a cell of them is read; every row of a table is there many times."""

    def __init__(self) -> None:
        super().__init__(engine="python")
        self.looks = 0

    def entries(self, table: str) -> list[Entry]:
        return super().entries(table) * COPIES

    def counter_size(self, counter: str) -> int:
        return CELLS

    def read_counter(self, counter: str, index: int) -> CounterValue:
        self.looks += 1
        return CounterValue(1, 2)


@pytest.fixture
def vast() -> Vast:
    return Vast()


@pytest.fixture
def server(vast: Vast) -> Iterator[P4RuntimeServer]:
    server = serve(vast, "127.0.0.1:0", DEVICE_ID)
    yield server
    server.stop()


@pytest.fixture
def primary(server: P4RuntimeServer, program: Program) -> Iterator[Controller]:
    controller = Controller(server.port)
    controller.become(1)
    controller.set_pipeline(program.config())
    yield controller
    controller.close()


@pytest.fixture
def channels(server: P4RuntimeServer) -> Iterator[list[grpc.Channel]]:
    """Connections of the crowd."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{server.port}", options=NO_SHARING))
            for _ in range(CROWD)
        ]


def wildcards(times: int) -> bytes:
    """A ReadRequest for all counters so many times, as bytes."""
    asked = p4rt.Entity(counter_entry=p4rt.CounterEntry())
    return bytes(p4rt.ReadRequest(device_id=DEVICE_ID, entities=[asked] * times).SerializeToString())


def consumed(calls: list[Any]) -> tuple[queue.Queue[Any], list[threading.Thread]]:
    """Threads that read the answers, and the error that each call ends with."""
    ends: queue.Queue[Any] = queue.Queue()

    def consume(call: Any) -> None:
        try:
            for _ in call:
                pass
        except grpc.RpcError as error:
            ends.put(error)

    threads = [threading.Thread(target=consume, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    return ends, threads


def everything_else(server: P4RuntimeServer, primary: Controller, program: Program) -> None:
    """One call of every kind, each within its deadline, and another controller that comes and goes."""
    primary.stub.Capabilities(p4rt.CapabilitiesRequest(), timeout=TIMEOUT_SECONDS)
    primary.stub.GetForwardingPipelineConfig(
        p4rt.GetForwardingPipelineConfigRequest(device_id=DEVICE_ID), timeout=TIMEOUT_SECONDS
    )
    entry = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))
    primary.write(insert(entry))
    assert primary.read_entries(program.entry("exact_t", dst=("exact", b"\x01"))) == [entry] * COPIES
    primary.write(p4rt.Update(type=p4rt.Update.DELETE, entity=p4rt.Entity(table_entry=entry)))
    other = Controller(server.port)
    assert other.become(0).status.code == code_pb2.ALREADY_EXISTS
    other.close()


def test_a_read_of_402_bytes_that_asks_for_all_counters_100_times(primary: Controller, vast: Vast) -> None:
    request = wildcards(100)
    assert len(request) == 402
    with pytest.raises(grpc.RpcError) as refused:
        list(primary.channel.unary_stream(READ)(request, timeout=TIMEOUT_SECONDS))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.value.details() == (
        "one read may look at 262144 rows and cells, and this one asks for more: split it, by table, counter or index"
    )
    assert vast.looks == 0


def test_filtered_rows_count_too(primary: Controller, program: Program) -> None:
    primary.write(insert(program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))))
    table = program.id("tables", "exact_t")
    none_passes = p4rt.Entity(table_entry=p4rt.TableEntry(table_id=table, controller_metadata=5))
    assert primary.read(none_passes) == []
    refused = code_of(lambda: primary.read(*[none_passes] * (MAX_STEPS // COPIES)))
    assert refused == "RESOURCE_EXHAUSTED"


def test_a_request_too_long_to_take_apart(primary: Controller) -> None:
    assert code_of(lambda: primary.read(*[p4rt.Entity()] * 140_000)) == "INVALID_ARGUMENT"


def test_long_reads_do_not_hold_up_others_and_end_with_their_callers(
    server: P4RuntimeServer, vast: Vast, primary: Controller, program: Program, channels: list[grpc.Channel]
) -> None:
    calls = [channel.unary_stream(READ)(wildcards(MOST)) for channel in channels]
    ends, threads = consumed(calls)
    everything_else(server, primary, program)
    assert ends.empty()  # none of them was done in the meantime
    for call in calls:
        call.cancel()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
    assert [ends.get_nowait().code() for _ in calls] == [grpc.StatusCode.CANCELLED] * CROWD
    for _ in range(1000):
        before = vast.looks
        assert len(primary.read(cell(program, 3))) == 1
        if vast.looks == before + 1:
            return
    raise AssertionError("the switch reads on for callers that have gone")


def test_readers_that_do_not_read(
    server: P4RuntimeServer, primary: Controller, program: Program, channels: list[grpc.Channel]
) -> None:
    """Each has a part of its answer, and there flow control stops. The status of one that is ended may not get past it:
    then it is cancelled."""
    calls = [channel.unary_stream(READ)(wildcards(MOST)) for channel in channels for _ in range(2)]
    everything_else(server, primary, program)
    for call in calls:  # all have begun before one goes on
        call.initial_metadata()
    ends, threads = consumed(calls)
    for _ in calls[MAX_READS:]:
        error = ends.get(timeout=CROWD_SECONDS)
        assert error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED)
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            assert error.details().endswith("this one was the longest: read again, or less at a time")
    for call in calls:
        call.cancel()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)


def test_a_read_that_is_ended_in_its_first_part(server: P4RuntimeServer, primary: Controller, program: Program) -> None:
    """Its caller has not taken that part yet, and is told all the same why it ends."""
    entry = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))
    entry.metadata = bytes(1000)
    primary.write(insert(entry))
    entity = p4rt.Entity(table_entry=program.entry("exact_t"))
    request = p4rt.ReadRequest(device_id=DEVICE_ID, entities=[entity] * 400)
    with grpc.insecure_channel(f"127.0.0.1:{server.port}", options=TAKES_LITTLE) as channel:
        read = channel.unary_stream(READ)
        call = read(request.SerializeToString(), timeout=TIMEOUT_SECONDS)
        # This one has its turn after that one's first.
        assert primary.read_entries(p4rt.TableEntry(table_id=program.id("tables", "lpm_t"))) == []
        others = [read(request.SerializeToString()) for _ in range(MAX_READS)]
        for other in others:  # all have begun before this one goes on
            other.initial_metadata()
        with pytest.raises(grpc.RpcError) as ended:
            list(call)
        assert ended.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert ended.value.details().endswith("this one was the longest: read again, or less at a time")
        for other in others:
            other.cancel()


def test_callers_that_do_not_take_the_program(server: P4RuntimeServer, primary: Controller, program: Program) -> None:
    """A request of some 20 bytes has an answer of megabytes, which stays in memory until its caller takes it."""
    config, most = program.config(), 3
    config.p4_device_config += b" " * (MAX_ANSWER_BYTES // (most + 1))
    primary.set_pipeline(config)
    request = p4rt.GetForwardingPipelineConfigRequest(device_id=DEVICE_ID)
    with grpc.insecure_channel(
        f"127.0.0.1:{server.port}", options=(*TAKES_LITTLE, ("grpc.max_receive_message_length", -1))
    ) as channel:
        ask = channel.unary_stream(PIPELINE)
        calls = []
        for _ in range(2 * most):
            calls.append(ask(request.SerializeToString(), timeout=TIMEOUT_SECONDS))
            # The beginning of its answer has come, or its end: calls made together reach the switch in any order.
            calls[-1].initial_metadata()
        assert [call.code() for call in calls[most:]] == [grpc.StatusCode.RESOURCE_EXHAUSTED] * most
        assert calls[most].details().endswith("ask again, or for less (P4INFO_AND_COOKIE)")
        # What a controller asks for is short.
        request.response_type = p4rt.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE
        primary.stub.GetForwardingPipelineConfig(request, timeout=TIMEOUT_SECONDS)
        for call in calls[:most]:
            [answer] = call
            assert p4rt.GetForwardingPipelineConfigResponse.FromString(answer).config == config
        request.response_type = p4rt.GetForwardingPipelineConfigRequest.ALL
        assert len(list(ask(request.SerializeToString(), timeout=TIMEOUT_SECONDS))) == 1


def test_a_program_replaced_during_a_read(primary: Controller, vast: Vast, program: Program) -> None:
    answers = primary.channel.unary_stream(READ)(wildcards(MOST), timeout=TIMEOUT_SECONDS)
    next(answers)
    primary.set_pipeline(program.config())
    with pytest.raises(grpc.RpcError) as ended:
        for _ in answers:
            pass
    assert ended.value.code() is grpc.StatusCode.ABORTED
    assert ended.value.details() == "the program was replaced during the read: read again"


def never(released: threading.Event) -> Iterator[bytes]:
    released.wait()
    yield from ()


def test_a_thousand_calls_that_say_nothing(
    server: P4RuntimeServer, primary: Controller, program: Program, channels: list[grpc.Channel]
) -> None:
    """Streams without an election, and calls of every other kind without their message."""
    released = threading.Event()
    calls: list[Any] = []
    try:
        for number in range(1000):
            channel = channels[number % CROWD]
            method = UNARY[number % 5] if number % 5 < len(UNARY) else "StreamChannel"
            call = channel.stream_stream(f"/p4.v1.P4Runtime/{method}")
            calls.append(call(never(released), timeout=CROWD_SECONDS))
        for call in calls[: len(calls) - MAX_WAITING - 200]:  # calls of several connections arrive in any order
            assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert call.details().endswith("begin each call with its message, and read what it answers")
        everything_else(server, primary, program)
    finally:
        released.set()
        for call in calls:
            call.cancel()


def test_streams_that_send_nonsense_and_do_not_read(
    server: P4RuntimeServer, primary: Controller, program: Program, channels: list[grpc.Channel]
) -> None:
    """Each message would be answered by an error of its size; they are not taken any more when answers wait."""
    nonsense = p4rt.StreamMessageRequest(packet=p4rt.PacketOut(payload=bytes(1 << 19))).SerializeToString()
    released = threading.Event()

    def chatter() -> Iterator[bytes]:
        while not released.is_set():
            yield nonsense

    calls = [channel.stream_stream(STREAM)(chatter()) for channel in channels[:4]]
    everything_else(server, primary, program)
    released.set()
    for call in calls:
        call.cancel()
