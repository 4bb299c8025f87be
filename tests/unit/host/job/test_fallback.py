# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The process group in the switch's place: in a fall-back, and by choice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import torch
from sumwire.codec.errors import CodecError
from sumwire.codec.tensors import Recycler
from sumwire.errors import OrderError, StaleRunError
from sumwire.job.control import Control
from sumwire.job.fallback import LARGE, GroupMean
from sumwire.job.gloo import Fallback
from sumwire.job.group_session import AgreedFallback
from sumwire.transport.stats import JobStats
from torch import Tensor


@dataclass
class Ranks:
    """The job's control, as far as an operation asks it."""

    greeted: bool
    fell_back: list[str] = field(default_factory=list)

    def await_fallback(self, lost: str = "") -> None:
        self.fell_back.append(lost)


def overtaken() -> torch.Tensor:
    raise StaleRunError("another run has begun", slot=0, round_=32)


def carried(ranks: Ranks, **options: Any) -> torch.Tensor | None:
    fallback = AgreedFallback(cast(Control, ranks), JobStats(), **{"always": False, "never": False, **options})
    return fallback._through_switch(overtaken)


@pytest.mark.parametrize("always", [True, False])
def test_the_newer_run_is_a_greeting_of_its_own_or_what_others_have_left(always: bool) -> None:
    ranks = Ranks(greeted=True)
    assert carried(ranks, always=always) is None
    assert ranks.fell_back == ["another run has begun"]


@pytest.mark.parametrize(("greeted", "never"), [(False, False), (True, True)])
def test_who_never_greeted_and_who_shall_not_fall_back_ends(greeted: bool, never: bool) -> None:
    ranks = Ranks(greeted)
    with pytest.raises(StaleRunError):
        carried(ranks, never=never)
    assert ranks.fell_back == []


RANKS = 3


class Alike:
    """A group in which the other ranks have the same tensor and ``tag``."""

    ranks = RANKS

    def __init__(self, other_tag: int | None = None) -> None:
        self.other_tag = other_tag
        self.collectives = 0

    def add_(self, total: Tensor) -> None:
        self.collectives += 1
        if self.other_tag is not None:
            total[-3] += self.other_tag
        total.mul_(RANKS)


def mean(x: Tensor, group: Alike, *, total: bool = False) -> Tensor:
    operation = GroupMean("thc", x, 1, Recycler(), total=total)
    operation.tag = 7
    return operation.ordinary(cast(Fallback, group))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_mean_is_divided_in_float32(dtype: torch.dtype) -> None:
    """Half precision loses a third of most values, and all of its smallest one."""
    least = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps if dtype.itemsize == 2 else 1e-30
    x = torch.tensor([1.0, 1.25, -65000.0, least], dtype=dtype)
    found = mean(x, Alike())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), x.double(), rtol=3e-7, atol=3e-45)


def test_what_the_switch_refuses_is_refused_before_any_collective() -> None:
    for x in (torch.ones(4, 5), torch.ones(3, dtype=torch.int64)):
        with pytest.raises(CodecError, match="needs a flat one of"):
            mean(x, Alike())


def test_a_negated_view_is_added_as_what_it_is() -> None:
    for total, value in ((False, -2.0), (True, -2.0 * RANKS)):
        assert mean(torch._neg_view(torch.full((2,), 2.0)), Alike(), total=total).tolist() == [value] * 2


def test_calls_that_differ_end() -> None:
    with pytest.raises(OrderError, match="mean by thc, by the process group of 2 values"):
        mean(torch.ones(2), Alike(other_tag=1))


def test_a_large_tensor_is_added_where_its_mean_is_to_be() -> None:
    x = torch.randn(LARGE)
    expected = mean(x.clone(), Alike())
    operation = GroupMean("thc", x, 1, Recycler(), into=x)
    result = operation.ordinary(cast(Fallback, Alike()))
    assert result is x
    assert torch.equal(result, expected)
    assert len(operation.kept(result).tensor()) == 0, "the caller may change it"
    assert operation.kept(expected).tensor() is expected


def test_large_tensors_of_other_calls_are_left_alone() -> None:
    x = torch.ones(LARGE)
    operation = GroupMean("thc", x, 1, Recycler(), into=x)
    with pytest.raises(OrderError, match="by the process group"):
        operation.ordinary(cast(Fallback, Alike(other_tag=1)))
    assert torch.equal(x, torch.ones(LARGE))


@pytest.mark.parametrize("values", [5, LARGE])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_total_is_not_divided(values: int, dtype: torch.dtype) -> None:
    x = torch.arange(values).remainder(100).to(dtype)
    assert torch.equal(mean(x, Alike(), total=True), x.float() * RANKS)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_large_total_is_made_where_it_is_to_be(elsewhere: bool) -> None:
    x = torch.arange(LARGE).remainder(100).float()
    expected = x * RANKS
    into = torch.empty_like(x) if elsewhere else x
    result = GroupMean("thc", x, 1, Recycler(), into=into, total=True).ordinary(cast(Fallback, Alike()))
    assert result is into
    assert torch.equal(result, expected)


@pytest.mark.parametrize("compared", [False, True])
def test_calls_that_were_compared_need_no_marks(compared: bool) -> None:
    group = Alike()
    operation = GroupMean("thc", torch.ones(LARGE), 1, Recycler())
    operation.compared = compared
    operation.ordinary(cast(Fallback, group))
    assert group.collectives == (1 if compared else 2)
