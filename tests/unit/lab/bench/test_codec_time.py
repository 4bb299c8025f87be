# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""bench-codec: what it prints, writes and answers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from sumwire_lab import cli
from sumwire_lab.bench import codec_time
from sumwire_lab.bench.codec_time import time_rounds
from sumwire_lab.options.bench_options import CODECS


@pytest.mark.parametrize("name", CODECS)
def test_benchmark_reports(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(codec_time, "_pin_to_one_core", lambda: False)
    target = tmp_path / "new" / "out.json"
    arguments = ["--values", "5000", "--rounds", "2", "--warmup", "1", "--json", str(target), "--codec", name]
    code = cli.main(["bench", "codec", *arguments])
    record = json.loads(target.read_text())
    assert (record["codec"], record["values"], record["rounds"], record["block"]) == (name, 5000, 2, 4096)
    assert list(record["forms"]) in (["native", "torch"], ["torch"])
    printed = capsys.readouterr().out
    for form, summary in record["forms"].items():
        assert list(summary["stages"]) == ["feedback add", "begin", "encode", "decode", "residual"]
        assert summary["min_ms"] >= sum(stage["min_ms"] for stage in summary["stages"].values()) > 0
        assert summary["target_ms"] == ({"native": 2.0, "torch": 40.0}[form] if name == "thc" else None)
        assert summary["holds"] == (name != "thc" or summary["cpu_median_ms"] <= summary["target_ms"])
        assert f"5000 values on one core, {form}" in printed
    assert record["cpu_median_ms"] == next(iter(record["forms"].values()))["cpu_median_ms"]
    assert code == (0 if all(summary["holds"] for summary in record["forms"].values()) else 1)


def test_benchmark_leaves_the_choice_of_form_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "0", "1"):
        with monkeypatch.context() as patch:
            if before is None:
                patch.delenv("SUMWIRE_NATIVE", raising=False)
            else:
                patch.setenv("SUMWIRE_NATIVE", before)
            timed = time_rounds(codec_time.make_codec("thc", 1024), 2000, rounds=1, warmup=0)
            assert os.environ.get("SUMWIRE_NATIVE") == before
            assert "native" not in timed or before != "0"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_an_error_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "codec", "--values", "5000", "--device", "cuda"]) == 2
    assert "device=cuda: torch finds none here: " in capsys.readouterr().err


def test_wrong_options_are_an_error_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "codec", "--values", "0"]) == 2
    assert "values=0" in capsys.readouterr().err
    assert cli.main(["bench", "aggregator", "--piece", "3"]) == 2
    assert "piece=3: must divide 512" in capsys.readouterr().err
