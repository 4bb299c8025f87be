# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tuning tables: measured, kept on this machine, agreed on by all ranks."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.logs import events_of
from sumwire.config import JobConfig, parse_job
from sumwire.errors import ConfigError, UsageError
from sumwire.job.tuning import (
    BrokenTableError,
    Sample,
    Selection,
    Through,
    TuningTable,
    agreed_choice,
    check_sizes,
    load_table,
    measured,
    save_table,
    tuning_path,
)
from sumwire_protocol.events import Event
from torch import Tensor

TABLE = TuningTable({"thc": (Sample(1000, 2e-3, 1e-3), Sample(10_000, 2e-3, 3e-3), Sample(100_000, 9e-3, 1e-3))})


def config(workers: int = 2, aggregator: str = "10.0.0.9") -> JobConfig:
    addresses = [
        {"worker": w, "ip": f"10.0.0.{w + 1}", "udp_port": 21335, "aggregator": aggregator, "seat": w}
        for w in range(workers)
    ]
    return parse_job(
        {
            "format": 3, "name": "test", "job": 7, "ops": ["max32", "sum32"], "workers": workers, "quorum": workers,
            "slots": 8, "addresses": addresses, "thc": None,
        },
        0,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sumwire"


@pytest.mark.parametrize(
    ("values", "group"),
    [(1, True), (1000, True), (3000, True), (4000, False), (31_000, False), (32_000, True), (10**9, True)],
)
def test_the_nearest_measured_size_decides(values: int, group: bool) -> None:
    assert TABLE.prefers_group("thc", values) is group
    assert not TABLE.prefers_group("sum32", values)


@pytest.mark.parametrize(("switch_ms", "group"), [(8.9, False), (9.1, True), (10.0, True), (12.0, True)])
def test_the_switch_must_be_a_tenth_faster(switch_ms: float, group: bool) -> None:
    """The group's mean is exact."""
    assert Sample(1000, switch_ms, 10.0).prefers_group is group


@pytest.mark.parametrize(
    "content",
    [
        None, [], {"thc": []}, {"thc": [[1, 2]]}, {"thc": [[0, 1.0, 1.0]]}, {"thc": [[1, -1.0, 1.0]]},
        {"thc": [[2, 1.0, 1.0], [1, 1.0, 1.0]]}, {"thc": [[1, "1", 1.0]]}, {"thc": [[1, float("inf"), 1.0]]},
        {"thc": [[0.5, 1.0, 1.0]]}, {"thc": [[1.5, 1.0, 1.0]]},
        {"thc": [[True, 1.0, 1.0]]}, {"thc": [[k + 1, 1.0, 1.0] for k in range(65)]},
    ],
)  # fmt: skip
def test_broken_content_is_refused(content: Any) -> None:
    with pytest.raises(BrokenTableError):
        TuningTable.of(content)


def test_a_kept_table_is_found_by_jobs_of_the_same_network(caplog: pytest.LogCaptureFixture) -> None:
    assert load_table(config()) is None
    path = save_table(config(), TABLE)
    assert path.stat().st_mode & 0o077 == 0
    found = load_table(config())
    assert found is not None
    assert found.content() == TABLE.content()
    assert load_table(config(workers=3)) is None
    assert load_table(config(aggregator="10.0.0.8")) is None
    assert not caplog.records
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208 - names


def _as_text(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


def _changed(**fields: Any) -> Callable[[Path], object]:
    return lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def _as_compact_text(path: Path) -> None:
    """All numbers are written in one place each."""
    samples = {f"c{codec}": [[k + 1, 1, 1] for k in range(64)] for codec in range(25)}
    path.write_text(json.dumps({**json.loads(path.read_text()), "codecs": samples}, separators=(",", ":")))
    assert path.stat().st_size < 16_384


@pytest.mark.parametrize(
    ("breakage", "words"),
    [
        (lambda path: path.chmod(0o666), "mode 0666: it must belong to"),
        (_as_text("{"), "must be JSON"),
        (_as_text("[]"), "must have"),
        (_as_text(" " * 20_000), "longer than"),
        (_changed(format=2), "must have"),
        (_changed(workers=5), "must have"),
        (_changed(codecs={"thc": [[1]]}), "thc"),
        (_changed(codecs=3), "object"),
        (_as_compact_text, "take more than 16320 bytes"),
    ],
)
def test_a_broken_file_is_ignored_with_one_warning(
    breakage: Callable[[Path], object], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    breakage(save_table(config(), TABLE))
    with caplog.at_level(logging.WARNING, "sumwire"):
        assert load_table(config()) is None
    [record] = caplog.records
    assert words in record.getMessage()
    assert events_of([record]) == [Event.TUNING_IGNORED]
    assert record.getMessage().endswith("remove it, or measure again: sumwire tune JOBFILE")


def test_another_users_file_is_ignored(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    found = save_table(config(), TABLE).stat()
    changed = os.stat_result((*found[:4], 4321, *found[5:10]))
    real = os.fstat
    monkeypatch.setattr(os, "fstat", lambda file: changed if stat.S_ISREG(real(file).st_mode) else real(file))
    assert load_table(config()) is None
    assert "belongs to user 4321" in caplog.text


def test_a_folder_that_cannot_be_written_is_an_error(cache: Path) -> None:
    cache.write_text("")
    with pytest.raises(UsageError, match="is not kept; name another folder"):
        save_table(config(), TABLE)
    assert tuning_path(config()).parent == cache


def gathering(*others: tuple[Through, TuningTable | None]) -> Callable[[Tensor], list[Tensor]]:
    """A gather in which this process is the last rank."""

    def row(through: Through, table: TuningTable | None) -> Tensor:
        rows: list[Tensor] = []

        def note(own: Tensor) -> list[Tensor]:
            rows.append(own)
            return [own]

        agreed_choice("test", through, table, note, blind=False)
        return rows[0]

    return lambda own: [*(row(*other) for other in others), own]


def test_rank_0s_table_counts_for_all() -> None:
    x = torch.zeros(1000)
    assert not agreed_choice("test", "auto", TABLE, gathering(("auto", None)), blind=False).by_group("thc", x)
    choice = agreed_choice("test", "auto", None, gathering(("auto", TABLE), ("auto", None)), blind=False)
    assert choice.by_group("thc", x)
    assert not choice.by_group("thc", torch.zeros(10_000))


def test_different_options_are_refused_on_all_ranks() -> None:
    with pytest.raises(ConfigError, match=r"through = \['group', 'auto'\]: must be equal on all ranks"):
        agreed_choice("test", "auto", None, gathering(("group", None)), blind=False)
    with pytest.raises(ConfigError, match=r"blind = \[False, True\]: must be equal on all ranks"):
        agreed_choice("test", "auto", None, gathering(("auto", None)), blind=True)


def test_only_means_go_by_the_group() -> None:
    x = torch.zeros(1000)
    assert Selection("group").by_group("thc", x)
    assert Selection("group").by_group("sum32", x)
    assert not Selection("group").by_group("sign", x)
    assert not Selection("group").by_group("sum32", x.double())
    assert not Selection("switch", TABLE).by_group("thc", x)
    assert not Selection("auto").by_group("thc", x)


def test_medians_of_the_slowest_rank_are_kept() -> None:
    """Two reductions to warm up and five that count, in both ways in turn."""
    seconds: dict[Through, list[float]] = {
        "switch": [9.0, 8.0, 0.1, 0.3, 0.2, 0.9, 0.1],
        "group": [7.0, 7.0, 0.4, 0.5, 0.6, 0.1, 0.9],
    }
    calls: list[tuple[int, Through]] = []

    def timed(x: Tensor, through: Through) -> float:
        calls.append((len(x), through))
        return seconds[through][(len(calls) - 1) // 2 % 7]

    table = measured({"thc": timed}, lambda own_s: own_s + 0.25, (10, 20))
    assert table.content() == {"thc": [[10, 0.45, 0.75], [20, 0.45, 0.75]]}
    assert calls == [(size, through) for size in (10, 20) for _ in range(7) for through in ("switch", "group")]


@pytest.mark.parametrize("sizes", [(), (0,), (-1, 5), (5, 5), (10, 1), tuple(range(1, 66)), (1.5, 2), ("a",)])
def test_sizes_that_no_table_can_have_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(
        UsageError, match=r"sizes = \[.*\]: must be 1 to 64 whole numbers of values, above 0 and rising"
    ):
        check_sizes(sizes)
    check_sizes(range(1, 65))


def test_larger_tensors_are_not_measured_for_minutes() -> None:
    table = measured({"thc": lambda x, through: 0.6}, lambda own_s: own_s, (10, 20))
    assert [sample.values for sample in table.samples["thc"]] == [10]
