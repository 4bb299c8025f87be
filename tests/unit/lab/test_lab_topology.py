# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of a star, its shaping, the switches' command lines."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest
import yaml
from sumwire_controller import parse_config
from sumwire_lab import control, switches
from sumwire_lab.errors import MissingToolError, OptionError
from sumwire_lab.options import LinkOptions
from sumwire_lab.topology import plan, quiet_commands, shaping_commands

# Linux allows 15 characters.
NAME_MAX = 15


@pytest.mark.parametrize("workers", [1, 4, 32])
def test_names_and_addresses_are_unique_and_fit(workers: int) -> None:
    star = plan(workers, LinkOptions(), "sw12af")
    names = [n for h in star.hosts for n in (h.host_interface, h.switch_interface)]
    assert len(set(names)) == 2 * workers
    assert all(len(name) <= NAME_MAX and name.startswith("sw12af-") for name in names)
    assert [h.port for h in star.hosts] == list(range(1, workers + 1))
    assert len({h.ip for h in star.hosts}) == len({h.mac for h in star.hosts}) == workers
    assert all(socket.inet_aton(h.ip) for h in star.hosts)


def test_the_first_and_the_last_host() -> None:
    hosts = plan(32, LinkOptions(), "sw12af").hosts
    assert (hosts[0].ip, hosts[0].mac) == ("10.0.0.1", "00:00:00:00:00:01")
    assert (hosts[31].ip, hosts[31].mac, hosts[31].port) == ("10.0.0.32", "00:00:00:00:00:20", 32)


@pytest.mark.parametrize("workers", [0, 33, -1])
def test_other_numbers_of_hosts_are_refused(workers: int) -> None:
    with pytest.raises(OptionError, match=f"workers={workers}"):
        plan(workers, LinkOptions(), "sw12af")


def test_shaping_says_rate_and_queue() -> None:
    text = [" ".join(command) for command in shaping_commands("sw12af-h1", LinkOptions(2.5, 77))]
    assert "htb rate 2500000bit" in text[1]
    assert text[2].endswith("pfifo limit 77")
    assert all("dev sw12af-h1" in line for line in text)


def test_bursts_hold_two_frames_or_a_millisecond() -> None:
    assert "burst 3028 cburst 3028" in " ".join(shaping_commands("x", LinkOptions(10))[1])
    assert "burst 125000 cburst 125000" in " ".join(shaping_commands("x", LinkOptions(1000))[1])


def test_offloads_are_off() -> None:
    words = quiet_commands("sw12af-h1")[0]
    off = {words[k] for k in range(3, len(words), 2)}
    assert {"tx", "tso", "gso", "gro"} <= off
    assert {words[k] for k in range(4, len(words), 2)} == {"off"}


@pytest.mark.parametrize(("workers", "side_jobs"), [(1, False), (4, False), (4, True), (9, True), (32, True)])
def test_the_controller_takes_the_configuration(workers: int, side_jobs: bool) -> None:
    star = plan(workers, LinkOptions(), "sw12af")
    text = yaml.safe_dump(control.configuration(star, "127.0.0.1:9559", 1, side_jobs))
    config = parse_config(text)
    assert [job.id for job in config.jobs] == ([1, 2, 3] if side_jobs else [1])
    for job in config.jobs:
        assert job.thc is not None
        assert job.thc.granularity * workers <= 255
        assert list(job.workers) == [f"h{k}" for k in range(1, workers + 1)]


def test_four_workers_use_the_published_table() -> None:
    assert control.thc_table(4) == [0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30]


def test_switch_command_lines_have_the_same_shape() -> None:
    ports = [(1, "sw12af-p1"), (2, "sw12af-p2")]
    soft = switches.soft_command(ports, "127.0.0.1:1234", "drop=0.1")
    bmv2 = switches.bmv2_command(ports, "127.0.0.1:1234", Path("/run/x.ipc"), 9999)
    for command in (soft, bmv2):
        text = " ".join(command)
        assert "-i 1@sw12af-p1 -i 2@sw12af-p2" in text
        assert text.endswith("-- --grpc-server-addr 127.0.0.1:1234 --cpu-port 510")
    assert "--thrift-port 9999" in " ".join(bmv2)
    without = " ".join(switches.bmv2_command(ports, "127.0.0.1:1234", Path("/run/x.ipc"), None))
    assert "thrift" not in without
    assert "--notifications-addr ipc:///run/x.ipc" in without
    assert "--impair drop=0.1" in " ".join(soft)
    assert "--impair" not in " ".join(switches.soft_command(ports, "127.0.0.1:1234", None))


def test_auto_takes_bmv2_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert (switches.choose("auto"), switches.choose("soft")) == ("bmv2", "soft")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert (switches.choose("auto"), switches.choose("soft")) == ("soft", "soft")
    with pytest.raises(MissingToolError, match="switch=bmv2"):
        switches.choose("bmv2")
