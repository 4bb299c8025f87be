# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire pays SCRIPT`: what it takes from a training script, which goes no further than to its model."""

from __future__ import annotations

from pathlib import Path

import pytest
from sumwire import cli
from sumwire.start import trial
from sumwire.start.errors import StartError
from sumwire.start.model_shapes import shapes_of_script
from sumwire.systems.pays import HostCost, Measured

BEGIN = """
import pathlib, sys
import beside
import torch
from torch import nn
model = nn.Sequential(nn.Linear(30, 40), nn.BatchNorm1d(40), nn.Linear(40, 5))
model[2].bias.requires_grad_(False)
"""
END = "\npathlib.Path(__file__).with_name('went on').touch()\n"
SHAPES = [(40, 30), (40,), (40,), (40,), (5, 40)]
WRAPPED = """
import torch.distributed as dist, sumwire
from torch.nn.parallel import DistributedDataParallel
assert __name__ == "__main__" and sys.argv[1:] == ["--lr", "0.1"], sys.argv
dist.init_process_group("gloo")
with sumwire.init() as job:
    model = DistributedDataParallel(model)
"""
ASKED = "import sumwire\nsystem = sumwire.init(system='auto', model=model)\n"
OPTIMIZED = """
class Own(torch.optim.SGD):
    pass
Own([{"params": model[:2].parameters()}, {"params": [p for p in model[2].parameters() if p.requires_grad]}], lr=0.1)
"""


def script(folder: Path, text: str) -> Path:
    (folder / "beside.py").write_text("")
    path = folder / "train.py"
    path.write_text(BEGIN + text + END)
    return path


@pytest.mark.parametrize(
    ("text", "arguments"), [(WRAPPED, ["--lr", "0.1"]), (ASKED, []), (OPTIMIZED, [])], ids=["ddp", "init", "optimizer"]
)
def test_a_script_is_left_where_its_model_is_ready(tmp_path: Path, text: str, arguments: list[str]) -> None:
    assert shapes_of_script(script(tmp_path, text), arguments, 120.0) == SHAPES
    assert not (tmp_path / "went on").exists()


def test_the_command_takes_the_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, WRAPPED)
    monkeypatch.setattr(trial, "measured", lambda asked: Measured({"ssgd": HostCost(2e-9)}, 1e-4))
    assert cli.main(["pays", str(path), "--rate", "1G", "--", "--lr", "0.1"]) == 0
    told = capsys.readouterr().out
    assert f"\nshapes: 1,520 values in 5 tensors, of {path}\n" in told and "assumed" not in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sys.exit('no data here')", r"ended with code 1 before a .*:\nno data here\nmend .*train.py, or give --model"),
        ("", r"ended without a DistributedDataParallel model or an optimizer in its own process: mend"),
        ("nn.parallel.DistributedDataParallel(nn.ReLU())", "its model has no parameters of known sizes"),
    ],
)
@pytest.mark.few(1)
def test_a_script_without_a_model(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(StartError, match=message):
        shapes_of_script(script(tmp_path, text), [], 120.0)


def test_a_script_that_takes_too_long(tmp_path: Path) -> None:
    path = script(tmp_path, "import threading\nthreading.Event().wait()")
    with pytest.raises(StartError, match=r"no optimizer after 0\.5 s: raise --timeout, or give --model"):
        shapes_of_script(path, [], 0.5)


def test_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pays", "nowhere.py", "--rate", "1G"]) == 1
    assert "pays: script = 'nowhere.py': must be a Python file; name one that is there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train.py", "--shapes", "2x2"], "--shapes = '2x2': must not be given with a script"),
        (["--params", "1M", "--", "--lr"], "arguments = ['--lr']: must follow a script"),
    ],
)
def test_options_that_do_not_go_together(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pays", "--rate", "1G", *words]) == 1
    assert message in capsys.readouterr().err
