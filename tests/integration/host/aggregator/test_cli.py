# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The command `sumwire-aggregator`, as a program of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import sumwire
import torch
from commonlib import logs
from commonlib.events import ProgramEvent
from golden import model
from helpers.aggregator.served import every_op_mapping, tree_mapping
from helpers.logs import checked, lines_in
from helpers.paths import ROOT
from helpers.rights import assert_no_rights_left
from helpers.scrape import scrape
from helpers.transport.udp_bridge import aggregator_of, configs, run_workers, write_job
from sumwire.aggregator import cli
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.state import Shared
from sumwire_protocol import constants as p4
from sumwire_protocol.events import Event

PATH = os.pathsep.join(str(ROOT / folder) for folder in ("protocol", "host", "native"))


@contextmanager
def program(*arguments: str, **how: Any) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "sumwire.aggregator.cli", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    with subprocess.Popen(command, text=True, env={**os.environ, "PYTHONPATH": PATH}, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str], stop: int = signal.SIGTERM) -> tuple[str, str]:
    """What it has said until a signal has ended it well."""
    process.send_signal(stop)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out or "", errors


@pytest.fixture
def mapping() -> dict[str, Any]:
    return every_op_mapping()


@pytest.fixture
def path(mapping: dict[str, Any], tmp_path: Path) -> str:
    return str(write_job(mapping, tmp_path / "job.json"))


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def reduce_once(mapping: dict[str, Any]) -> None:
    def work(worker: int) -> torch.Tensor:
        with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
            return job.mean(torch.full((5000,), float(worker)))

    assert all(torch.equal(mean, torch.full((5000,), 1.5)) for mean in run_workers(work, 4))


@pytest.mark.parametrize(("processes", "stop"), [(1, signal.SIGINT), (2, signal.SIGTERM)])
def test_serves_until_a_signal_and_says_what_it_counted(
    mapping: dict[str, Any], path: str, processes: int, stop: int
) -> None:
    """As its metrics do. SIGHUP changes nothing, and does not end it, whose terminal may be closed."""
    with program(path, "--processes", str(processes), "--metrics", "0") as process:
        address = f"{aggregator_of(mapping)}:{model.UDP_PORT}"
        ready, _, place = line_of(process.stdout).rpartition(", metrics: ")
        assert ready == f"ready: {address}, processes: {processes}, jobs: test (7, 4 workers)"
        process.send_signal(signal.SIGHUP)
        reduce_once(mapping)
        found = scrape(place.strip())
        out, errors = ended(process, stop)
    assert errors == ""
    counted = re.match(r"verdicts: FIRST (\d+), ADD (\d+), LAST (\d+)", out)
    assert counted is not None, out
    first, added, last = map(int, counted.groups())
    # 5000 lanes of SUM32 and what goes before them.
    assert first == last >= 20 and added == 2 * first
    assert "rejected: none" in out
    named = {name: float(value) for name, value in re.findall(r"([A-Z]+) (\d+)", out.partition("rejected")[0])}
    verdicts = {dict(one)["verdict"].upper(): value for one, value in found["sumwire_switch_verdicts_total"].items()}
    assert {name: value for name, value in verdicts.items() if value} == named
    assert set(found["sumwire_switch_refused_packets_total"].values()) == {0}
    sent = re.search(r"replies: (\d+) sent", out)
    assert sent is not None
    assert found["sumwire_switch_replies_total"][(("outcome", "sent"), ("switch", "aggregator"))] == float(sent[1])


def test_it_serves_on_when_its_output_cannot_be_written(mapping: dict[str, Any], path: str) -> None:
    with open("/dev/full", "w") as full, program(path, stdout=full) as process:  # noqa: PTH123 - as a shell opens it
        said = line_of(process.stderr)
        while "standard output: No space left on device" not in said:
            assert said, "it has ended"
            said = line_of(process.stderr)
        reduce_once(mapping)
        ended(process)


def test_all_that_it_says_in_json(mapping: dict[str, Any], path: str) -> None:
    address = f"{aggregator_of(mapping)}:{model.UDP_PORT}"
    stranger = model.Packet(1, model.MAX32, 999, 0, 1, 1, 0, 0, 0, 1, 0, 0, bytes(128))
    with (
        program(path, "--log-format", "json", "--report", "0.05") as process,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        ready = checked(line_of(process.stdout).strip())
        assert (ready["event"], ready["at"], ready["switch"]) == (ProgramEvent.READY.word, address, address)
        reduce_once(mapping)
        udp.bind((mapping["addresses"][1]["ip"], model.UDP_PORT))
        udp.sendto(stranger.encode(), (aggregator_of(mapping), model.UDP_PORT))
        refused = checked(line_of(process.stderr).strip())
        told = checked(line_of(process.stdout).strip())
        out, errors = ended(process)
    assert (refused["event"], refused["job"], refused["reason"]) == (Event.REFUSED.word, 999, "JOB")
    assert (told["event"], errors) == (ProgramEvent.COUNTED.word, "")
    last = lines_in(out)[-1]
    assert last["event"] == ProgramEvent.COUNTED.word
    assert last["counters"]["rejected"] == {"JOB": 1}
    assert last["counters"]["verdicts"]["FIRST"] == last["counters"]["verdicts"]["LAST"] >= 20


def children_of(process: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.mark.root
def test_it_serves_without_root_s_rights_and_a_process_that_dies_ends_all(mapping: dict[str, Any], path: str) -> None:
    with program(path, "--processes", "2", "--user", "nobody", "--metrics", "0") as process:
        line_of(process.stdout)
        children = children_of(process)
        for pid in (process.pid, *children):
            assert_no_rights_left(pid)
        reduce_once(mapping)
        os.kill(children[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, len(children)) == (1, 2)
    assert "aggregator-1 ended with status -9" in errors


def test_lanes_are_served_side_by_side(mapping: dict[str, Any], tmp_path: Path) -> None:
    lanes = [{"job": mapping["job"], "slots": mapping["slots"]}, {"job": 40, "slots": 16}]
    mapping |= {"format": 3, "lanes": lanes}
    xs = [torch.arange(3000) % 50 - 9.0, torch.arange(2000) % 7 + 1.0]

    def work(number: int) -> torch.Tensor:
        worker, lane = divmod(number, 2)
        with sumwire.Job(configs(mapping)[worker].for_lane(lane), fallback="never") as job:
            return job.mean(xs[lane] * worker)

    with program(str(write_job(mapping, tmp_path / "job.json"))) as process:
        assert line_of(process.stdout).endswith("jobs: test (7, 4 workers, 2 lanes)\n")
        means = run_workers(work, 8)
    assert all(torch.allclose(mean, xs[number % 2] * 1.5, atol=1e-4) for number, mean in enumerate(means))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(arguments) == 1
    return capsys.readouterr().err


def test_bad_files_and_users_are_errors_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no user 'no-such-user'" in refused(capsys, "job.json", "--user", "no-such-user")
    assert "nowhere.json" in refused(capsys, str(tmp_path / "nowhere.json"))
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    assert "must be JSON" in refused(capsys, str(bad))
    (line,) = lines_in(refused(capsys, str(bad), "--log-format", "json"))
    assert (line["event"], line["level"]) == (ProgramEvent.FAILED.word, "error")


def test_a_taken_port_is_an_error_in_one_line(
    mapping: dict[str, Any], path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((aggregator_of(mapping), model.UDP_PORT))
        message = refused(capsys, path)
    where = f"{aggregator_of(mapping)}:{model.UDP_PORT}"
    assert message.startswith(f"{path}: cannot listen at {where}: Address already in use: end the program that has ")
    assert "ss -lunp 'sport = :21335'" in message and message.count("\n") == 1


def test_an_address_of_another_machine_is_an_error_in_one_line(
    mapping: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """198.51.100.0/24 is for documentation (RFC 5737)."""
    mapping["addresses"] = [{**entry, "aggregator": "198.51.100.7"} for entry in mapping["addresses"]]
    path = str(write_job(mapping, tmp_path / "job.json"))
    message = refused(capsys, path)
    assert message.startswith(f"{path}: cannot listen at 198.51.100.7:21335: Cannot assign requested address: no int")
    assert message.endswith("under `aggregator` in every worker's job file\n")
    assert refused(capsys, path, "--listen", "198.51.100.8:7").startswith("--listen: cannot listen at 198.51.100.8:7")


@pytest.mark.parametrize("processes", [1, 2])
def test_refusals_are_logged_as_they_come(tmp_path: Path, processes: int) -> None:
    """Once, however many there are, and whichever process gets them: slots 0 and 64 are of two."""
    mapping = every_op_mapping(slots=128)
    path = str(write_job(mapping, tmp_path / "job.json"))
    unknown = model.Packet(1, model.MAX32, 999, 0, 1, 1, 0, 0, 0, 1, 0, 0, bytes(128))
    probe = unknown._replace(kind=model.PROBE, job=mapping["job"], words=0, payload=b"")
    heard: list[tuple[int, int]] = []
    own, aggregator = mapping["addresses"][1]["ip"], (aggregator_of(mapping), model.UDP_PORT)
    with (
        program(path, "--processes", str(processes)) as process,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        line_of(process.stdout)
        udp.bind((own, model.UDP_PORT))
        udp.settimeout(60.0)
        udp.sendto(unknown.encode(), aggregator)
        assert model.decode(udp.recv(100)).kind == model.REFUSED
        logged = line_of(process.stderr)
        for packet in (unknown, unknown._replace(slot=64), probe, probe._replace(slot=64)):
            udp.sendto(packet.encode(), aggregator)
        while {slot for slot, kind in heard if kind == model.INFORM} != {0, 64}:
            packet = model.decode(udp.recv(100))
            heard.append((packet.slot, packet.kind))
        out, errors = ended(process)
    assert f"WARNING unknown job 999 from {own}: this aggregator serves jobs 7; start it with " in logged
    assert errors == ""
    assert "rejected: JOB 3\n" in out


@pytest.mark.parametrize(
    "options", [["--listen", "nowhere"], ["--listen", "127.0.0.1:0"], ["--processes", "0"], ["--processes", "x"], []]
)
def test_wrong_usage(options: list[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        cli.main([*options, "job.json"] if options else [])
    assert exited.value.code == 2


def test_a_tree_of_programs(tmp_path: Path) -> None:
    """In any order: a lower one is ready once the one above has answered. A leaf of two processes among them."""
    mapping = tree_mapping((1, 1, 2, 2), (0, 0), slots=256)
    path = str(write_job(mapping, tmp_path / "tree.json"))
    root, first, second = mapping["tree"][0]["above"], *(entry["aggregator"] for entry in mapping["tree"])
    with program(path, "--at", first, "--processes", "2") as one, program(path, "--at", second) as other:
        # It waits for a root, and says so.
        assert f"no answer from the aggregator above, {root}:21335" in line_of(one.stderr)
        with program(path, "--at", root) as top:
            for process, at in ((top, root), (one, first), (other, second)):
                assert line_of(process.stdout).startswith(f"ready: {at}:21335, processes: ")
            reduce_once(mapping)
            for process in (one, other, top):
                assert "rejected: none" in ended(process)[0]


@pytest.mark.parametrize("by", ["signal", "standard input"])
def test_a_leaf_that_waits_can_be_ended(tmp_path: Path, by: str) -> None:
    """By its input as when the command that started it by ssh has ended, before the root was there."""
    mapping = tree_mapping((1, 1), (0,))
    path = str(write_job(mapping, tmp_path / "tree.json"))
    # This test's end of the pipe is closed on exec.
    read, write = os.pipe()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as root:
        root.bind((mapping["tree"][0]["above"], p4.SUMWIRE_PORT))
        root.settimeout(60)
        with program(path, "--with-parent", "--at", mapping["tree"][0]["aggregator"], stdin=read) as leaf:
            os.close(read)
            # Its question, which nobody answers.
            root.recv(2048)
            if by == "signal":
                leaf.send_signal(signal.SIGTERM)
                assert leaf.wait(60) == 0
            os.close(write)
            assert leaf.wait(60) == 0


@pytest.mark.parametrize("job", ["-", "file"])
def test_standard_input_may_be_closed(path: str, job: str) -> None:
    """A job file cannot come from it then, and with it a program ends at once."""
    words = [sys.executable, "-m", "sumwire.aggregator.cli", path if job == "file" else job, "--with-parent"]
    command = ["sh", "-c", 'exec "$@" <&-', "sh", *words]
    environment = {**os.environ, "PYTHONPATH": PATH}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=60)
    if job == "-":
        assert done.returncode == 1 and "standard input: line = '-': cannot be read: it is closed" in done.stderr
    else:
        assert done.returncode == 0 and "Traceback" not in done.stderr


def test_each_of_a_tree_is_told_which_one_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mapping = tree_mapping((1, 1, 2, 2), (0, 0))
    path = str(write_job(mapping, tmp_path / "tree.json"))
    assert re.search(f"--at = None: must be one of .*{re.escape(mapping['tree'][0]['above'])}", refused(capsys, path))
    assert re.search("10.9.9.9.*one of", refused(capsys, path, "--at", "10.9.9.9"))


def test_questions_alone_are_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Aggregators of a tree ask each other every second, also while no worker is there."""
    shared = Shared(lanes_of(configs(every_op_mapping())[:1]))
    reporter = cli.Reporter(shared, logs.Voice(logs.Form.TEXT, "test"))
    shared.counters[0, [p4.VERDICT_INFORM, p4.VERDICT_KNOWN]] += np.uint64(1)
    reporter.tell()
    assert capsys.readouterr().out == ""
    shared.counters[0, p4.VERDICT_FIRST] += np.uint64(1)
    reporter.tell()
    assert capsys.readouterr().out == "verdicts: FIRST 1, KNOWN 1, INFORM 1\n"
