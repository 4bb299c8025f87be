# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire pays --hosts`: ranks on servers, which are network namespaces, behind a stand-in for ssh."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.start.servers import servers
from sumwire import cli

RATE_MBIT = 40
HOSTS = "10.0.0.1,10.0.0.2"
REMOTE = f"{sys.executable} -P -m sumwire.cli"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of ssh. It gets the words that ssh does."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    path = tmp_path / "ssh"
    path.touch(0o755)
    return path


SHELL = '#!/bin/sh\necho "$@" >> "$0.log"\nwhile [ "$1" != -- ]; do shift; done\nhost=$2\nshift 2\n'


@pytest.mark.root
@pytest.mark.long
def test_paths_between_hosts(stand_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second one's link is slow. One of the hosts is given with a user."""
    with servers(2) as names:
        shaped = ["tc", "-n", names[1], "qdisc", "add", "dev", "eth0", "root"]
        subprocess.run([*shaped, "tbf", "rate", f"{RATE_MBIT}mbit", "burst", "20k", "limit", "100k"], check=True)
        name = names[0].rpartition("-")[0]
        stand_in.write_text(f'{SHELL}exec ip netns exec {name}-"${{host##*.}}" sh -c "$*"\n')
        words = ["--params", "1M", "--shapes", "300x400", "--rtt", "3ms", "--json", "--remote-command", REMOTE]
        assert cli.main(["pays", *words, "--hosts", "10.0.0.1,me@10.0.0.2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["workers"], told["rtt_s"]) == (2, 3e-3)
    assert told["link_bps"] == pytest.approx(RATE_MBIT * 1e6, rel=0.15)
    asked = stand_in.with_suffix(".log").read_text()
    assert "-- me@10.0.0.2 env WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=" in asked
    assert "RANK=1" in asked and "pays --with-parent --params 1000000 --shapes '300x400*1,880000*1' --rtt 3ms" in asked


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("echo sh: 1: sumwire: not found >&2; exit 127", "10.0.0.2: sh: 1: sumwire: not found: install Sumwire there"),
        ("echo Permission denied. >&2; exit 255", "10.0.0.2: Permission denied.: let `ssh 10.0.0.2 sumwire --version`"),
        ("echo sumwire: no way >&2; exit 1", "10.0.0.2: no way; mend that there, and have the same version"),
        ("exit 3", "10.0.0.2: it has ended with 3; mend"),
    ],
)
def test_a_rank_that_fails_ends_all(
    stand_in: Path, second: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one ends with its standard input, as a rank does that waits for others."""
    stand_in.write_text(f'{SHELL}case $host in *2) {second};; esac\ncat\ntouch "$0.ended"\n')
    assert cli.main(["pays", "--params", "1M", "--hosts", HOSTS]) == 1
    assert capsys.readouterr().err.startswith(f"sumwire: {message}")
    assert stand_in.with_suffix(".ended").exists()


def test_no_ssh_and_no_second_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["pays", "--params", "1M", "--hosts", HOSTS]) == 1
    assert cli.main(["pays", "--params", "1M", "--hosts", "10.0.0.1"]) == 1
    no_ssh, one = capsys.readouterr().err.splitlines()
    assert no_ssh.startswith("sumwire: ssh: No such file or directory: install it, or have torchrun, srun or mpirun")
    assert one.startswith("sumwire: --hosts 10.0.0.1: a path has two ends: name two hosts or more, or give --rate")
