# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The commands for a job that takes the slots that are free, with a real switch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.controller.config_texts import job, star, text
from helpers.controller.real_switches import soft_switch
from softswitch.switch import SoftSwitch
from sumwire_controller.cli import main

MOST = 3000


def test_a_job_file_has_the_slots_that_the_switch_gave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, written = tmp_path / "star.yaml", tmp_path / "job.json"
    words = ["job-file", str(path), "--job", "b", "-o", str(written)]
    with soft_switch(SoftSwitch()) as address:

        def configure(*names: str) -> None:
            jobs = [job(name, ord(name), 2, 0, 2) | {"slots": {"most": MOST}} for name in names]
            path.write_text(text(star(2, jobs=jobs)).replace("127.0.0.1:9559", address))

        configure("a", "b")
        assert main(words) == 1
        assert "job 'b': it takes the slots that are free, and its switches have not" in capsys.readouterr().err
        assert not written.exists()
        assert main(["apply", str(path)]) == 0
        assert main(words) == 0
        assert json.loads(written.read_text())["slots"] == 4096 - MOST
        configure("a", "b", "c")
        assert main(["apply", str(path)]) == 1
        assert "job c: 0 slots are free, and it needs 2: give other jobs fewer" in capsys.readouterr().err
        configure("b", "c")
        assert main(["apply", str(path)]) == 0
        assert main(["status", str(path)]) == 0
        assert "slots 3000..4095" in (said := capsys.readouterr().out) and "slots 0..2999" in said
        assert "s1: as configured" in said
