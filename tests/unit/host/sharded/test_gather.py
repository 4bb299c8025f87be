# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters rounded to 8 bits: levels by numpy, bounds of the error, and gathers that are waited for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.distributed as dist
from sumwire.sharded.gather import AllGather, decode, encode, message_bytes
from torch import Tensor

LENGTHS = [1, 255, 256, 257, 5000]


def values(length: int, seed: int = 1) -> Tensor:
    """Blocks of unlike sizes, as layers have them."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.logspace(-20, 10, length)
    return torch.randn(length, generator=generator) * sizes


def by_numpy(x: Tensor) -> np.ndarray:
    """Each block of 256 to 255 levels, by its definition."""
    found = []
    for start in range(0, len(x), 256):
        block = x[start : start + 256].numpy()
        step = np.float32(np.abs(block).max()) / np.float32(127)
        found.append(np.round(block / step) * step)
    return np.concatenate(found)


def decoded(x: Tensor) -> Tensor:
    message, into = encode(x), torch.full((1, len(x)), torch.nan, dtype=torch.float32)
    decode(message.view(1, -1), into)
    return into[0]


@pytest.mark.parametrize("length", LENGTHS)
def test_values_are_those_of_the_definition(length: int) -> None:
    x = values(length)
    np.testing.assert_array_equal(decoded(x).numpy(), by_numpy(x))
    assert len(encode(x)) == message_bytes(length) == -(-length // 4) * 4 + -(-length // 256) * 4
    for start in range(0, length, 256):
        block = x[start : start + 256]
        assert (decoded(x)[start : start + 256] - block).abs().max() <= block.abs().max() / 254 * 1.0001


def test_the_example_of_the_module() -> None:
    torch.testing.assert_close(decoded(torch.tensor([1.0, -0.5, 0.003])), torch.tensor([1.0, -64 / 127, 0.0]))


def test_zeros_stay_and_what_is_not_finite_stays_so() -> None:
    assert torch.equal(decoded(torch.zeros(300)), torch.zeros(300))
    for bad in (torch.nan, torch.inf, -torch.inf):
        x = torch.ones(600)
        x[300] = bad
        found = decoded(x)
        assert not found[256:512].isfinite().any(), "its block"
        assert torch.equal(found[:256], x[:256]) and torch.equal(found[512:], x[512:])


@pytest.mark.parametrize("value", [2.66e-43, 1e-45, torch.finfo(torch.float32).max, -torch.finfo(torch.float32).max])
def test_extremes_keep_their_sign_and_stay_finite(value: float) -> None:
    x = torch.full((5,), value)
    torch.testing.assert_close(decoded(x), x, rtol=1e-6, atol=1.3e-43)


def test_no_values_have_no_message() -> None:
    assert len(encode(torch.zeros(0))) == message_bytes(0) == 0
    decode(torch.zeros(3, 0, dtype=torch.uint8), torch.zeros(3, 0))


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_torchs_default_type_changes_nothing(double: None) -> None:
    x = values(65 * 256).to(torch.float32)
    np.testing.assert_array_equal(decoded(x).numpy(), by_numpy(x))


def test_ranks_messages_become_rows() -> None:
    rows = [values(700, seed) for seed in range(3)]
    into = torch.empty(3, 700, dtype=torch.bfloat16)
    decode(torch.stack([encode(row) for row in rows]), into)
    assert torch.equal(into, torch.stack([decoded(row) for row in rows]).to(torch.bfloat16))


@pytest.fixture
def group() -> Iterator[dist.ProcessGroup]:
    """Of one rank, which gathers its own alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    assert dist.group.WORLD is not None
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("late", [False, True])
def test_a_gather_rounds_once_it_is_waited_for(group: dist.ProcessGroup, dtype: torch.dtype, late: bool) -> None:
    """Torch's input is a part of its output."""
    x = values(700).clamp(-1e4, 1e4).to(dtype)
    output = x.clone()
    work = AllGather(lambda: [300, 0, 400])(output, output[:700], group, late)
    if late:
        assert isinstance(work, dist.Work)
        assert torch.equal(output, x)
        assert work.wait()
        found = output.clone()
        work.wait()
        assert torch.equal(output, found)
    pieces = [decoded(piece.to(torch.float32)) for piece in (x[:300], x[300:])]
    assert torch.equal(output, torch.cat(pieces).to(dtype)), "blocks end with a parameter"
    assert not torch.equal(output, x)


@pytest.mark.parametrize(
    ("x", "pieces"),
    [
        (torch.arange(256, dtype=torch.uint8), [256]),
        (values(9).double(), [9]),
        (torch.zeros(0), []),
        (values(700), [300]),
        (values(3), [1, 1, 1]),
    ],
    ids=["bytes", "float64", "nothing", "resharded", "not shorter"],
)
def test_what_is_gathered_as_it_is(group: dist.ProcessGroup, x: Tensor, pieces: list[int]) -> None:
    output = torch.zeros_like(x)
    AllGather(lambda: pieces)(output, x, group)
    assert torch.equal(output, x)
