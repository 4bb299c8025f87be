# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A codec's footprint, the oracles, and the benchmark's report."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sumwire import codec
from sumwire.codec.base import CodecInfo
from sumwire.codec.errors import CodecError
from sumwire.codec.oracles import TOLERANCE, oracle_rows, sum_words
from sumwire.codec.tables import solve
from sumwire.codec.thc import ThcCodec
from sumwire_lab.bench.commands import codec as bench_codec


@pytest.mark.parametrize(
    ("words_up", "words_down", "chunk_values", "rule"),
    [(8, 9, 256, "words_down=9"), (0, 8, 256, "words_up=0"), (8, 8, 0, "chunk_values=0")],
)
def test_info_must_fit_a_slot(words_up: int, words_down: int, chunk_values: int, rule: str) -> None:
    CodecInfo("whole", 3, 8, 8, 256)
    with pytest.raises(CodecError, match=rule):
        CodecInfo("other", 3, words_up, words_down, chunk_values)


def test_info_is_what_goes_over_the_wire() -> None:
    one = ThcCodec(solve(4, 30, 1 / 32), job=1, worker=0).begin(torch.ones(3000), 0, 0)
    words = one.encode(one.norms())
    info = ThcCodec.info
    assert words.shape == (-(-3000 // info.chunk_values), info.words_up, 128)
    result: NDArray[np.uint8] = sum_words(solve(4, 30, 1 / 32), [words])
    assert result.shape[1] == info.words_down
    assert (info.op, info.preliminary_op) == (1, 2)


def test_public_names_exist() -> None:
    for name in dir(codec):
        assert getattr(codec, name) is not None
    assert codec.ThcCodec is importlib.import_module("sumwire.codec.thc").ThcCodec
    with pytest.raises(AttributeError, match="nothing"):
        _ = codec.nothing


def test_oracles_hold() -> None:
    rows = oracle_rows()
    assert len(rows) == len({name for name, _, _ in rows}) == 8
    for name, measured, expected in rows:
        assert measured == pytest.approx(expected, rel=TOLERANCE), name


@pytest.mark.parametrize("name", bench_codec.CODECS)
def test_benchmark_reports(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_codec, "_pin_to_one_core", lambda: False)
    target = tmp_path / "new" / "out.json"
    arguments = ["--values", "5000", "--rounds", "2", "--warmup", "1", "--json", str(target), "--codec", name]
    code = bench_codec.main(arguments)
    record = json.loads(target.read_text())
    assert (record["codec"], record["values"], record["rounds"], record["block"]) == (name, 5000, 2, 4096)
    assert list(record["forms"]) in (["native", "torch"], ["torch"])
    printed = capsys.readouterr().out
    for form, summary in record["forms"].items():
        assert list(summary["stages"]) == ["feedback add", "begin", "encode", "decode", "residual"]
        assert summary["min_ms"] >= sum(stage["min_ms"] for stage in summary["stages"].values()) > 0
        assert summary["target_ms"] == ({"native": 15.0, "torch": 40.0}[form] if name == "thc" else None)
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
            timed = bench_codec.time_rounds(bench_codec.make_codec("thc", 1024), 2000, rounds=1, warmup=0)
            assert os.environ.get("SUMWIRE_NATIVE") == before
            assert "native" not in timed or before != "0"
