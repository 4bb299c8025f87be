# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Descriptions of jobs: slots for the link, and no secret in what is served."""

from __future__ import annotations

import argparse
import math

import pytest
from sumwire.config import parse_job
from sumwire.errors import ConfigError, UsageError
from sumwire.start import addresses, supervisor, up
from sumwire.start.addresses import as_others_know, server_address
from sumwire.start.errors import ServiceError, StartError
from sumwire.start.job_request import JobRequest, job_file_for, public, slots_for
from sumwire.start.service import ServiceAddress
from sumwire.start.up import _hint

HOSTS = [f"10.0.0.{number}" for number in range(1, 9)]


def test_a_job_for_eight_hosts() -> None:
    description = job_file_for(HOSTS, "10.0.0.1", JobRequest(bits=2, number=3))
    config = parse_job(description, 7)
    assert (config.job, config.workers, config.slots, config.own_address.ip) == (3, 8, 512, "10.0.0.8")
    assert config.thc is not None and len(config.thc.table) == 4
    # On the aggregator's own machine.
    assert config.addresses[0].udp_port != config.addresses[1].udp_port == 21335


def test_ops_and_a_kind_of_table() -> None:
    config = parse_job(job_file_for(HOSTS, "10.0.0.1", JobRequest(ops=("thc", "sign"), table="uniform")), 0)
    assert config.ops == ("thc", "sign")
    assert config.thc is not None and config.thc.table == tuple(range(16))


@pytest.mark.parametrize(
    ("gbit", "rtt_ms", "slots"),
    # A result is 42 + 32 + 1024 bytes: 10 Gbit/s and 0.5 ms are 569.2 of them, so 1139 slots in steps of 64.
    [(1, 0.1, 512), (10, 0.5, 1152), (100, 0.2, 4096), (400, 5, 4096)],
)
def test_slots_for_a_link(gbit: float, rtt_ms: float, slots: int) -> None:
    assert slots_for(gbit, rtt_ms) == slots


@pytest.mark.parametrize("gbit", [0, -1, math.inf, math.nan])
def test_no_such_link(gbit: float) -> None:
    with pytest.raises(UsageError, match=f"a link of {gbit:g} .*must be above 0, and finite: leave them out for 10"):
        slots_for(gbit, 1)


def test_ports_of_a_second_job_on_the_same_servers() -> None:
    """The aggregator is on another server, and has its own port."""
    ports = [
        entry["udp_port"]
        for entry in job_file_for(HOSTS[:2] + HOSTS[:1], "10.0.0.9", JobRequest(port=22000))["addresses"]
    ]
    assert ports == [22000, 22000, 22008]
    with pytest.raises(ConfigError, match=r"udp_port = 70000: .*; give another value, or leave it out"):
        job_file_for(HOSTS, "10.0.0.9", JobRequest(port=70000))


def test_no_such_job() -> None:
    with pytest.raises(ConfigError, match="bits"):
        job_file_for(HOSTS, "10.0.0.9", JobRequest(bits=9))
    with pytest.raises(ConfigError, match=r"seat = 32: must be an integer in 0\.\.31"):
        job_file_for(HOSTS * 16, "10.0.0.9", JobRequest())


def test_what_could_be_secret_is_not_served() -> None:
    description = job_file_for(HOSTS, "10.0.0.9", JobRequest())
    assert public(description) == description
    with pytest.raises(ServiceError, match=r"the job has key, .*sumwire\.init\(job=\"FILE\"\)"):
        public({**description, "key": "00ff"})


def test_a_host_that_is_this_machine_s_own_only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's own name is 127.0.1.1 on the machine itself. It gets the address on the way to the others."""
    monkeypatch.setattr(addresses, "source_towards", {"10.0.0.2": "10.0.0.1"}.__getitem__)
    alone = {"a": "127.0.0.1", "b": "127.0.0.2"}
    assert as_others_know(alone) == alone
    assert as_others_know({"a": "127.0.1.1", "b": "10.0.0.2"}) == {"a": "10.0.0.1", "b": "10.0.0.2"}
    for own in ("127.0.1.1", "localhost"):
        with pytest.raises(ServiceError, match=rf"host '{own}' is 127\.0\.1\.1 here, which no other server reaches"):
            as_others_know({own: "127.0.1.1", "b": "10.0.0.2"})


@pytest.mark.parametrize(
    ("host", "rule"),
    [
        ("0.0.0.0", "is no address of one server: write the server's own"),
        ("224.0.0.1", "is no address of one server"),
        ("255.255.255.255", "is no address of one server"),
        ("::1", "is an IPv6 address, and Sumwire's packets are IPv4: give the server an IPv4 address"),
        ("[fe80::1]", "is an IPv6 address"),
        ("10.0.0.300", "must be a name or an IPv4 address, and nothing else: write 10.0.0.1"),
        ("10.0.0.1:21335", "must be a name or an IPv4 address"),
        ("10.0.0.1/24", "must be a name or an IPv4 address"),
        ("", "must be a name or an IPv4 address"),
    ],
)
def test_no_address_of_a_server(host: str, rule: str) -> None:
    with pytest.raises(ServiceError) as raised:
        server_address(host)
    assert rule in str(raised.value) and repr(host) in str(raised.value)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("10.0.0.1", "10.0.0.1", 21334), ("a.example:5", "a.example", 5), ("http://10.0.0.1:77/", "10.0.0.1", 77)],
)
def test_addresses_of_services(text: str, host: str, port: int) -> None:
    assert ServiceAddress.parse(text) == ServiceAddress(host, port)


@pytest.mark.parametrize("text", ["fd00::1", "[fd00::1]", "[fd00::1]:21334", "http://[fd00::1]:21334/"])
def test_no_service_at_an_ipv6_address(text: str) -> None:
    with pytest.raises(ServiceError, match="is an IPv6 address, and Sumwire's packets are IPv4"):
        ServiceAddress.parse(text)


@pytest.mark.parametrize("text", ["", "a:", "a:0", "a:99999", "a:1x", "a b", "user@a", "a/b", "a\nb", ":5"])
def test_no_address_of_a_service(text: str) -> None:
    with pytest.raises(ServiceError, match="must be HOST or HOST:PORT"):
        ServiceAddress.parse(text)


@pytest.mark.parametrize(
    ("listen", "hint"),
    [
        (("10.0.0.1", 21334), "themselves where MASTER_ADDR is 10.0.0.1; elsewhere set SUMWIRE_SERVICE=10.0.0.1"),
        # torch's variable has no room for a port.
        (("10.0.0.1", 77), "scripts find it where SUMWIRE_SERVICE=10.0.0.1:77 is set"),
    ],
)
def test_where_scripts_look(listen: tuple[str, int], hint: str) -> None:
    assert _hint(*listen).endswith(hint)


def test_words_for_ssh_are_quoted() -> None:
    command = supervisor.by_ssh("user@b", "'/opt/a b/aggregator' -v", "--report", "$(reboot)")
    assert command[-3:] == ["--", "user@b", "'/opt/a b/aggregator' -v - --with-parent --report '$(reboot)'"]


@pytest.mark.parametrize("host", ["", "-oProxyCommand=reboot", "a\nb"])
def test_no_host_for_ssh(host: str) -> None:
    with pytest.raises(StartError, match="must be HOST or USER@HOST"):
        supervisor.by_ssh(host, "sumwire-aggregator")


@pytest.mark.parametrize("words", [["--hosts", "a,b", "c"], ["--hosts", "a", "--hosts", "b,c"]])
def test_hosts_may_be_given_in_any_portions(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    up.add_options(parser)
    for _ in range(2):
        assert up.chosen(parser.parse_args(words)).hosts == ("a", "b", "c")


def test_hosts_of_an_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the default, also for the racks of a tree. A list that somebody gives goes before them."""
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-3]")
    parser = argparse.ArgumentParser()
    up.add_options(parser)
    for words in ([], ["--tree", "2"]):
        assert up.chosen(parser.parse_args(words)).hosts == ("n1", "n2", "n3")
    assert up.chosen(parser.parse_args(["--hosts", "a"])).hosts == ("a",)
    for words in (["--rack", "a", "--rack", "b"], ["--switches", "x.yaml"]):
        assert up.chosen(parser.parse_args(words)).hosts == ()
