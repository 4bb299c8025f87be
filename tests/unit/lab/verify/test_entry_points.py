# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-ways."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from sumwire_lab.errors import LabError
from sumwire_lab.experiments import added_lines, outer_steps
from sumwire_lab.experiments.sharded import Sharded
from sumwire_lab.system import congestion_control
from sumwire_lab.verify import entry_points


def test_three_lines_are_added_to_a_plain_script() -> None:
    plain = added_lines.PLAIN.read_text()
    changed = added_lines.with_sumwire(plain)
    assert added_lines.lines_added(plain, changed) == 3
    assert added_lines.lines_added(plain, added_lines.with_signs(plain)) == 2
    assert added_lines.lines_added("a\nb\n", "a\nc\n") == 2


def test_no_script_is_imported_in_place_of_a_package(tmp_path: Path) -> None:
    """A script's folder comes first on its path."""
    for name, script in added_lines.scripts(tmp_path).items():
        assert name in script.stem
        assert find_spec(script.stem) is None


def test_rows_of_sharded_training() -> None:
    """The slowest turn does not count, the median does."""
    took = {"gloo": [9.0, 3.0, 3.3], "sumwire": [1.0, 1.1, 0.2]}
    record = Sharded(1_532_257, took, {"gloo": [0.5], "sumwire": [0.6]}, {"gloo": [2.0], "sumwire": [2.5]}, True)
    ratio, same = entry_points.hybrid_checks(record)
    assert (ratio.holds, same.holds) == (True, True)
    assert ratio.value == {
        "ratio": 3.3, "gloo": 3.3, "sumwire": 1.0, "CPU s gloo": 0.5, "CPU s sumwire": 0.6, "loss gloo": 2.0,
        "loss sumwire": 2.5,
    }  # fmt: skip
    slow = Sharded(6_013_537, {"gloo": [2.9], "sumwire": [1.0]}, record.cpu_s, record.losses, False)
    assert [check.holds for check in entry_points.hybrid_checks(slow)] == [False, False]
    assert entry_points.narrow_check(slow).holds
    assert "transformer, 6.0 M parameters, 4 x 2 ranks" in entry_points.narrow_check(slow).check


@pytest.mark.parametrize(("rounded", "equal", "held"), [(1.9, True, [True] * 3), (2.1, False, [True, False, False])])
def test_rows_of_shards_on_all_ranks(rounded: float, equal: bool, held: list[bool]) -> None:
    """Gathers with 8 bits have the target; both mechanisms are told alone."""
    took = {"gloo": [6.0], "sumwire": [4.0], "gloo, parameters 8bit": [4.2], "sumwire, parameters 8bit": [rounded]}
    record = Sharded(6_013_537, took, {"gloo": [0.5]}, {"gloo": [2.0]}, equal)
    checks = entry_points.whole_checks(record)
    assert [check.holds for check in checks] == held
    assert checks[0].value["ratio"] == 1.5
    assert checks[1].value["gloo / gloo with 8 bits"] == 1.43
    assert checks[1].value["gloo with 8 bits / sumwire with 8 bits"] == round(4.2 / rounded, 2)


def test_rows_of_outer_steps() -> None:
    good, slow = ({"values": 9, "seconds": {"gloo": 6.0, "int8 ring": 2.0, "4bit": own}} for own in (1.0, 1.1))
    assert [check.holds for check in entry_points.outer_time_checks({"cubic": good, "bbr": good})] == [True] * 4
    assert [check.holds for check in entry_points.outer_time_checks({"cubic": slow, "bbr": good})] == [
        False,
        False,
        True,
        True,
    ]
    with_bbr = entry_points.outer_time_checks({"cubic": good, "bbr": slow})[3]
    assert (with_bbr.holds, with_bbr.target) == (True, "reported")
    assert with_bbr.value == {"ratio": 1.82, "int8 ring": 2.0, "4bit": 1.1, "values": 9}
    losses = {"exact": [2.0, 2.2], "4bit": [2.02, 2.2], "1bit": [2.1, 2.2]}
    for changed, held in (
        ({}, [True, True]),
        ({"4bit": [2.1, 2.2]}, [False, True]),
        ({"1bit": [2.0, 2.2]}, [True, False]),
    ):
        assert [check.holds for check in entry_points.outer_loss_checks(losses | changed)] == held


def test_an_outer_step_takes_the_slowest_workers_time_of_each_system_in_turn() -> None:
    one, other = ([6.0, 2.0, 1.0, 7.0, 3.0, 0.5, 8.0, 4.0, 2.0], [5.0, 2.5, 1.0, 9.0, 1.0, 0.5, 8.0, 1.0, 3.0])
    workers = [{"sizes": [{}, {"seconds": seconds}]} for seconds in (one, other)]
    assert outer_steps.by_system(workers, 1) == {"gloo": 8.0, "int8 ring": 3.0, "4bit": 1.0}


def test_congestion_controls_of_the_kernel(tmp_path: Path) -> None:
    file = tmp_path / "tcp_available_congestion_control"
    file.write_text("reno bbr cubic\n")
    assert congestion_control.available(("cubic", "vegas", "bbr"), file) == ("cubic", "bbr")
    with pytest.raises(LabError, match="tcp_available_congestion_control has 'reno bbr cubic', none of vegas"):
        congestion_control.available(("vegas",), file)


def test_bytes_of_the_ring() -> None:
    """A byte a value and a float32 a block; an error of at most half a step of the block's largest value."""
    x = torch.randn(3, outer_steps.BLOCK, generator=torch.Generator().manual_seed(1))
    x[1] *= 1000
    content = outer_steps.packed(x)
    assert len(content) == 3 * (outer_steps.BLOCK + 4)
    step = x.abs().amax(1, keepdim=True) / 127
    assert bool(((outer_steps.unpacked(content) - x).abs() <= step / 2 * 1.0001).all())
    assert torch.equal(
        outer_steps.unpacked(outer_steps.packed(torch.zeros(1, outer_steps.BLOCK))), torch.zeros(1, 4096)
    )


def test_rows_of_ranks_that_come_and_go() -> None:
    good = {
        "kills": 2, "resumed_s": [2.5, 4.9], "steps": 90, "discarded": 2, "checked": 300, "lost": 1e-6, "error": 0.02,
        "equal": True, "accuracy": 0.95, "uninterrupted": 0.96, "until_first": 0.92,
    }  # fmt: skip
    assert [check.holds for check in entry_points.elastic_checks(good)] == [True] * 5
    bad = {"resumed_s": [2.5, 5.1], "equal": False, "checked": 0, "accuracy": 0.9, "until_first": 0.93}
    assert [check.holds for check in entry_points.elastic_checks(good | bad)] == [False] * 5
    for name in ("lost", "error"):
        assert not entry_points.elastic_checks(good | {name: 0.3})[2].holds


def test_rows_of_training_loops() -> None:
    """An untrained network has a loss of 2.303; gloo's falls to 0.303."""
    baseline = [{"scenario": name, "loss": 0.303, "equal": True} for name in ("good", "sparse embedding")]
    good = {"scenario": "good", "loss": 0.4, "equal": True}
    refused = {"scenario": "sparse embedding", "refused": "UsageError: sparse gradient"}
    [check] = entry_points.scenario_checks("hook", 2, [good, refused], baseline)
    assert (check.holds, check.value) == (True, "2 of 2")
    for bad in ({"loss": 0.6}, {"equal": False}, {"scenario": "unknown"}):
        assert not entry_points.scenario_checks("hook", 2, [{**good, **bad}], baseline)[0].holds
    for failed in (refused, {"scenario": "good", "error": "hung"}):
        [check] = entry_points.scenario_checks("backend", 2, [failed], baseline)
        assert (check.holds, check.value) == (False, {failed["scenario"]: failed})
