# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What docs/see.md prints, run as it is printed."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from golden import ops, packets
from golden.packets import Host, Packet, udp_frame
from helpers.docs import pages
from helpers.paths import ROOT
from helpers.see import pcaps

WORKER = Host(1, bytes.fromhex("020000000001"), bytes([10, 0, 0, 1]))
SWITCH = Host(2, bytes.fromhex("020000000009"), bytes([10, 0, 0, 9]))
BLOCKS = {block.name: block for block in pages.blocks("", "python") if block.path.name == "see.md"}


def _exchange() -> list[pcaps.Seen]:
    """A contribution that is lost, its copy, the result, and a refusal."""
    sent = Packet(packets.CONTRIBUTE, ops.MAX32, 7, 2, 1, 1, 3, 0, 0, 1, 4, 6, payload=bytes(128))
    result = sent._replace(kind=packets.RESULT, contributors=3, count=2)
    refused = sent._replace(kind=packets.REFUSED, count=6, words=0, payload=b"")
    up = [udp_frame(WORKER, SWITCH, packet.encode()) for packet in (sent, sent._replace(flags=packets.RESYNC))]
    down = [udp_frame(SWITCH, WORKER, packet.encode()) for packet in (result, refused)]
    return [(number / 1000, "h1", frame) for number, frame in enumerate([*up, *down])]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with the capture that the page's commands name."""
    (tmp_path / "run.pcap").write_bytes(pcaps.pcap((at_s, frame) for at_s, _, frame in _exchange()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'protocol'}:{ROOT / 'host'}:{ROOT / 'native'}")
    return tmp_path


def test_decodes_commands(folder: Path) -> None:
    script = folder / "sumwire"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m sumwire.cli "$@"\n')
    script.chmod(0o755)
    lines = [line.partition("#")[0] for line in BLOCKS["see.md: A chunk's life"].text.splitlines()]
    live = lines.pop().partition("| ")[2]
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    for line in [*lines, f"cat run.pcap | {live}"]:
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, env=environment)
        assert "sends copy 2, no answer for 1.000 ms [RESYNC]" in done.stdout, line


@pytest.mark.tshark
def test_tsharks_commands(folder: Path) -> None:
    lines = BLOCKS["see.md: Wireshark and tshark"].text.splitlines()
    told = [subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout for line in lines]
    path, whole, lost, refused, values = told
    assert Path(path.strip()).is_file()
    assert [line.split()[5] for line in whole.splitlines()] == ["Sumwire"] * 4
    assert len(lost.splitlines()) == 1 and "[RESYNC]" in lost
    assert refused.split() == ["10.0.0.9", "6"]
    assert values.count("value: 0") == 32


@pytest.mark.tshark
def test_every_filter_on_the_page_is_one(folder: Path) -> None:
    text = (ROOT / "docs" / "see.md").read_text()
    table = text.partition("| filter | packets |")[2].partition("\n\n")[0]
    filters = [
        code for row in table.splitlines()[2:] for code in row.split("|")[1].strip().replace("`", "").split(", ")
    ]
    filters = [
        "sumwire.job == 7 && sumwire.worker == 2" if one.startswith("sumwire.job ==") else one for one in filters
    ]
    assert len(filters) >= 12
    path = BLOCKS["see.md: Wireshark and tshark"].text.splitlines()[0]
    for one in filters:
        command = f"tshark -X lua_script:$({path}) -r run.pcap -Y '{one}'"
        subprocess.run(["bash", "-c", command], capture_output=True, check=True)


def test_scapys_block() -> None:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(BLOCKS["see.md: scapy"].text, "see.md", "exec"), {})
    assert told.getvalue().startswith("1 [0, 0, 0] Sumwire CONTRIBUTE MAX32 job 1 slot 2 round 0 worker 1 chunk 0")
