# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every Python block of README and the pages runs as it is printed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sumwire_controller
from golden import model
from helpers.aggregator.served import running
from helpers.controller.real_switches import soft_switch
from helpers.docs import pages, python_blocks
from helpers.docs.pages import Block
from helpers.docs.python_blocks import RANKS, SETTINGS, run_block
from helpers.gloo.ranks import Ranks
from helpers.paths import ROOT
from helpers.transport.udp_bridge import aggregator_of, configs, job_mapping
from softswitch.switch import SoftSwitch
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.processes import listen
from sumwire.aggregator.server import Server
from sumwire.aggregator.state import State
from sumwire_lab.network.switches import free_tcp_port

BLOCKS = {block.name: block for block in pages.blocks("python")}
# Blocks about switches and packets, each with a test of its own; all others run on ranks.
SCAPY = "see.md: scapy"
SOFT_SWITCH = "softswitch.md: Command line"
CONTROLLER = "controller.md: From Python"
TRACE = "trace.md: Trace"  # run by tests/unit/docs/test_traces.py


def test_every_block_has_a_setting() -> None:
    assert BLOCKS.keys() == SETTINGS.keys() | {SOFT_SWITCH, CONTROLLER, SCAPY, TRACE}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with Ranks(RANKS, tmp_path_factory.mktemp("ranks")) as processes:
        yield processes


def job_file(setting: python_blocks.Setting) -> dict[str, Any]:
    mapping = job_mapping(RANKS, 32) | {"ops": list(setting.ops or ["max32"])}
    if setting.lanes > 1:
        mapping["lanes"] = [{"job": mapping["job"] + lane, "slots": 32} for lane in range(setting.lanes)]
    return mapping


@contextmanager
def aggregator(mapping: dict[str, Any]) -> Iterator[None]:
    state = State(lanes_of(configs(mapping)[:1]), seed=3)
    (udp,) = listen(aggregator_of(mapping), model.UDP_PORT, 1)
    with udp, running([Server(udp, state)]):
        yield


@pytest.mark.parametrize("name", SETTINGS)
def test_block_runs_on_ranks(name: str, ranks: Ranks, tmp_path: Path) -> None:
    block, setting = BLOCKS[name], SETTINGS[name]
    mapping = job_file(setting)
    (tmp_path / "digits.json").write_text(json.dumps(mapping))
    with ExitStack() as stack:
        if setting.ops:
            stack.enter_context(aggregator(mapping))
        results = ranks.run(run_block, name, block.text, place(block), str(tmp_path), free_tcp_port())
    assert all(result == results[0] for result in results)


def place(block: Block) -> str:
    return f"{block.path}:{block.line}"


def run_here(block: Block, names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(block.text, place(block), "exec"), names)
    return names


def test_soft_switch_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "p4src" / "build" / "sumwire.json", tmp_path / "program.json")
    monkeypatch.chdir(tmp_path)
    # No table entry forwards it.
    assert run_here(BLOCKS[SOFT_SWITCH], {"frame": bytes(64)})["frames_out"] == []


def test_controller_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = ROOT / "controller" / "examples"
    with ExitStack() as stack:
        for name, ports in (("star4.yaml", [9559]), ("leaf-spine8.yaml", [9559, 9560, 9561, 9562])):
            text = (examples / name).read_text()
            for device_id, port in enumerate(ports, 1):
                address = stack.enter_context(soft_switch(SoftSwitch(engine="python"), device_id))
                text = text.replace(f"127.0.0.1:{port}", address)
            Path(name).write_text(text)
        names = run_here(BLOCKS[CONTROLLER], {"path": "leaf-spine8.yaml"})
    assert names["report"].program_loaded
    assert names["status"].in_sync
    assert [status.in_sync for status in names["statuses"]] == [True] * 4
    assert len(names["reports"]) == len(names["configs"]) == 4
    assert json.loads(names["text"]) == sumwire_controller.job_description(names["topology"], "digits")
