# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire doctor` against aggregators on loopback. The lab's set-ups are in tests/system/test_life.py."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.aggregator.served import every_op_mapping, serving
from sumwire import Job, cli
from sumwire.config import parse_job
from sumwire.doctor import findings
from sumwire.doctor.examination import examine
from sumwire_protocol import program

WORKERS = 2
# Of loopback, which is a device without any.
_OF_THE_DEVICE = {"offloads"}


@pytest.fixture
def mapping() -> dict[str, Any]:
    return every_op_mapping(WORKERS, 16)


def _file(folder: Path, mapping: dict[str, Any]) -> Path:
    path = folder / "job.json"
    path.write_text(json.dumps(mapping))
    return path


def _examined(path: Path, worker: int | None = 0) -> dict[str, findings.Finding]:
    return {one.name: one for one in examine(path, worker) if one.name not in _OF_THE_DEVICE}


def _bad(found: dict[str, findings.Finding]) -> dict[str, str]:
    return {name: one.text for name, one in found.items() if one.state == findings.BAD}


def test_a_right_set_up(tmp_path: Path, mapping: dict[str, Any]) -> None:
    with serving(mapping):
        found = _examined(_file(tmp_path, mapping))
    assert _bad(found) == {}
    looked = {"job file", "versions", "compiler", "clock", "buffers", "address", "port", "route", "mtu", "firewall",
              "switch", "admission", "table", "quorum", "width"}  # fmt: skip
    assert looked <= found.keys()


def test_the_switch_has_another_table(tmp_path: Path, mapping: dict[str, Any]) -> None:
    with serving(mapping):
        found = _examined(
            _file(tmp_path, {**mapping, "thc": {**mapping["thc"], "table": [*range(16)], "granularity": 15}})
        )
    assert list(_bad(found)) == ["table"]


def test_the_switch_does_not_have_the_job(tmp_path: Path, mapping: dict[str, Any]) -> None:
    with serving(mapping):
        found = _examined(_file(tmp_path, {**mapping, "job": 23}))
    assert list(_bad(found)) == ["admission"] and "JOB: the job is not on the switch" in _bad(found)["admission"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_device_that_is_down_is_named(tmp_path: Path, mapping: dict[str, Any]) -> None:
    """And nothing that follows from it is reported."""
    own = {**mapping["addresses"][0], "ip": "10.9.0.1", "aggregator": "10.9.0.100"}
    path = _file(tmp_path, {**mapping, "addresses": [own, *mapping["addresses"][1:]]})
    made = "ip link add v0 type veth peer name v1; ip address add 10.9.0.1/24 dev v0"
    command = f"{made}; exec {sys.executable} -m sumwire.cli doctor {path} --worker 0 --json"
    done = subprocess.run(["unshare", "-n", "sh", "-c", command], capture_output=True, text=True, check=False)
    told = [one for one in json.loads(done.stdout)["findings"] if one["state"] == findings.BAD]
    assert [(one["name"], one["cure"]) for one in told] == [("route", "ip link set dev v0 up")]
    assert "v0, which has 10.9.0.1, is down" in told[0]["text"] and done.returncode == 1


def test_nothing_listens(tmp_path: Path, mapping: dict[str, Any]) -> None:
    assert "no program listens" in _bad(_examined(_file(tmp_path, mapping)))["switch"]


def test_a_port_in_use(tmp_path: Path, mapping: dict[str, Any]) -> None:
    own = mapping["addresses"][0]
    with serving(mapping), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((own["ip"], own["udp_port"]))
        found = _examined(_file(tmp_path, mapping))
    assert list(_bad(found)) == ["port"] and "in use by process" in found["port"].text
    assert found["switch"].state == findings.GOOD


@pytest.mark.parametrize(
    ("change", "worker", "words"),
    [({"workers": 0}, 0, "workers = 0"), ({}, 5, "must be in 0..1"), ({}, None, "several addresses are this host's")],
)
def test_a_wrong_job_file(
    tmp_path: Path, mapping: dict[str, Any], change: dict[str, Any], worker: int | None, words: str
) -> None:
    found = _examined(_file(tmp_path, {**mapping, **change}), worker)
    assert words in found["job file"].text and found["job file"].cure
    assert list(_bad(found)) == ["job file"]


def test_an_address_of_somebody_else(tmp_path: Path, mapping: dict[str, Any]) -> None:
    mapping["addresses"][0]["ip"] = "192.0.2.77"
    found = _examined(_file(tmp_path, mapping))
    assert list(_bad(found)) == ["address"] and "192.0.2.77" in found["address"].text


def test_a_run_under_way_goes_on(tmp_path: Path, mapping: dict[str, Any]) -> None:
    """Its sums stay right while the doctor asks about its job, from another port."""
    path, wrong = _file(tmp_path, mapping), list[int]()
    begun, stop = threading.Event(), threading.Event()

    def work(worker: int) -> None:
        with Job(parse_job(mapping, worker), fallback="never") as job:
            # Until all know that the doctor has ended: the maximum is the same for all.
            for number in count():
                told = job.max32(np.array([number + worker, int(stop.is_set())], np.uint32))
                if told[0] != number + WORKERS - 1:
                    wrong.append(number)
                begun.set()
                if told[1]:
                    return

    with serving(mapping):
        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
        for thread in threads:
            thread.start()
        assert begun.wait(60)
        found = _examined(path)
        stop.set()
        for thread in threads:
            thread.join(60)
    assert list(_bad(found)) == ["port"] and wrong == []
    assert found["switch"].state == findings.GOOD


def test_the_command(tmp_path: Path, mapping: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    path = str(_file(tmp_path, mapping))
    with serving(mapping):
        assert cli.main(["doctor", path, "--worker", "0"]) == 0
        assert "nothing to mend" in capsys.readouterr().out
        assert cli.main(["doctor", path, "--worker", "9", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["good"] is False
    assert cli.main(["doctor"]) == 0


def test_it_needs_no_torch() -> None:
    code = "import sys; from sumwire import cli; cli.main(['doctor']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


_EXAMPLE = Path(__file__).parents[4] / "controller/examples/star4.yaml"


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A folder with the P4Info of another program."""
    shutil.copy(program.JSON, tmp_path)
    (tmp_path / program.P4INFO_NAME).write_text(program.P4INFO.read_text().replace("admit_job", "admit_any"))
    return tmp_path


def test_another_program_is_named(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json", "--p4", str(wrong), "--config", str(_EXAMPLE)]) == 1
    told = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["state"] == "bad"]
    assert [one["name"] for one in told] == ["entries"]
    assert "not of one build: action ingress.admission.admit_any" in told[0]["text"] and "--p4 DIR" in told[0]["cure"]


def test_another_program_is_named_before_anything_slow_is_loaded(wrong: Path) -> None:
    """On a busy machine gRPC and numpy take seconds."""
    code = (
        "import sys; from sumwire_controller import cli; "
        f"assert cli.main(['status', '--p4', {str(wrong)!r}, {str(_EXAMPLE)!r}]) == 1; "
        "assert not {'grpc', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_the_controllers_program_is_begun_before_the_examination_is_loaded(wrong: Path) -> None:
    code = (
        "import sys; from sumwire import cli; from sumwire.doctor import controller\n"
        "real = controller.ControllerStatus.__init__\n"
        "def begun(*arguments):\n"
        "    assert 'numpy' not in sys.modules\n"
        "    real(*arguments)\n"
        "controller.ControllerStatus.__init__ = begun\n"
        f"assert cli.main(['doctor', '--p4', {str(wrong)!r}, '--config', {str(_EXAMPLE)!r}]) == 1"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
