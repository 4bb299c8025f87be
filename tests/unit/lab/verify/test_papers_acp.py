# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-papers on ACP-SGD: their experiments in short."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sumwire.lowrank.fusion import make_plan
from sumwire_lab.errors import OptionError
from sumwire_lab.experiments import acp_modelled
from sumwire_lab.experiments.acp_modelled import (
    ACP,
    LATE,
    UNFUSED,
    VARIANTS,
    AcpTraining,
    ModelledLink,
    ModelledPeers,
    PowerSgd,
)
from sumwire_lab.options import bench_options
from sumwire_lab.options.bench_options import AcpBenchOptions
from sumwire_lab.training.timing import LateHook
from sumwire_lab.verify import papers_acp
from torch import Tensor


def all_reduces(name: str) -> tuple[list[bool], int]:
    """Of one step: for every all-reduce, whether the first layer had its gradient; and the tensors to send."""
    variant = AcpTraining(VARIANTS[name])
    carried, after = variant.link.reduce, []
    first = next(variant._model.parameters())

    def reduce(x: Tensor, number: int) -> tuple[Tensor, object]:
        after.append(first.grad is not None)
        return carried(x, number)

    variant._acp._reduction = reduce  # type: ignore[assignment]
    with acp_modelled.one_thread():
        variant.step()
    return after, len(variant._acp.plan.items)


def test_each_variant_lacks_what_it_is_named_after() -> None:
    """Gradients come from the last layer on, so the first layer's is the last."""
    usual, tensors = all_reduces(ACP)
    assert acp_modelled.BUFFERS <= len(usual) < tensors
    assert usual == [False] * (len(usual) - 1) + [True]
    late, _ = all_reduces(LATE)
    assert late == [True] * len(usual)
    unfused, _ = all_reduces(UNFUSED)
    assert len(unfused) == tensors


def test_link_carries_one_buffer_after_the_other() -> None:
    link = ModelledLink()
    link.start_s, link.byte_s = 1000.0, 10.0
    first, second = (link.submit(lambda: link.reduce(torch.zeros(25), 0) and None) for _ in range(2))
    began = link.now()
    first.wait()
    assert link.now() - began == pytest.approx(2000, abs=10)
    first.wait()
    second.wait()
    assert link.now() - began == pytest.approx(4000, abs=10)


def test_rows_of_the_modelled_link() -> None:
    turn = {acp_modelled.COMPUTING: 0.5, acp_modelled.COMPRESSING: 0.6, ACP: 1.0, LATE: 1.2, UNFUSED: 1.1}
    slow = {name: 3 * seconds for name, seconds in turn.items()}
    checks = papers_acp.modelled_checks([turn, slow, turn])
    assert [check.holds for check in checks] == [True, False, True, True]
    assert list(checks[-1].value.values()) == pytest.approx([0.5, 0.1, 0.4])


def test_turns_measure_every_variant() -> None:
    [turn] = acp_modelled.measured(1)
    assert set(turn) == {acp_modelled.COMPUTING, acp_modelled.COMPRESSING, *VARIANTS}


def power_sgd() -> tuple[PowerSgd, ModelledPeers]:
    """For one buffer with two matrices and a tensor of one dimension."""
    ends = ModelledPeers()
    ends.link.start_s = 1.0
    one = PowerSgd(ends)
    one.plan = make_plan([(6, 4), (5,), (3, 8)], 1, min_compression=1e12)
    return one, ends


def test_power_sgd_sends_two_factors_one_after_the_other_and_keeps_what_is_left() -> None:
    one, ends = power_sgd()
    errors = torch.zeros(24 + 5 + 24)
    for step in range(3):
        x = torch.randn(53, generator=torch.Generator().manual_seed(step))
        before = ends.link._asked
        found, residual = one.reduce(x, step % 2)
        assert ends.link._asked - before == 2.0
        # The last parameters come first.
        kept = torch.cat([one._errors[2].reshape(-1), torch.zeros(5), one._errors[0].reshape(-1)])
        torch.testing.assert_close(found + kept, x + errors, rtol=0, atol=1e-5)
        assert not bool(residual().any()) and 0 < float(kept.norm()) < 2 * float(x.norm())
        errors = kept


def test_an_all_gather_costs_by_the_workers_and_has_half_the_hops() -> None:
    ends = ModelledPeers()
    ends.link.start_s, ends.link.byte_s = 8.0, 1.0
    assert len(ends.gather(torch.zeros(25))) == 4
    assert ends.link._asked == 4.0 + 100 * 4 / 2
    ends.add_(torch.zeros(25))
    assert ends.link._asked == 204.0 + 108.0


@pytest.mark.parametrize("system", [acp_modelled.SIGN, acp_modelled.POWER])
def test_systems_share_buffers_and_begin_alike(system: str) -> None:
    modes = {mode: acp_modelled.made(system, mode) for mode in acp_modelled.MODES}
    tensors = 2 * acp_modelled.LAYERS
    assert modes[acp_modelled.NAIVE].buffers == modes[acp_modelled.WFBP].buffers == tensors
    assert acp_modelled.BUFFERS <= modes[acp_modelled.FUSION_MODE].buffers < tensors
    for one in modes.values():
        one.link.start_s = 1000.0
    with acp_modelled.one_thread():
        taken = {mode: one.step() for mode, one in modes.items()}
    # Each buffer has a start, of an all-gather half of one; Power-SGD has two for each buffer with a matrix.
    starts = {"Sign-SGD": 0.5, "Power-SGD": 1.5}[system]
    assert taken[acp_modelled.NAIVE] == pytest.approx(1000 * starts * tensors, abs=100)
    assert taken[acp_modelled.FUSION_MODE] < taken[acp_modelled.WFBP] / 2


def test_cases_of_the_benchmark() -> None:
    options = AcpBenchOptions(systems=("gloo", case_acp := bench_options.ACP), buffers=(0.5,), ranks=(2, 3))
    cases = list(options.cases())
    assert len(cases) == 2 * 4 + 1 + 2 and len({case.label for case in cases}) == len(cases)
    by_label = {case.label: case.options.train for case in cases}
    assert by_label["systems: gloo, naive, 0 MB, rank 16"].late
    assert not by_label["systems: gloo, + WFBP, 0 MB, rank 16"].late
    assert by_label[f"systems: {case_acp}, fusion, no WFBP, 0.9 MB, rank 16"].late
    assert by_label[f"buffers: {case_acp}, + fusion, 0.5 MB, rank 16"].buffer_mb == 0.5
    assert by_label[f"ranks: {case_acp}, + fusion, 0.9 MB, rank 3"].rank == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"parts": ("all",)}, "parts=all"),
        ({"systems": ("nothing",)}, "systems=nothing"),
        ({"buffers": (-1.0,)}, "buffer-mb=-1.0"),
        ({"ranks": (0,)}, "rank=0"),
        ({"mbit": 0.0}, "bw=0.0"),
    ],
)
def test_wrong_options_of_the_benchmark(given: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        AcpBenchOptions(**given)


class Bucket:
    """What the hook looks at of a DDP bucket."""

    def __init__(self, number: int, *, last: bool) -> None:
        self.number, self._last = number, last

    def is_last(self) -> bool:
        return self._last


def test_late_hook_sends_nothing_before_the_last_bucket_and_keeps_the_order() -> None:
    sent: list[int] = []

    def inner(bucket: Any) -> torch.futures.Future[Tensor]:
        sent.append(bucket.number)
        future: torch.futures.Future[Tensor] = torch.futures.Future()
        if bucket.number == 2:
            future.set_exception(OSError("lost"))  # type: ignore[arg-type]
        else:
            future.set_result(torch.full((2,), float(bucket.number)))
        return future

    hook = LateHook(inner)
    first = hook.hand_over(Bucket(1, last=False))  # type: ignore[arg-type]
    second = hook.hand_over(Bucket(2, last=False))  # type: ignore[arg-type]
    assert sent == [] and not first.done()
    third = hook.hand_over(Bucket(3, last=True))  # type: ignore[arg-type]
    assert sent == [1, 2, 3]
    assert float(first.wait().sum()) == 2.0 and float(third.wait().sum()) == 6.0
    with pytest.raises(OSError, match="lost"):
        second.wait()
    hook.hand_over(Bucket(4, last=False))  # type: ignore[arg-type]
    assert sent == [1, 2, 3], "a step's buckets wait for that step's last one"
