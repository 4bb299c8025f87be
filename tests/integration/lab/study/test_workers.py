# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Workers in processes of their own: arguments and answers, ranks with a job, failures, limits, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.lab import study_workers
from sumwire_lab.errors import LabError, ProcessDiedError
from sumwire_lab.study.study import Column, Study, grid, run
from sumwire_lab.study.workers import in_child, name_of, on_loopback

MINE = """
import os, sys, time
from dataclasses import dataclass
from sumwire_lab.study.study import Column, Study

@dataclass(frozen=True)
class Trial:
    number: int
    seconds: float = 0.0

def work(trial: Trial):
    sys.stdout.write(f"{os.getpid()}\\n")
    sys.stdout.flush()
    time.sleep(trial.seconds)
    if trial.number == 3:
        raise ValueError("three is too many")
    return {"square": trial.number ** 2, "pid": os.getpid()}

study = Study(
    "mine", "squares", [Trial(n, SECONDS) for n in NUMBERS], work,
    (Column("square", kind=int), Column("pid", kind=int)), place="child", parallel=2,
)
"""


def mine(folder: Path, numbers: list[int], seconds: float = 0.0) -> Path:
    path = folder / "mine.py"
    path.write_text(MINE.replace("NUMBERS", str(numbers)).replace("SECONDS", str(seconds)))
    return path


def lab(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "sumwire_lab", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def test_arguments_come_as_their_annotations_say_and_answers_as_json() -> None:
    given = study_workers.Given((1, 2), Path("x"), {"a": 0.5})
    assert in_child(study_workers.typed, given) == {"sum": 3, "path": "PosixPath", "half": 0.5, "torch": False}


def test_ranks_have_numbers_a_group_and_a_job(tmp_path: Path) -> None:
    answers = on_loopback(study_workers.summed, 10, 2, ops=["sum32", "max32"], folder=tmp_path)
    assert answers == [{"rank": 0, "group": 3.0, "job": [21, 21]}, {"rank": 1, "group": 3.0, "job": [21, 21]}]


def test_a_worker_that_fails_is_told_with_the_end_of_its_log() -> None:
    with pytest.raises(ProcessDiedError, match="ValueError: this one fails"):
        in_child(study_workers.failing, None)


def test_a_worker_has_a_name_at_the_top_of_its_module() -> None:
    assert name_of(study_workers.typed) == f"{study_workers.__file__}:typed"
    assert name_of(on_loopback) == "sumwire_lab.study.workers:on_loopback"
    with pytest.raises(LabError, match="at the top level of its module"):
        name_of(lambda case: case)


def test_cases_run_side_by_side(tmp_path: Path) -> None:
    study = Study(
        "side", "", grid(number=[1, 2], others=[tmp_path]), study_workers.meeting, (Column("met", kind=bool),),
        place="child", parallel=2, deadline_s=60,
    )  # fmt: skip
    assert [row["met"] for row in run(study, tmp_path, lambda line: None).rows()] == [True, True]


def test_a_case_ends_at_its_deadline(tmp_path: Path) -> None:
    study = Study("late", "", grid(seconds=[600]), study_workers.sleeping, place="child", deadline_s=1)
    [record] = run(study, tmp_path, lambda line: None).records
    assert (record.error or "").startswith("not done after 1 s")


def test_a_user_s_file_runs_its_cases_in_children(tmp_path: Path) -> None:
    done = lab("study", mine(tmp_path, [2, 3]), "--results", tmp_path / "results")
    text = done.communicate(timeout=300)[0]
    assert done.returncode == 1, text
    assert "failed: number=3 seconds=0: ValueError: three is too many" in text
    done = lab("study", mine(tmp_path, [2]), "--results", tmp_path / "results")
    text = done.communicate(timeout=300)[0]
    assert done.returncode == 0, text
    assert f"{tmp_path}/results/mine" in text


def test_ctrl_c_ends_the_cases_and_keeps_what_is_done(tmp_path: Path) -> None:
    going = lab("study", mine(tmp_path, [1, 2, 4], seconds=600), "--results", tmp_path / "results")
    logs: list[Path] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and sum(bool(log.read_text()) for log in logs) < 2:
        time.sleep(0.1)
        logs = sorted((tmp_path / "results").glob("mine/cases/*/worker.log"))
    pids = [int(log.read_text()) for log in logs]
    going.send_signal(signal.SIGINT)
    text = going.communicate(timeout=300)[0]
    assert going.returncode == 130, text
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
