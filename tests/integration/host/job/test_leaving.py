# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks that end in any way and order: no process hangs, and none is aborted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.gloo.leaving import WAYS
from helpers.paths import ROOT
from helpers.transport.udp_bridge import Bridge, golden_switch, job_mapping, write_job

RANKS = 2
# Others are further cases of these, and the workers of the lab's runs close their jobs.
FIRST = ("forgotten", "one_leaves", "destroyed_then_closed", "cannot_make_another")


@pytest.mark.parametrize("way", [way if way in FIRST else pytest.param(way, marks=pytest.mark.long) for way in WAYS])
@pytest.mark.few(2)
def test_every_process_ends(way: str, tmp_path: Path) -> None:
    check(way, tmp_path, silent=False)


@pytest.mark.parametrize(
    "way",
    [
        "forgotten",
        *(pytest.param(way, marks=pytest.mark.long) for way in ("destroyed_then_closed", "waiting_in_a_thread")),
    ],
)
def test_every_process_ends_during_the_fall_back(way: str, tmp_path: Path) -> None:
    check(way, tmp_path, silent=True)


def check(way: str, tmp_path: Path, *, silent: bool) -> None:
    mapping = job_mapping(RANKS, 8)
    job_file = write_job(mapping, tmp_path / "job.json")
    environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{os.environ.get('PYTHONPATH', '')}"}
    with Bridge(mapping, golden_switch(mapping), deaf=lambda *_: silent):
        ranks = [
            subprocess.Popen(
                [sys.executable, "-m", "helpers.gloo.leaving", way, str(rank), str(RANKS), str(tmp_path / "store"),
                 str(job_file)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ,
            )
            for rank in range(RANKS)
        ]  # fmt: skip
        try:
            outcomes = [rank.communicate(timeout=300) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    for rank, (said, complained) in zip(ranks, outcomes, strict=True):
        assert rank.returncode == 0, complained
        assert said.endswith("done\n")
        assert "Traceback" not in complained
    if way == "one_leaves":
        assert outcomes[1][0] == "lost\ndone\n"
