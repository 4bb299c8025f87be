# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Commands of the pages that print something, run as they are printed: they print what the pages say."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import sumwire_controller
from helpers.aggregator.served import every_op_mapping, serving
from helpers.docs import pages
from helpers.paths import ROOT
from helpers.transport.udp_bridge import addresses
from sumwire import cli
from sumwire_controller.errors import ConfigError
from sumwire_protocol.constants import SUMWIRE_FIELDS

BLOCKS = {(block.name, block.language): block.text for block in pages.blocks("", "json", "bash")}
MODULES = {"sumwire": "sumwire.cli", "sumwire-aggregator": "sumwire.aggregator.cli"}


def on_loopback(text: str, servers: dict[str, str]) -> str:
    """The page's addresses replaced by this machine's."""
    return re.sub(r"10\.0\.0\.\d+", lambda match: servers.get(match[0], match[0]), text)


@contextlib.contextmanager
def started(line: str, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    program, *words = shlex.split(line)
    path = os.pathsep.join(str(ROOT / part) for part in ("protocol", "host", "native"))
    with subprocess.Popen(
        [sys.executable, "-m", MODULES[program], *words, *more], cwd=folder, env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def lines_of(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def test_the_aggregator_says_what_the_page_says(tmp_path: Path) -> None:
    aggregator, hosts = addresses(2)
    here = {"10.0.0.100": aggregator, "10.0.0.1": hosts[0], "10.0.0.2": hosts[1]}
    (tmp_path / "job.json").write_text(on_loopback(BLOCKS["aggregator.md: Use", "json"], here))
    with started(BLOCKS["aggregator.md: Use", ""], tmp_path) as process:
        ready = on_loopback(BLOCKS["aggregator.md: Use (2)", ""], here)
        assert lines_of(process, 1) == [ready]
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    # Nobody has sent anything: the page's lines without their numbers.
    heads = [line.partition(":")[0] for line in BLOCKS["aggregator.md: Use (4)", ""].splitlines()]
    assert [line.partition(":")[0] for line in told.splitlines()] == heads
    assert "replies: 0 sent, 0 not; between processes: 0" in told


@pytest.mark.parametrize(
    ("name", "hosts"), [("start.md: Install and start (2)", 8), ("README.md: In your training loop", 4)]
)
def test_sumwire_up_on_servers(name: str, hosts: int, tmp_path: Path) -> None:
    aggregator, ips = addresses(hosts)
    here = {f"10.0.0.{number}": ip for number, ip in enumerate(ips, 1)}
    line = on_loopback(BLOCKS[name, ""], here)
    # The page's service is on the first worker's machine.
    with started(line, tmp_path, "--aggregator", aggregator, "--listen", f"{aggregator}:21334") as process:
        said = lines_of(process, 4)
    assert said[0].startswith(f"job sumwire (number 1): {hosts} workers") and said[3].startswith("ready: ")
    if hosts == 8:
        # The service is at the aggregator here, and the page leaves some workers out.
        printed = BLOCKS["start.md: Install and start (3)", ""].splitlines(keepends=True)
        there = {**here, "10.0.0.1": aggregator}
        wanted = [on_loopback(line, there if number else here) for number, line in enumerate(printed)]
        wanted[0] = wanted[0].replace(f"aggregator {ips[0]}", f"aggregator {aggregator}")
        patterns = [re.escape(line).replace(r"\.\.\.", ".*") for line in wanted]
        assert [line for pattern, line in zip(patterns, said, strict=True) if not re.fullmatch(pattern, line)] == []


def test_sumwire_up_in_racks(tmp_path: Path) -> None:
    """The page's four racks of 16. All servers are this machine, so nothing is started by ssh."""
    network = addresses(1)[0].rpartition(".")[0]
    here = {f"10.0.{rack}.{host}": f"{network}.{16 * rack + host}" for rack in range(1, 5) for host in range(1, 17)}
    name = "start.md: Many servers, or several racks"
    expanded = subprocess.run(
        ["bash", "-c", f"echo {BLOCKS[name, '']}"], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    root = here["10.0.1.1"]
    with started(in_racks(expanded, here), tmp_path, "--aggregator", root, "--listen", f"{root}:21334") as process:
        printed = in_racks(BLOCKS[f"{name} (2)", ""], here).splitlines(keepends=True)
        said = lines_of(process, len(printed))
        patterns = [re.escape(line).replace(r"\.\.\.", ".*") for line in printed]
        assert [line for pattern, line in zip(patterns, said, strict=True) if not re.fullmatch(pattern, line)] == []
        assert process.stdout is not None
        assert any(line == "all 5 aggregators are ready\n" for line in process.stdout)


def in_racks(text: str, servers: dict[str, str]) -> str:
    """The page's addresses replaced by this machine's."""
    return re.sub(r"10\.0\.\d+\.\d+", lambda match: servers[match[0]], text)


def test_broken_rules_of_a_file() -> None:
    """The two errors of the page, in a file that has both."""
    star = (ROOT / "controller" / "examples" / "star4.yaml").read_text()
    broken = star.replace("00:00:00:00:00:02", "00:00:00:00:00:01")
    broken = broken.replace("table: auto", "granularity: 64")
    with pytest.raises(ConfigError) as told:
        sumwire_controller.parse_config(broken)
    for line in BLOCKS["controller.md: Errors in a file", ""].splitlines():
        said = re.sub(r"^star\.yaml: line \d+: ", "", line)
        assert said in str(told.value)


def test_the_doctors_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping = every_op_mapping(2, 16)
    (tmp_path / "job.json").write_text(json.dumps(mapping))
    monkeypatch.chdir(tmp_path)
    lines = BLOCKS["troubleshooting.md: Ask the doctor first", ""].splitlines()
    commands = [shlex.split(line.removeprefix("sudo "), comments=True) for line in lines]
    # This host has the addresses of both workers, so it must be told; the switches of a CONFIG need a controller.
    with serving(mapping):
        for program, *words in commands:
            if "CONFIG" in words:
                continue
            assert program == "sumwire"
            more = ["--worker", "0"] if "job.json" in words else []
            assert cli.main([*words, *more]) == 0, words
            assert capsys.readouterr().out


@pytest.mark.spin
def test_a_counterexample_by_hand() -> None:
    block = BLOCKS["models.md: Counterexamples on the real code", "bash"]
    done = subprocess.run(["bash", "-c", block], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    steps = re.findall(r"@ arrive \d \d", done.stdout)
    assert steps.count("@ arrive 0 0") == 2 and "! " in done.stdout


def test_code_of_explanations(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints what the block behind it says."""
    found = 0
    for page in sorted((ROOT / "docs" / "explanation").glob("*.md")):
        for block, printed in pairwise(pages.blocks_of(page)):
            if block.language == "py":
                exec(compile(block.text, f"{page}:{block.line}", "exec"), {})
                assert capsys.readouterr().out == printed.text
                found += 1
    assert found


def test_the_headers_drawing_is_the_programs() -> None:
    """Every field, in its order, as wide as it is: two characters a bit."""
    rows = [line for line in BLOCKS["wire-format.md: Wire format", ""].splitlines() if line.startswith("|")]
    drawn: list[tuple[str, int]] = []
    for row in rows[:-1]:
        for cell in row.strip("|").split("|"):
            if cell.strip():
                drawn.append((cell.strip(), (len(cell) + 1) // 2))
    token = "token"
    by_rows = [(name, bits) for name, bits in SUMWIRE_FIELDS if name != token]
    assert [one for one in drawn if one[0] != token] == by_rows
