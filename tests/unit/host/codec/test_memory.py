# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Recycled memory: again only when nobody holds it."""

from __future__ import annotations

import pytest
import torch
from sumwire.codec.tensors import Recycler

VALUES = 1000


def test_memory_comes_back_when_the_tensor_is_gone() -> None:
    recycler = Recycler()
    tensor = recycler.empty(VALUES, torch.float32)
    assert (tensor.shape, tensor.dtype) == ((VALUES,), torch.float32)
    at = tensor.data_ptr()
    del tensor
    assert recycler.empty(VALUES, torch.float32).data_ptr() == at


@pytest.mark.parametrize("view", [lambda t: t[10:20], lambda t: t.numpy(), lambda t: t.view(-1, 8)])
def test_memory_in_use_is_left_alone(view: object) -> None:
    recycler = Recycler()
    tensor = recycler.empty(VALUES, torch.float32)
    at = tensor.data_ptr()
    held = view(tensor)  # type: ignore[operator]
    del tensor
    other = recycler.empty(VALUES, torch.float32)
    assert other.data_ptr() != at
    del held
    assert recycler.empty(VALUES, torch.float32).data_ptr() == at


@pytest.mark.parametrize(
    ("length", "dtype", "same"),
    [(500, torch.float32, True), (499, torch.float32, False), (1001, torch.float32, False), (500, torch.float64, True)],
)
def test_a_block_serves_what_fills_half_of_it(length: int, dtype: torch.dtype, same: bool) -> None:
    recycler = Recycler()
    at = recycler.empty(VALUES, torch.float32).data_ptr()
    tensor = recycler.empty(length, dtype)
    assert (tensor.data_ptr() == at) is same
    tensor.fill_(1.0)
    assert float(tensor.sum()) == length


def test_few_blocks_are_kept() -> None:
    recycler = Recycler()
    tensors = [recycler.empty(VALUES, torch.float32) for _ in range(20)]
    del tensors
    assert len(recycler._free) == 16


def test_empty() -> None:
    assert Recycler().empty(0, torch.float32).shape == (0,)


def test_a_large_block_fills_whole_huge_pages() -> None:
    recycler = Recycler()
    tensor = recycler.empty(1_000_000, torch.float32)
    assert tensor.data_ptr() % (1 << 21) == 0
    at = tensor.data_ptr()
    tensor.fill_(1.0)
    assert float(tensor.sum()) == 1_000_000
    del tensor
    assert recycler.empty(1 << 20, torch.float32).data_ptr() == at
