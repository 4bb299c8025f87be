# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trees of aggregators by `sumwire up`: which server has which leaf, and how each is started."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sumwire.config import parse_job
from sumwire.errors import ConfigError
from sumwire.start import programs, supervisor
from sumwire.start.errors import StartError
from sumwire.start.job_request import JobRequest, tree_job_file
from sumwire.start.programs import Rack, UpOptions, plan
from sumwire.start.up import summary
from sumwire_protocol import constants as p4

# Eight racks of eight.
HOSTS = [f"10.0.{rack}.{host}" for rack in range(1, 9) for host in range(1, 9)]
ROOT = "10.0.1.1"


@pytest.fixture
def on_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is the first of HOSTS, and its port is free."""
    monkeypatch.setattr(programs, "is_local", lambda address: address == ROOT)
    monkeypatch.setattr(programs, "source_towards", lambda _: ROOT)
    monkeypatch.setattr(supervisor, "check_free", lambda *_: None)


@pytest.mark.usefixtures("on_the_first")
def test_64_servers_in_8_racks() -> None:
    """The root is here, and each leaf on a server of its rack, by ssh. Each worker sends to its rack's leaf."""
    job, started = plan(UpOptions(HOSTS, leaves=8, ssh="me@", remote_command="aggregator"))
    leaves = ["10.0.1.2", *(f"10.0.{rack}.1" for rack in range(2, 9))]
    assert [one.address for one in started] == [ROOT, *leaves]
    assert started[0].command[1:5] == ["-P", "-m", "sumwire.aggregator.cli", "-"]
    for one in started[1:]:
        assert one.command[-2:] == [f"me@{one.address}", f"aggregator - --with-parent --at {one.address} --report 10"]
    for worker, host in enumerate(HOSTS):
        config = parse_job(job, worker)
        assert (config.own_address.ip, config.aggregator) == (host, leaves[worker // 8])
    assert {branch.above for branch in config.tree} == {ROOT}
    assert len(summary(job)) == 9 and "64 workers" in summary(job)[0] and f"8 leaves below the aggregator {ROOT}" in (
        summary(job)[0]
    )  # fmt: skip
    assert summary(job)[1].startswith("leaf 10.0.1.2: 8 workers (10.0.1.1, 10.0.1.2, ")


@pytest.mark.usefixtures("on_the_first")
def test_without_a_user_and_with_the_root_elsewhere() -> None:
    _, started = plan(UpOptions(HOSTS[8:], leaves=2, ssh="", aggregator=ROOT))
    assert started[1].command[-2] == "10.0.2.1"
    _, started = plan(UpOptions(HOSTS[8:], leaves=2, ssh="you@10.0.9.9"))
    assert [one.command[-2] for one in started] == ["you@10.0.9.9", "you@10.0.2.1", "you@10.0.5.5"]
    assert "--at 10.0.9.9 " in started[0].command[-1]


def test_slots_are_for_two_round_trips() -> None:
    """10 Gbit/s and 0.5 ms take 1152 slots with one aggregator."""
    assert (
        tree_job_file({"10.0.1.9": HOSTS[:2], "10.0.2.9": HOSTS[2:4]}, ROOT, JobRequest(rtt_ms=0.25))["slots"] == 1152
    )


def test_ports_of_workers_beside_aggregators() -> None:
    """The root's and a leaf's own port is the first one."""
    job = tree_job_file({"10.0.1.2": HOSTS[:3], "10.0.2.1": HOSTS[8:10]}, ROOT, JobRequest(port=22000))
    assert [entry["udp_port"] for entry in job["addresses"]] == [22008, 22008, 22000, 22008, 22000]
    with pytest.raises(ConfigError, match=r"bits = 9: .*; give another value, or leave it out"):
        tree_job_file({"10.0.1.2": HOSTS[:3]}, ROOT, JobRequest(bits=9))


def test_hosts_are_divided_in_order() -> None:
    assert [rack.hosts for rack in programs.into_racks("abcdefg", 3)] == [("a", "b", "c"), ("d", "e"), ("f", "g")]


@pytest.mark.parametrize(
    ("words", "rack"),
    [
        (["a,b", "c ,", "d"], Rack(("a", "b", "c", "d"))),
        (["l=a,b", "c"], Rack(("a", "b", "c"), "l")),
        (["l =", "a"], Rack(("a",), "l")),
        (["=a"], Rack(("a",), "")),
    ],
)
def test_words_of_a_rack(words: Sequence[str], rack: Rack) -> None:
    assert Rack.parse(words) == rack


def test_leaves_are_on_servers_without_another_aggregator() -> None:
    """The root's is the first rack's first one, and a leaf that is named comes before one that is not."""
    found = {name: name for name in "abcdxy"}
    assert programs.leaf_servers([Rack(("a", "b")), Rack(("b", "c")), Rack(("d",), "x")], found, "a") == {
        "b": "b", "c": "c", "x": "x",
    }  # fmt: skip


MANY = tuple(f"10.1.0.{number}" for number in range(1, 34))


@pytest.mark.usefixtures("on_the_first")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (UpOptions(MANY), "33 hosts: an aggregator has at most 32 workers: divide them among several: `--tree N`"),
        (UpOptions(HOSTS, leaves=1), "--tree 1: 64 hosts are divided among 2 to 32 leaves, .*: give another number"),
        (UpOptions(HOSTS, leaves=33), "--tree 33: "),
        (UpOptions(HOSTS[:2], leaves=3), "--tree 3: 2 hosts"),
        (UpOptions(MANY + MANY, leaves=2), "rack 1 has 33 hosts: an aggregator has 1 to 32 workers: divide them"),
        (UpOptions(HOSTS * 4, leaves=8), "256 hosts: a job has at most 255 workers: name fewer"),
        (UpOptions(racks=[Rack(("a",))]), "1 racks: a tree has 2 to 32 leaves: repeat --rack"),
        (UpOptions(racks=[Rack(()), Rack(("a",))]), "rack 1 has 0 hosts: .* or leave an empty one out"),
        (
            UpOptions(racks=[Rack(("a", "b")), Rack(("c", "b"))]),
            "b is in rack 1 and in rack 2: a server has one leaf: name it in one of them; twice there, if",
        ),
        (
            UpOptions(racks=[Rack(("127.0.0.1", "127.0.0.2")), Rack(("localhost",))]),
            "localhost is in rack 1 and in rack 2: a server has one leaf",
        ),
        (UpOptions(HOSTS, racks=[Rack(("a",))]), "--rack beside --hosts or --tree: .*: name all hosts by --rack alone"),
        (UpOptions(racks=[Rack(("a",))], leaves=2), "--rack beside --hosts or --tree"),
        (
            UpOptions(racks=[Rack((ROOT,)), Rack(("10.0.2.1",))], ssh=""),
            "rack 1: 10.0.1.1 has the root already, .*: name another server, .*: `--rack LEAF=HOST,HOST`, or for the",
        ),
        (
            UpOptions(racks=[Rack(("10.0.2.1",)), Rack(("10.0.3.1",), "10.0.2.1")], ssh=""),
            "rack 2: 10.0.2.1 has the leaf of another rack already",
        ),
        (
            UpOptions(HOSTS, leaves=8),
            r"leaf 10\.0\.1\.2: this machine does not have the address .*: run `sumwire up` on the server that has it, "
            r"or start the leaves by ssh, each on its server: `--ssh`, or name addresses of this machine",
        ),
        (UpOptions(HOSTS, leaves=8, aggregator="10.9.9.9"), r"--aggregator 10\.9\.9\.9: .*start the root there: --ssh"),
        (UpOptions(HOSTS[:2], ssh="me@"), "--ssh me@: names no host, .*: name the aggregator's server: `--ssh HOST`"),
        (UpOptions(HOSTS[8:], leaves=2, ssh="-x@"), "ssh = '-x@10.0.2.1': must be HOST or USER@HOST"),
    ],
)  # fmt: skip
def test_what_cannot_be(options: UpOptions, message: str) -> None:
    with pytest.raises(StartError, match=message):
        plan(options)


def test_a_table_of_few_levels_is_told() -> None:
    """Sums of so many workers would not fit with more."""
    few = summary(tree_job_file({"10.0.1.2": HOSTS[:9], "10.0.2.1": HOSTS[9:18]}, ROOT, JobRequest()))[0]
    assert "thc with 4 bits (but 15 levels for so many: the system thc-wide loses less), " in few
    enough = summary(tree_job_file({"10.0.1.2": HOSTS[:9], "10.0.2.1": HOSTS[9:17]}, ROOT, JobRequest()))[0]
    assert "thc with 4 bits, " in enough
    assert p4.SLOT_WORDS == 8
