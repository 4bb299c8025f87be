# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sums of squares that are found while a residual is added: taken where they still hold, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sumwire.codec import kernels
from sumwire.codec.feedback import ErrorFeedback, ParameterFeedback
from sumwire.codec.tables import solve
from sumwire.codec.thc import ThcCodec
from torch import Tensor

GENERATOR = torch.Generator().manual_seed(11)


@pytest.fixture(autouse=True)
def compiled() -> None:
    if kernels.kernels(torch.zeros(1)) is None:
        pytest.skip("needs a C compiler, and SUMWIRE_NATIVE not 0")


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of tensors that are read for their sums of squares alone."""
    read: list[int] = []
    plain = kernels._in_c

    def counted(x: Tensor, *rest: object) -> object:
        read.append(len(x))
        return plain(x, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(kernels, "_in_c", counted)
    return read


def pair(length: int) -> tuple[Tensor, Tensor]:
    return torch.randn(length, generator=GENERATOR), torch.randn(length, generator=GENERATOR)


@pytest.mark.parametrize("length", [1, 1023, 1024, 5000])
def test_sum_and_its_squares(length: int, passes: list[int]) -> None:
    x, y = pair(length)
    total = kernels.add(x, y, torch.empty(length))
    known = kernels.square_sums(total)
    assert not passes
    assert torch.equal(total, x + y)
    assert np.array_equal(known, kernels.square_sums(x + y))
    assert passes == [length]


CHANGES: dict[str, Callable[[Tensor], object]] = {
    "a value": lambda x: x.__setitem__(3, 5.0),
    "all values": lambda x: x.mul_(2),
    "a view": lambda x: x[10:20].zero_(),
    "a detached tensor": lambda x: x.detach().add_(1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_tensor_is_read_again(change: str, passes: list[int]) -> None:
    total = kernels.add(*pair(3000), torch.empty(3000))
    CHANGES[change](total)
    found = kernels.square_sums(total)
    assert passes == [3000]
    assert np.array_equal(found, kernels.square_sums(total.clone()))


def test_in_inference_mode(passes: list[int]) -> None:
    with torch.inference_mode():
        total = kernels.add(*pair(3000), torch.empty(3000))
        assert np.array_equal(kernels.square_sums(total), kernels.square_sums(total.clone()))
    assert passes == [3000, 3000]


def test_feedback_saves_the_codec_a_pass(passes: list[int]) -> None:
    codec = ThcCodec(solve(4, 30, 1 / 32), job=1, worker=0)
    feedback = ErrorFeedback()
    x, residual = pair(5000)
    feedback.store("a", residual)
    total = feedback.compensate("a", x)
    own = codec.begin(total, 0, 0).norms()
    assert not passes
    assert np.array_equal(own, codec.begin(x + residual, 0, 0).norms())


def test_feedback_of_one_bucket_is_one_pass(passes: list[int]) -> None:
    parts = [("a", 1000), ("b", 1), ("c", 2500)]
    x, residual = pair(3501)
    feedback = ParameterFeedback()
    feedback.store(parts, residual)
    total = feedback.compensate(x, parts)
    assert torch.equal(total, x + residual)
    kernels.square_sums(total)
    assert not passes
