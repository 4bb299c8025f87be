# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics over HTTP on loopback."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from commonlib.metrics import ONLOOKER, MetricsEndpoint, MetricsPortError, Reading
from commonlib.metrics_server import CLIENTS_MOST, Exposition
from helpers.scrape import scrape
from sumwire_protocol import metrics


def two() -> Iterator[Reading]:
    yield Reading(metrics.PROBES, ("7", "0"), 3)
    yield Reading(metrics.RESENT, ("7", "0", "quick"), 5)
    yield Reading(metrics.RESENT, ("7", "0", "timeout"), 11)


def other() -> Iterator[Reading]:
    yield Reading(metrics.PROBES, ("7", '1"\n\\'), 4)


def test_sources_come_and_go() -> None:
    with Exposition(MetricsEndpoint()) as exposition:
        assert exposition.unused
        exposition.add(two)
        exposition.add(other)
        found = scrape(str(exposition.endpoint))
        job, first = ("sumwire_job", "7"), ("worker", "0")
        assert found["sumwire_job_probes_total"] == {(job, first): 3, (job, ("worker", '1"\n\\')): 4}
        assert found["sumwire_job_resent_packets_total"] == {
            (("cause", "quick"), job, first): 5,
            (("cause", "timeout"), job, first): 11,
        }
        exposition.remove(two)
        assert set(scrape(str(exposition.endpoint))) == {"sumwire_job_probes_total"}
    with pytest.raises(urllib.error.URLError):
        scrape(str(exposition.endpoint))


def test_numbers_are_read_at_each_scrape() -> None:
    now = [1.0]
    with Exposition(MetricsEndpoint()) as exposition:
        exposition.add(lambda: [Reading(metrics.IN_FLIGHT, ("7", "0"), now[0])])
        for value in (1.0, 4.0, 0.0):
            now[0] = value
            assert list(scrape(str(exposition.endpoint))["sumwire_job_in_flight_chunks"].values()) == [value]


def test_a_socket_of_another_program() -> None:
    given = socket.create_server(("127.0.0.1", 0))
    address, port = given.getsockname()
    with Exposition(MetricsEndpoint(socket=given.detach())) as exposition:
        assert exposition.endpoint == MetricsEndpoint(address, port)
        exposition.add(two)
        assert "sumwire_job_probes_total" in scrape(f"{address}:{port}")


def test_a_port_that_is_taken() -> None:
    with (
        Exposition(MetricsEndpoint()) as first,
        pytest.raises(MetricsPortError, match=r"in use; name an address .* free port"),
    ):
        Exposition(first.endpoint)


def test_the_last_numbers_are_scraped(monkeypatch: pytest.MonkeyPatch) -> None:
    """remove() returns only after a scrape that began later, where it is told to wait for one."""
    monkeypatch.setenv("SUMWIRE_METRICS_LAST_S", "60")
    entered = threading.Event()

    def source() -> Iterator[Reading]:
        entered.set()
        return two()

    with Exposition(MetricsEndpoint()) as exposition:
        exposition.add(source)
        scrape(str(exposition.endpoint))
        entered.clear()
        removing = threading.Thread(target=exposition.remove, args=[source])
        removing.start()
        found = {}
        while removing.is_alive():
            found = scrape(str(exposition.endpoint)) or found
            removing.join(0.01)
        assert entered.is_set()
        assert found["sumwire_job_probes_total"]
        assert exposition.unused


def test_who_only_looks_on_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with Exposition(MetricsEndpoint()) as exposition:
        exposition.add(two)
        asked = urllib.request.Request(f"http://{exposition.endpoint}/metrics", headers={"User-Agent": ONLOOKER})
        monkeypatch.setenv("SUMWIRE_METRICS_LAST_S", "1")
        looked: list[bytes] = []

        def look() -> None:
            looked.append(urllib.request.urlopen(asked, timeout=10).read())

        looking = threading.Timer(0.2, look)
        looking.start()
        assert exposition.last_scrape() is False
        looking.join()
        assert b"sumwire_job_probes_total" in looked[0]


def test_nobody_who_scrapes_is_waited_for_by_default() -> None:
    with Exposition(MetricsEndpoint()) as exposition:
        assert exposition.last_scrape() is False


def test_other_methods_are_refused() -> None:
    with Exposition(MetricsEndpoint()) as exposition:
        request = urllib.request.Request(f"http://{exposition.endpoint}/metrics", data=b"x", method="POST")
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(request, timeout=10)


def test_a_crowd_of_idle_clients_keeps_nobody_out() -> None:
    with Exposition(MetricsEndpoint()) as exposition, contextlib.ExitStack() as stack:
        exposition.add(two)
        where = (exposition.endpoint.address, exposition.endpoint.port)
        for _ in range(2 * CLIENTS_MOST):
            idle = stack.enter_context(socket.create_connection(where, timeout=10))
            idle.sendall(b"GET /metrics HTTP/1.0\r\nA: b\r\n")
        assert "sumwire_job_probes_total" in scrape(str(exposition.endpoint))


def test_another_site_s_name_for_the_loopback_address_reads_nothing() -> None:
    with Exposition(MetricsEndpoint()) as exposition:
        exposition.add(two)
        where = (exposition.endpoint.address, exposition.endpoint.port)
        for host, status in (("evil.example", 403), (f"evil.example:{where[1]}", 403), ("[", 403), ("localhost", 200)):
            connection = http.client.HTTPConnection(*where, timeout=10)
            connection.request("GET", "/metrics", headers={"Host": host})
            assert connection.getresponse().status == status, host
            connection.close()
