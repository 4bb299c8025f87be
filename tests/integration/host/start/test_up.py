# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire up` as a program of its own, with the scripts that find it."""

from __future__ import annotations

import ctypes
import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sumwire
import torch
from commonlib.events import ProgramEvent
from helpers.logs import checked, lines_in
from helpers.paths import ROOT
from helpers.start.servers import servers
from helpers.transport.udp_bridge import addresses, run_workers
from sumwire import cli
from sumwire.codec.sum32 import Sum32Codec
from sumwire.config import parse_job
from sumwire.start.service import ServiceAddress
from sumwire_protocol.events import Event

PATH = os.pathsep.join(str(ROOT / folder) for folder in ("protocol", "host", "native"))


@contextmanager
def started(*options: str, path: str = "", within: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """`sumwire up`; its lines are in `stdout`. ``within``: a command that runs it."""
    environment = {**os.environ, "PYTHONPATH": PATH, "PATH": path + os.environ["PATH"]}
    command = [*within, sys.executable, "-m", "sumwire.cli", "up", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(process: subprocess.Popen[str], words: str) -> list[str]:
    """Lines up to the first one with these words."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"{words!r} is in none of: {''.join(lines)}")


def interrupted(process: subprocess.Popen[str], stop: int = signal.SIGINT) -> str:
    """What it says until a signal has ended it well."""
    process.send_signal(stop)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out
    return out


def children(pid: int) -> list[int]:
    return [int(word) for task in Path(f"/proc/{pid}/task").glob("*/children") for word in task.read_text().split()]


def options_of(hosts: int) -> tuple[str, list[str]]:
    aggregator, ips = addresses(hosts)
    return aggregator, ["--hosts", ",".join(ips), "--aggregator", aggregator, "--listen", f"{aggregator}:21334"]


def test_a_job_is_served_and_comes_back() -> None:
    """The aggregator is killed, and another one takes its place. Ctrl-C ends both. A terminal gives it to the whole
    process group, and an aggregator that still starts would tell of its imports: so it has its own."""
    aggregator, options = options_of(8)
    with started(*options, "--bits", "3", "--gbit", "100") as process:
        lines = until(process, "ready: ")
        assert "8 workers" in lines[0] and "thc with 3 bits, 4096 slots" in lines[0]
        job = ServiceAddress(aggregator).job_within(60, print)
        assert (job["workers"], job["thc"]["bits"], job["slots"]) == (8, 3, 4096)
        [first] = children(process.pid)
        assert os.getpgid(first) != os.getpgid(process.pid)
        os.kill(first, signal.SIGKILL)
        until(process, "the next one starts in 1 s")
        until(process, "ready: ")
        [second] = children(process.pid)
        assert second != first
        assert interrupted(process).endswith("stopped\n")
    assert not Path(f"/proc/{second}").exists()


def test_a_signal_that_another_thread_gets() -> None:
    """The kernel may give it to any of them, and Python then does not wake the main thread."""
    _, options = options_of(2)
    with started(*options) as process:
        until(process, "ready: ")
        [other, *_] = [
            int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir() if int(task.name) != process.pid
        ]
        assert ctypes.CDLL(None).tgkill(process.pid, other, signal.SIGTERM) == 0
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and out.endswith("stopped\n")


def test_all_that_it_says_in_json() -> None:
    """Its own lines, and those of its aggregator."""
    aggregator, options = options_of(2)
    with started(*options, "--log-format", "json") as process:
        lines = [checked(line.strip()) for line in until(process, ProgramEvent.READY.word)]
        ServiceAddress(aggregator).job_within(60, print)
        out = interrupted(process)
    assert [line["event"] for line in lines] == [Event.SERVICE_SAID.word] * 3 + [ProgramEvent.READY.word]
    assert lines_in(out)[0]["message"].endswith(" has asked for the job")


def test_nobody_reads_its_lines_any_more() -> None:
    """It ends, and the aggregator with it, as behind `| head`."""
    address, options = options_of(2)
    with started(*options) as process:
        until(process, "ready: ")
        [aggregator] = children(process.pid)
        assert process.stdout is not None
        process.stdout.close()
        ServiceAddress(address).job_within(60, print)  # of which it tells
        assert process.wait(60) == 0
    assert not Path(f"/proc/{aggregator}").exists()


def stand_in(folder: Path, script: str) -> str:
    """A folder of PATH with another ssh."""
    ssh = folder / "ssh"
    ssh.write_text(f"#!/bin/sh\n{script}")
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    return f"{folder}:"


def test_by_ssh(tmp_path: Path) -> None:
    """A stand-in for ssh does with the words what a shell at the other end does."""
    aggregator, options = options_of(2)
    path = stand_in(tmp_path, 'echo "$@" > "$0.log"\nwhile [ "$1" != -- ]; do shift; done\nshift 2\nexec sh -c "$*"\n')
    remote = f"{sys.executable} -m sumwire.aggregator.cli"
    with started(*options, "--ssh", "me@b", "--remote-command", remote, path=path) as process:
        until(process, f"ready: {aggregator}:21335")
        assert interrupted(process, signal.SIGTERM).endswith("stopped\n")
    assert "-o BatchMode=yes -- me@b " in (tmp_path / "ssh.log").read_text()


def mean_of(job: dict[str, Any], worker: int) -> list[float]:
    """What a worker gets of all, each of which sends its number. On a busy machine a leaf may say nothing for long."""
    with sumwire.Job(parse_job(job, worker), fallback="never", deadline_s=60.0, silence_s=60.0) as one:
        mean, _ = one.reduce_with(Sum32Codec(workers=job["workers"]), torch.full((100,), float(worker)))
        return list(mean[:1].tolist())


def test_a_tree() -> None:
    """Each worker learns its leaf, and all get one sum. A leaf that is killed comes back; Ctrl-C ends all."""
    root, ips = addresses(6)
    place = ["--aggregator", root, "--listen", f"{root}:21334"]
    with started("--hosts", *ips, "--tree", "2", *place) as process:
        lines = until(process, "all 3 aggregators are ready")
        assert f"6 workers, thc with 4 bits, 960 slots, 2 leaves below the aggregator {root}" in lines[0]
        assert lines[1] == f"leaf {ips[0]}: 3 workers ({', '.join(ips[:3])})\n"
        job = ServiceAddress(root).job_within(60, print)
        assert [entry["aggregator"] for entry in job["addresses"]] == [ips[0]] * 3 + [ips[3]] * 3
        assert run_workers(lambda worker: mean_of(job, worker), 6) == [[2.5]] * 6
        before = children(process.pid)
        assert len(before) == 3
        [leaf] = [pid for pid in before if ips[3] in Path(f"/proc/{pid}/cmdline").read_text().split("\0")]
        os.kill(leaf, signal.SIGKILL)
        until(process, f"the aggregator {ips[3]} has ended; the next one starts in 1 s")
        until(process, "all 3 aggregators are ready")
        assert run_workers(lambda worker: mean_of(job, worker), 6) == [[2.5]] * 6
        after = children(process.pid)
        assert len(set(after) & set(before)) == 2
        out = interrupted(process)
    assert out.endswith("stopped\n")
    # Each says what it has counted, and which one it is.
    assert {line.partition(": ")[0] for line in out.splitlines() if "verdicts: " in line} == {root, ips[0], ips[3]}
    assert not any(Path(f"/proc/{pid}").exists() for pid in (*before, *after))


def test_more_workers_than_one_aggregator_has() -> None:
    workers = 36
    root, ips = addresses(workers)
    with started("--hosts", *ips, "--tree", "2", "--aggregator", root, "--listen", f"{root}:21334") as process:
        until(process, "all 3 aggregators are ready")
        job = ServiceAddress(root).job_within(60, print)
        assert run_workers(lambda worker: mean_of(job, worker), workers) == [[17.5]] * workers
        interrupted(process)


def test_racks_by_name_end_with_a_killed_program() -> None:
    root, ips = addresses(4)
    leaf = f"{root.rpartition('.')[0]}.200"
    place = ["--aggregator", root, "--listen", f"{root}:21334"]
    with started("--rack", f"{leaf}={ips[0]}", "--rack", *ips[1:], *place) as process:
        lines = until(process, "all 3 aggregators are ready")
        assert lines[1] == f"leaf {leaf}: 1 worker ({ips[0]})\n" and lines[2].startswith(f"leaf {ips[1]}: 3 workers")
        ends = [os.pidfd_open(pid) for pid in children(process.pid)]
        os.kill(process.pid, signal.SIGKILL)
        for end in ends:
            assert select.select([end], [], [], 60)[0]
            os.close(end)


def test_a_leaf_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    """A stand-in for ssh to a server that is off. The root, which has begun, ends with the command."""
    path = stand_in(tmp_path, "echo No route to host >&2\nexit 255\n")
    root, _ = addresses(1)
    place = ["--ssh", "--aggregator", root, "--listen", f"{root}:21334"]
    racks = ["--rack", "192.0.2.1,192.0.2.2", "--rack", "192.0.2.3"]
    with started(*racks, *place, path=path) as process:
        out, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    said = r"sumwire: 192\.0\.2\.[13]: the aggregator has ended: No route to host; mend that, then start it again\n"
    assert re.search(said, out), out


def test_a_second_tree_beside_the_first() -> None:
    """Its leaf would be where one of the first tree is, and it says what can be done for a leaf."""
    root, ips = addresses(2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first:
        first.bind((ips[1], 21335))
        with started("--hosts", *ips, "--tree", "2", "--aggregator", root, "--listen", f"{root}:21334") as process:
            out, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    assert f"UDP port 21335 of {ips[1]}: Address already in use" in out
    assert "or name another address of this machine for the leaf: `--rack LEAF=HOST,HOST`" in out


@pytest.mark.root
def test_leaves_by_ssh(tmp_path: Path) -> None:
    """On three servers, with the root on the first. A stand-in for ssh goes into another server's namespace."""
    with servers(3) as names:
        path = stand_in(
            tmp_path,
            'while [ "$1" != -- ]; do shift; done\nhost=$2\nshift 2\n'
            f'exec ip netns exec {names[0].rpartition("-")[0]}-"${{host##*.}}" sh -c "$*"\n',
        )
        remote = f"{sys.executable} -m sumwire.aggregator.cli"
        hosts = [f"10.0.0.{number}" for number in (1, 2, 3)]
        with started(
            "--hosts", *hosts, "--tree", "2", "--ssh", "--remote-command", remote,
            path=path, within=("ip", "netns", "exec", names[0]),
        ) as process:  # fmt: skip
            lines = until(process, "all 3 aggregators are ready")
            assert "2 leaves below the aggregator 10.0.0.1" in lines[0]
            assert interrupted(process, signal.SIGTERM).endswith("stopped\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hosts", "10.0.0.1,127.0.0.1"], "which no other server reaches"),
        ([], "no hosts: name the workers"),
        (["--hosts", "no-such-host.invalid"], "write its IPv4 address in place of the name"),
        (
            ["--hosts", ",".join(["127.0.0.1"] * 33)],
            "33 hosts: an aggregator has at most 32 workers: divide them among several: `--tree N`",
        ),
        (["--hosts", "127.0.0.1", "--rtt-ms", "0"], "both must be above 0"),
        (
            ["--hosts", "127.0.0.1", "--number", "70000"],
            "--number = 70000: must be an integer in 0..65535: give another",
        ),
        (["--hosts", "127.0.0.1", "--worker-port", "70000"], "--worker-port = 70008: must be an int"),
        (["--hosts", "127.0.0.1", "--aggregator", "127.0.0.1", "--ssh=-x"], "must be HOST or USER@HOST"),
        (
            ["--hosts", "127.0.0.1,127.0.0.2", "--ssh"],
            "names no host, and so is for the leaves of a tree alone: name the",
        ),
        (["--tree", "2"], "no hosts: name the workers"),
        (
            ["--switches", "x.yaml", "--tree", "2"],
            "--tree, --rack: the switches of x.yaml may have a tree of their own",
        ),
        (["--switches", "x.yaml"], "sumwire-controller is not installed: install it with pip install"),
    ],
)
def test_what_cannot_be(options: list[str], message: str, capsys: pytest.CaptureFixture[str],
                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert cli.main(["up", *options]) == 1
    assert message in capsys.readouterr().err


def test_a_second_one_on_the_same_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """Its cure is whole: another port of the service would not help, since the aggregator has but one."""
    aggregator, options = options_of(2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first:
        first.bind((aggregator, 21335))
        assert cli.main(["up", *options]) == 1
    said = capsys.readouterr().err
    assert f"UDP port 21335 of {aggregator}: Address already in use, mostly by another `sumwire up`" in said
    assert "on another server, or with another address of this one: --aggregator ADDRESS --listen ADDRESS" in said


def test_hosts_with_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    """As people write lists. What stands in the way here comes after the hosts."""
    assert cli.main(["up", "--hosts", "127.0.0.1,", "127.0.0.2 , 127.0.0.3", "--aggregator", "198.51.100.7"]) == 1
    said = capsys.readouterr().err
    assert "--aggregator 198.51.100.7: this machine does not have the address" in said and "--ssh 198.51.100.7" in said


def test_no_such_bits(capsys: pytest.CaptureFixture[str]) -> None:
    """The option is named, and no job file that nobody has written."""
    with pytest.raises(SystemExit):
        cli.main(["up", "--hosts", "127.0.0.1", "--bits", "9"])
    said = capsys.readouterr().err
    assert "argument --bits: invalid choice: 9" in said and "job file" not in said
