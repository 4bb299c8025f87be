# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The search for the largest loss that a script stands, with scripts that need no training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import ROOT
from nativelib import programs
from sumwire import cli
from sumwire.dlcp.packet_loss import ProfileError, Script, profile
from sumwire.errors import ConfigError

# A script that stands losses up to a share, and reports as from_environment would: that would load torch.
PLAYS = """
import json, os
share, burst = float(os.environ["SUMWIRE_LOSS"]), os.environ["SUMWIRE_LOSS_PATTERN"] == "burst"
with open(os.environ["SUMWIRE_LOSS_REPORT"], "a") as file:
    for _ in range(2):
        file.write(json.dumps({"packets": 1000, "lost": round(1000 * share)}) + "\\n")
print("noise")
print("accuracy:", 0.9 + 0.001 * int(os.environ["SUMWIRE_LOSS_SEED"]) - (share > (BURST if burst else IID)) * 0.1)
"""


def heed_interrupts() -> None:
    """Also where the tests run in the background of a shell, whose programs ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def script(tmp_path: Path, text: str, **limits: float) -> Path:
    path = tmp_path / "train.py"
    for name, value in limits.items():
        text = text.replace(name.upper(), repr(value))
    path.write_text(text)
    return path


def test_the_largest_share_that_holds(tmp_path: Path) -> None:
    said: list[str] = []
    grid = (0.01, 0.02, 0.03, 0.1, 0.2)
    found = profile(Script(script(tmp_path, PLAYS, iid=0.1, burst=0.025)), grid=grid, seeds=2, say=said.append)
    assert found.bound == 0.02
    assert found.baseline == pytest.approx(0.9005) and found.target == pytest.approx(0.8955)
    # Bisection: 0.03 fails in bursts only, then 0.01 and 0.02 hold.
    assert [run.share for run in found.runs] == [0.0] * 2 + [0.03] * 4 + [0.01] * 4 + [0.02] * 4
    assert {run.pattern for run in found.runs if run.share == 0.03} == {"iid", "burst"}
    assert any(line.startswith("p = 0.03 burst: mean 0.8005") and line.endswith("misses") for line in said)
    assert {run.lost_share for run in found.runs if run.share == 0.03} == {0.03}


@pytest.mark.parametrize(("limit", "bound"), [(0.005, 0.0), (0.5, 0.2)])
def test_the_ends_of_the_grid(tmp_path: Path, limit: float, bound: float) -> None:
    path = script(tmp_path, PLAYS, iid=limit, burst=limit)
    assert profile(Script(path), grid=(0.01, 0.2), patterns=("iid",), seeds=1).bound == bound


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = script(tmp_path, PLAYS, iid=0.1, burst=0.1), tmp_path / "runs.json"
    code = cli.main(
        ["profile-loss", str(path), "--target", "0.9", "--grid", "0.1,0.2", "--seeds", "1", "--json", str(out)]
    )
    printed = capsys.readouterr().out
    assert code == 0
    assert printed.splitlines()[-1] == "largest p that reaches it: 0.1"
    assert json.loads(out.read_text())["bound"] == 0.1
    assert cli.main(["profile-loss", str(path), "--target", "0.95", "--seeds", "1"]) == 1
    assert "reaches 0.9000 without loss, the target is 0.9500: lower --target" in capsys.readouterr().err


def test_the_script_has_its_user_s_whole_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what the command does not take for itself: a folder that everybody may write."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setattr(programs, "_taken", {})
    monkeypatch.setattr(os, "environ", {**os.environ, "TORCH_HOME": str(tmp_path / "shared")})
    programs.close_environment()
    assert "TORCH_HOME" not in os.environ
    text = f"import os\nassert os.environ['TORCH_HOME'] == {str(tmp_path / 'shared')!r}\n{PLAYS}"
    assert profile(Script(script(tmp_path, text, iid=0.1, burst=0.1)), grid=(0.1,), seeds=1).bound == 0.1


# Only packets of one place hurt, and the report names the place.
PLACED = """
import json, os
share, of = float(os.environ["SUMWIRE_LOSS"]), os.environ["SUMWIRE_LOSS_OF"]
with open(os.environ["SUMWIRE_LOSS_REPORT"], "a") as file:
    file.write(json.dumps({"packets": 1000, "lost": round(1000 * share)}) + "\\n")
print("accuracy:", 0.9 - 0.1 * (share > {"large": 0.1}.get(of, 0.2)))
"""


def test_a_profile_for_each_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = script(tmp_path, PLACED), tmp_path / "runs.json"
    words = ["--of", "small", "--of", "large", "--grid", "0.1,0.2,0.3", "--seeds", "1", "--pattern", "iid"]
    assert cli.main(["profile-loss", str(path), *words, "--json", str(out)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith("largest")] == [
        "largest p that reaches it, of small packets: 0.2",
        "largest p that reaches it, of large packets: 0.1",
    ]
    assert {place: found["bound"] for place, found in json.loads(out.read_text()).items()} == {
        "small": 0.2,
        "large": 0.1,
    }


def test_a_report_that_cannot_be_written_is_told_before_the_trainings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "nowhere" / "runs.json"
    assert cli.main(["profile-loss", str(script(tmp_path, "raise SystemExit('ran')")), "--json", str(out)]) == 1
    told = capsys.readouterr().err
    assert told == f"sumwire: {out}: No such file or directory: name a file that can be written: --json FILE\n"


@pytest.mark.long
def test_the_example_trains(tmp_path: Path) -> None:
    """One short training of the digits, with every tenth packet lost."""
    example = ROOT / "examples" / "train_digits.py"
    run = Script(example, ("--epochs", "2", "--hidden", "128")).run(0.1, "iid", 1)
    assert run.accuracy > 0.7 and run.lost_share == pytest.approx(0.1, abs=0.03)


def test_arguments_reach_the_script(tmp_path: Path) -> None:
    path = script(tmp_path, "import sys\nprint('accuracy:', sys.argv[2])")
    assert Script(path, ("--score", "0.75")).run(0.0, "iid", 0).accuracy == 0.75


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("print('accuracy: 0.9')", "lost nothing: let it call"),
        ("raise SystemExit('out of memory')", "ended with code 1:\nout of memory"),
        ("print('accuracy: 0.9\\nbye')", "the last line is 'bye': end the script with print"),
        ("print('my accuracy: 0.9')", "the last line is"),
        ("print('accuracy: --')", "the last line is"),
        ("", "is nothing"),
        ("import time; time.sleep(60)", "not done after 0.5 s"),
    ],
)
def test_scripts_that_do_not_play_along(tmp_path: Path, text: str, rule: str) -> None:
    timeout = 0.5 if "sleep" in text else None
    with pytest.raises(ProfileError, match=rule):
        Script(script(tmp_path, text), timeout_s=timeout).run(0.1, "iid", 0)


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"grid": ()}, "grid"),
        ({"grid": (0.1, 0.05)}, "must be shares that rise"),
        ({"grid": (0.1, 1.0)}, r"within \(0, 1\)"),
        ({"patterns": ("rain",)}, "patterns"),
        ({"seeds": 0}, "seeds = 0"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, settings: dict[str, Any], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        profile(Script(script(tmp_path, PLAYS)), **settings)
    with pytest.raises(ConfigError, match="must be a Python file"):
        Script(tmp_path / "nowhere.py")


def test_interrupting_ends_the_script(tmp_path: Path) -> None:
    """Ctrl-C reaches the command; the training and what it has started end too."""
    marks = tmp_path / "pids"
    text = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
with open({str(marks)!r} + ".new", "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
os.rename({str(marks)!r} + ".new", {str(marks)!r})
time.sleep(60)
"""
    path = script(tmp_path, text)
    command = [sys.executable, "-m", "sumwire.cli", "profile-loss", str(path), "--seeds", "1"]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,  # noqa: PLW1509 - no threads here
    ) as running:
        deadline = time.monotonic() + 60
        while not marks.exists():
            assert time.monotonic() < deadline and running.poll() is None
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGINT)
        _, error = running.communicate(timeout=300)
    assert running.returncode == 130 and "interrupted" in error
    for pid in map(int, marks.read_text().split()):
        assert ended(pid), f"{pid} still runs"


def ended(pid: int) -> bool:
    """Gone, or dead and not yet waited for by its new parent."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False
