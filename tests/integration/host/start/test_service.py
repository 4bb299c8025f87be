# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The service of `sumwire up`: what it tells whom, and what it bears."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from helpers.transport.udp_bridge import addresses
from sumwire.config import jobfile, parse_job
from sumwire.errors import ConfigError
from sumwire.start import rank_placement, service
from sumwire.start.addresses import own_addresses
from sumwire.start.errors import AbsentServiceError, ReachError, ServiceError
from sumwire.start.job_request import JobRequest, job_file_for
from sumwire.start.service import PROBE, ServiceAddress, serving


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    aggregator, ips = addresses(2)
    return job_file_for(ips, aggregator, JobRequest())


@pytest.fixture(scope="module")
def served(job: dict[str, Any]) -> Iterator[ServiceAddress]:
    address = job["addresses"][0]["aggregator"]
    with serving(job, address, 0) as port:
        yield ServiceAddress(address, port)


def request(served: ServiceAddress, text: bytes) -> bytes:
    with socket.create_connection((served.host, served.port), timeout=60) as connection:
        connection.sendall(text)
        answer = b""
        while part := connection.recv(4096):
            answer += part
    return answer


def test_the_job_as_it_was_described(served: ServiceAddress, job: dict[str, Any]) -> None:
    assert served.job() == job


@pytest.mark.parametrize("path", ["/", "/job/..", "/etc/passwd", "/jobs"])
def test_nothing_else(served: ServiceAddress, path: str) -> None:
    assert request(served, f"GET {path} HTTP/1.0\r\n\r\n".encode()).startswith(b"HTTP/1.0 404 ")


@pytest.mark.parametrize(
    "text",
    [b"GET " + b"x" * 70_000 + b" HTTP/1.0\r\n\r\n", b"POST /job HTTP/1.0\r\n\r\n", b"\0\r\n\r\n",
     b"GET /job HTTP/1.0\r\n" + b"a: b\r\n" * 200 + b"\r\n"],
    ids=["long", "post", "nul", "headers"],
)  # fmt: skip
def test_bad_requests_end(served: ServiceAddress, text: bytes, job: dict[str, Any]) -> None:
    try:
        answer = request(served, text)
    except ConnectionError:
        answer = b""
    assert b'"addresses"' not in answer
    assert served.job() == job


def test_a_probe_goes_to_a_worker_alone(served: ServiceAddress, job: dict[str, Any]) -> None:
    worker = job["addresses"][1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(60)
        udp.bind((worker["ip"], worker["udp_port"]))
        assert served.probe(worker["ip"], worker["udp_port"])
        assert udp.recv(100) == PROBE
        assert not served.probe(worker["ip"], worker["udp_port"] + 1)
        # An address that is no worker's.
        assert not served.probe(served.host, worker["udp_port"])


def test_callers_that_say_nothing_take_no_place_for_long(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than there are places: the service answers again once they have had their time."""
    monkeypatch.setattr(service, "_CALL_S", 0.5)
    monkeypatch.setattr(service._Handler, "timeout", 0.5)
    address = job["addresses"][0]["aggregator"]
    with serving(job, address, 0) as port:
        silent = [socket.create_connection((address, port), timeout=60) for _ in range(service._CALLERS_MOST + 4)]
        for connection in silent:
            # Its end comes from the service.
            assert connection.recv(100) == b""
            connection.close()
        assert ServiceAddress(address, port).job() == job


def test_callers_that_say_nothing_keep_no_worker_out(job: dict[str, Any]) -> None:
    address = job["addresses"][0]["aggregator"]
    with serving(job, address, 0) as port, contextlib.ExitStack() as stack:
        for _ in range(2 * service._CALLERS_MOST):
            stack.enter_context(socket.create_connection((address, port), timeout=60)).sendall(b"GET ")
        assert ServiceAddress(address, port).job() == job


def test_lines_for_people_are_bounded(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_LINES_MOST", 2)
    lines: list[str] = []
    with serving(job, "127.0.0.1", 0, lines.append) as port:
        for _ in range(4):
            ServiceAddress("127.0.0.1", port).job()
    assert lines == ["127.0.0.1 has asked for the job", "127.0.0.1 has asked for the job, and is not named again"]


def test_another_site_s_name_for_a_loopback_service(job: dict[str, Any]) -> None:
    with serving(job, "127.0.0.1", 0) as port:
        here = ServiceAddress("127.0.0.1", port)
        assert b" 403 " in request(here, b"GET /job HTTP/1.0\r\nHost: evil.example\r\n\r\n")
        assert b" 400 " in request(here, b"GET http://[/job HTTP/1.0\r\n\r\n")


def test_who_answers_opens_no_file_of_this_machine(
    job: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A key is named by its file: no answer names one that is read here."""
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_text("0" * 64)
    monkeypatch.setattr(service, "public", lambda content: content)
    monkeypatch.setattr(jobfile, "read_key", lambda _: pytest.fail("opened"))
    with (
        serving({**job, "key": str(key)}, "127.0.0.1", 0) as port,
        pytest.raises(ServiceError, match=r"a job that has a key"),
    ):
        ServiceAddress("127.0.0.1", port).job()


def test_a_secret_is_not_served(job: dict[str, Any]) -> None:
    with pytest.raises(ServiceError, match="plain HTTP would tell it"), serving({**job, "key": "00"}, "127.0.0.1", 0):
        pass


def test_a_port_that_is_taken(served: ServiceAddress, job: dict[str, Any]) -> None:
    with pytest.raises(ServiceError, match=r"cannot listen at .*--listen"), serving(job, served.host, served.port):
        pass


def test_a_second_job_of_a_script(job: dict[str, Any]) -> None:
    """The first one has the worker's port."""
    config = parse_job(job, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first:
        first.bind((config.own_address.ip, config.own_address.udp_port))
        with pytest.raises(ReachError, match=r"must be closed first: job\.close\(\); another program .* `ss -ulnp`"):
            rank_placement.check_reach(config)


def test_an_address_of_another_machine(job: dict[str, Any]) -> None:
    cure = (
        r"cannot listen at 198\.51\.100\.7:21334: Cannot assign .*: this machine does not have it, .*--listen ADDRESS$"
    )
    with pytest.raises(ServiceError, match=cure), serving(job, "198.51.100.7"):
        pass


def test_a_name_that_is_this_machine_s_own_only_here(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's own name is 127.0.1.1 on the machine itself, where the service does not listen."""
    found = socket.getaddrinfo

    def resolve(host: str, *rest: Any, **more: Any) -> Any:
        return found("127.0.1.1" if host == "server1" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with serving(job, "127.0.0.1", 0) as port:
        with pytest.raises(ServiceError, match=r"Connection refused \(server1 is 127\.0\.1\.1 here, and `sumwire up`"):
            ServiceAddress("server1", port).job()
        assert ServiceAddress("127.0.0.1", port).job() == job


def test_no_service_there(job: dict[str, Any]) -> None:
    with serving(job, "127.0.0.1", 0) as port:
        pass
    with pytest.raises(
        ServiceError, match=r"no service at http://127\.0\.0\.1.*Connection refused; start it: `sumwire up"
    ):
        ServiceAddress("127.0.0.1", port).job()


def test_a_service_whose_aggregator_is_not_ready(job: dict[str, Any]) -> None:
    """Scripts wait for it, and say so once."""
    ready = threading.Event()
    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        ready.set()

    with serving(job, "127.0.0.1", 0, ready=ready) as port:
        served = ServiceAddress("127.0.0.1", port)
        with pytest.raises(AbsentServiceError, match=r"the aggregator of http://127.* is not ready; ask again soon"):
            served.job_within(0, said.append)
        assert served.job_within(60, tell) == job
    assert len(said) == 1 and said[0].startswith("sumwire.init() waits up to 60 s: the aggregator of")


def test_a_service_that_comes_later(job: dict[str, Any]) -> None:
    with serving(job, "127.0.0.1", 0) as port:
        pass
    with ExitStack() as stack:

        def come(line: str) -> None:
            assert "Connection refused; start it: `sumwire up --hosts A,B`" in line
            stack.enter_context(serving(job, "127.0.0.1", port))

        assert ServiceAddress("127.0.0.1", port).job_within(60, come) == job


def test_a_service_at_another_address_of_the_machine(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """MASTER_ADDR is in one network of it, and the job's hosts are in another."""
    monkeypatch.setattr(service, "own_addresses", lambda: ["127.0.0.1", "127.0.0.91", "127.0.0.92"])
    with serving(job, "127.0.0.92", 0) as port:
        places = service.beside(f"127.0.0.1:{port}")
        assert [one.host for one in places] == ["127.0.0.1", "127.0.0.91", "127.0.0.92"]
        assert service.first_of(places, 0, pytest.fail) == (ServiceAddress("127.0.0.92", port), job)
    said: list[str] = []
    with pytest.raises(AbsentServiceError, match=r"no service at http://127\.0\.0\.1:"):
        service.first_of(places, 0.1, said.append)
    assert "waits up to 0.1 s, also at 127.0.0.91, 127.0.0.92: no service" in said[0]
    assert [one.host for one in service.beside("192.0.2.77")] == ["192.0.2.77"], "another machine's addresses"


def test_what_answers_gives_a_terminal_no_orders() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"\x1b]0;pwned\x07\x1b[2J\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(AbsentServiceError, match="pwned") as raised:
            ServiceAddress("127.0.0.1", server.getsockname()[1]).job()
        thread.join()
    assert str(raised.value).isprintable()


def test_addresses_of_this_machine() -> None:
    told = subprocess.run(["ip", "-json", "-4", "address"], capture_output=True, text=True, check=True).stdout
    shown = [one["local"] for link in json.loads(told) for one in link["addr_info"]]
    assert own_addresses() == [address for address in shown if not address.startswith("127.")]


def test_what_does_not_come_later(job: dict[str, Any]) -> None:
    """A name that stands for nothing, and a time that is none."""
    with pytest.raises(ServiceError) as raised:
        ServiceAddress("no-such-host.invalid").job_within(60, pytest.fail)
    assert not isinstance(raised.value, AbsentServiceError)
    no_times: list[Any] = [-1, math.inf, math.nan, "x", None]
    for wait_s in no_times:
        with pytest.raises(ServiceError, match=f"wait_s = {wait_s!r}: must be 0 or more seconds: leave it out for 60"):
            ServiceAddress("127.0.0.1").job_within(wait_s, pytest.fail)


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"format": 3}', b"\xff", b"[" * 70_000])
def test_answers_that_are_no_job(content: bytes, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "public", lambda _: {})
    monkeypatch.setattr(service._Server, "content", property(lambda _: content, lambda *_: None), raising=False)
    with serving(job, "127.0.0.1", 0) as port, pytest.raises((ServiceError, ConfigError)):
        ServiceAddress("127.0.0.1", port).job()
