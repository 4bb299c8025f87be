# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC's rounding over all numbers that the stream can draw: between two neighbours, and unbiased within its bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sumwire.codec.seeds import DRAW_STEPS, RoundingStream, SignStream
from sumwire.codec.tables import ThcTable, for_workers, solve
from sumwire.codec.thc_forms import TorchForm, _BlockTile
from torch import Tensor

CPU = torch.device("cpu")
BOUND = 2.0**-17
TABLES = [
    solve(4, 30, 1 / 32),
    solve(4, 15, 1 / 16),
    solve(4, 255, 1 / 64),
    solve(3, 20, 1 / 32),
    solve(1, 1, 0.5),
    for_workers(18),
]


@dataclass(frozen=True)
class EveryNumber(RoundingStream):
    """Each number once."""

    def numbers(self, first_value: int, count: int) -> Tensor:
        return torch.arange(count, dtype=torch.int32)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.bits} bits, granularity {table.granularity}")
def test_every_value_is_rounded_without_bias(table: ThcTable) -> None:
    form = TorchForm(table, SignStream.of(1, 0, 0, CPU), EveryNumber(0, CPU))
    tile = _BlockTile(0, 1, DRAW_STEPS, 0)
    g = table.granularity
    # Of few enough bits that they come through the middle of the grid unrounded.
    inside = (torch.rand(40, generator=torch.Generator().manual_seed(g)) * g * 4096).round() / 4096
    places = torch.cat([inside, torch.tensor(table.values, dtype=torch.float32), torch.tensor([-1.0, g + 1.0])])
    for w in places:
        middle = torch.full((1, DRAW_STEPS), float(w) - g / 2)
        indices = form._round(middle, torch.ones(1, 1), tile).numpy()
        real = np.interp(float(w), table.values, range(len(table.values)))
        assert indices.min() >= np.floor(real - BOUND) and indices.max() <= np.ceil(real + BOUND)
        assert abs(indices.mean() - real) <= BOUND + 1e-6
