# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rotation against the Kronecker definition of H in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sumwire.codec.errors import CodecError
from sumwire.codec.rotation import PASS_VALUES, hadamard_, rotate, unrotate
from sumwire.codec.seeds import SignStream


@pytest.mark.parametrize("d", [PASS_VALUES, 2 * PASS_VALUES, 1 << 17, 1 << 18])
def test_long_rotations_are_split_without_effect(d: int) -> None:
    """Rows of H are products of signs: H[i, j] = (-1)^(bits in both i and j). Three unit vectors show three rows."""
    places = [0, 5 * d // 8 + 3, d - 1]
    x = torch.zeros((3, d), dtype=torch.float64)
    for row, place in enumerate(places):
        x[row, place] = 1.0
    hadamard_(x)
    columns = np.arange(d, dtype=np.int64)
    for row, place in enumerate(places):
        parity = np.bitwise_count(columns & place) % 2
        assert np.array_equal(x[row].numpy(), 1.0 - 2.0 * parity)


@pytest.mark.parametrize("d", [1024, 2048, 4096, 1 << 16])
def test_inverse_and_length(d: int) -> None:
    generator = torch.Generator().manual_seed(d)
    x = torch.randn((5, d), generator=generator)
    signs = SignStream.of(1, 2, 3, torch.device("cpu")).signs(0, 5, d)
    y = rotate(x, signs)
    assert torch.allclose(y.norm(dim=1), x.norm(dim=1), rtol=1e-5)
    assert torch.allclose(unrotate(y, signs), x, rtol=0, atol=1e-5)
    assert not torch.allclose(y, x, atol=0.1)


def test_bits_do_not_depend_on_threads_or_neighbours() -> None:
    x = torch.randn((70, 4096), generator=torch.Generator().manual_seed(1))
    signs = torch.ones(4096)
    alone = torch.cat([rotate(row[None], signs) for row in x])
    torch.set_num_threads(3)
    assert torch.equal(rotate(x, signs), alone)


def test_input_is_left_alone() -> None:
    x = torch.randn((2, 1024))
    copy = x.clone()
    rotate(x, torch.ones(1024))
    unrotate(x, torch.ones(1024))
    assert torch.equal(x, copy)


@pytest.mark.parametrize("shape", [(2, 1000), (1024,), (2, 0)])
def test_wrong_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(CodecError):
        rotate(torch.zeros(shape), torch.ones(1))
    with pytest.raises(CodecError, match="floating point"):
        rotate(torch.zeros((1, 1024), dtype=torch.int32), torch.ones(1024))
