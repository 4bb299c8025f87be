# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A lab for somebody's own work: a script on every host, Mininet's prompt, and a lab that is left standing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ledgers

pytestmark = [pytest.mark.mininet, pytest.mark.root]

RUN = [sys.executable, "-m", "sumwire_lab", "run", "--workers", "2", "--engine", "python"]
TOLD = """
import os, socket, sys
from pathlib import Path
rank, size, job = os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["SUMWIRE_JOB"]
own = socket.if_nameindex()[1][1] == os.environ["GLOO_SOCKET_IFNAME"]
print("rank", rank, "of", size, sys.argv[1:], own, '"name": "training"' in Path(job).read_text(), flush=True)
"""
# A datagram to a port without a program: its host says so by ICMP, if it gets there and back.
REACHES = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    probe.settimeout(20)
    probe.connect((sys.argv[1], 9))
    probe.send(bytes(100))
    try:
        probe.recv(1)
    except ConnectionRefusedError:
        print("reached", sys.argv[1], flush=True)
"""
TRAINS = """
import sumwire, torch
from torch.nn.parallel import DistributedDataParallel

job = sumwire.init()
torch.manual_seed(job.config.worker)
model = DistributedDataParallel(torch.nn.Linear(64, 8))
model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)
for _ in range(3):
    model(torch.randn(4, 64)).square().mean().backward()
own = job.stats
print("through the switch:", own.operations > 0 and own.fallback_operations == 0, flush=True)
"""


def lab(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, input=given, capture_output=True, text=True, timeout=100, check=False)


def reaches(folder: Path) -> Path:
    path = folder / "reaches.py"
    path.write_text(REACHES)
    return path


def test_a_script_on_every_host_and_the_prompt_beside_it(tmp_path: Path) -> None:
    script = tmp_path / "told.py"
    script.write_text(TOLD)
    words = [*RUN, "--results", str(tmp_path), "--cli", "--script", str(script), "--", "--epochs", "3"]
    done = lab(*words, given=f"h1 {sys.executable} {reaches(tmp_path)} h2\nexit\n")
    assert done.returncode == 0, done.stdout + done.stderr
    # Mininet tells what its commands say by way of stderr.
    assert (done.stdout + done.stderr).count("reached 10.0.0.2") == 1
    assert "rank 0 of 2 ['--epochs', '3'] True True" in done.stdout
    folder = tmp_path / "latest"
    assert "rank 1 of 2" in (folder / "lab" / "worker1.log").read_text()
    record = json.loads((folder / "script.json").read_text())
    assert (record["workers"], record["arguments"]) == (2, ["--epochs", "3"])
    # The datagram of 142 bytes, its ICMP of 170 bytes, and ARP.
    assert [link["lower"] for link in record["links"]] == ["h1", "h2"]
    assert all(142 <= link["up_bytes"] < 2000 for link in record["links"])


@pytest.mark.long
def test_a_script_that_fails_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("import os\nif os.environ['RANK'] == '1': raise SystemExit('the disk is full')\n")
    done = lab(*RUN, "--results", str(tmp_path), "--script", str(script))
    assert done.returncode == 1
    assert "worker1 ended with 1" in done.stderr
    assert "the disk is full" in done.stderr


def test_a_lab_is_left_standing_until_it_is_taken_down(tmp_path: Path) -> None:
    done = lab(*RUN, "--results", str(tmp_path), "--keep")
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        (ledger,) = ledgers.kept()
        assert Path(json.loads(ledger.read_text())["kept"]) == (tmp_path / "latest").resolve()
        door = re.search(r"^h1 10\.0\.0\.1: (nsenter --net=\S+ --) bash$", done.stdout, re.MULTILINE)
        assert door is not None, done.stdout
        # Its switch still forwards.
        probe = lab(*door[1].split(), sys.executable, str(reaches(tmp_path)), "10.0.0.2")
        assert probe.stdout == "reached 10.0.0.2\n", probe.stderr
    finally:
        down = lab(sys.executable, "-m", "sumwire_lab", "down")
    assert str((tmp_path / "latest").resolve()) in down.stdout
    assert not ledger.exists()
    assert not [name for name in Path("/sys/class/net").iterdir() if name.name.startswith(ledger.stem)]
    assert (tmp_path / "latest" / "lab" / "switch.log").exists()


@pytest.mark.long
def test_sumwire_init_in_a_script_finds_the_labs_job(tmp_path: Path) -> None:
    script = tmp_path / "trains.py"
    script.write_text(TRAINS)
    done = lab(*RUN[:-2], "--results", str(tmp_path), "--script", str(script))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "through the switch: True" in done.stdout
