# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire doctor --config`: what the controller's program says, and that the doctor need not wait for it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sumwire import cli
from sumwire_protocol import program

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
