# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The error of sums that lack something, against sums worked out here in the tensors' own space."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sumwire.codec.oracles import nmse
from sumwire.codec.tables import solve
from sumwire.dlcp import exactness
from sumwire.dlcp.exactness import Sum, filled, rows, smallest

TABLE = solve(4, 30, 1 / 32)


def gradients(values: int = 1 << 16, workers: int = 4) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(values, generator=generator) for _ in range(workers)]


def test_filling_puts_the_middle_of_what_may_have_been() -> None:
    values = np.array([[0, 1, 2, 3, 4, 7, 15, 14]], np.uint8)
    assert filled(values).tolist() == [[2, 1, 2, 1, 6, 5, 14, 13]]
    everything = np.tile(np.arange(16, dtype=np.uint8), 2)[None]
    everything[0, 16:] = np.roll(everything[0, 16:], 1)
    assert filled(everything).mean() == everything.mean(), "no bias over equally likely values"


def test_dropping_whole_workers_is_the_mean_of_the_others() -> None:
    xs = gradients()
    one = Sum(xs, TABLE)
    hit = np.zeros(one.magnitudes.shape, np.bool_)
    hit[3] = True
    truth = torch.stack(xs).mean(0)
    # THC's own error comes on top: of three contributors about 0.02 / 3 of a worker's energy.
    assert one.dropped(hit) == pytest.approx(nmse(torch.stack(xs[:3]).mean(0), truth), abs=0.05)
    assert one.dropped(hit, zero_fill=True) == pytest.approx(nmse(torch.stack(xs[:3]).sum(0) / 4, truth), abs=0.05)


def test_order_of_exactness() -> None:
    """Nothing lost, low planes of results, of contributions, whole contributions, and these as zeros."""
    found = rows(exactness.layered(), (0.2,))
    order = ["whole", "results cut", "contributions cut", "dropped, by contributors", "dropped, zero-filled"]
    errors = [found[name][0] for name in order]
    assert errors == sorted(errors) and errors[2] < errors[3] / 2
    assert found["smallest dropped, by contributors"][0] < found["dropped, by contributors"][0] / 3


def test_the_smallest_are_chosen_for_each_worker() -> None:
    magnitudes = np.array([[3, 1, 2, 9], [1, 5, 6, 7]], np.float32)
    assert smallest(0.5, magnitudes).tolist() == [[False, True, True, False], [True, True, False, False]]
    assert not smallest(0.0, magnitudes).any()


def test_what_the_default_classes_hold() -> None:
    """Class 3 holds less than its share of the energy, class 0 most of it."""
    for make in (exactness.layered, exactness.digits):
        for position, class_3 in ((0.0, 0.3), (1.0, 0.1)):
            energy = exactness.energy_of_classes(make(), position)
            assert sum(energy) == pytest.approx(1)
            assert energy[0] > 0.7 and energy[3] < class_3 / 3


def test_report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(exactness, "DRAWN_VALUES", 1 << 14)
    assert exactness.main(["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"shares", "layered", "digits"} and len(found["digits"]["nmse"]) == 7
    assert exactness.main([]) == 0
    assert "energy of classes 0, 1, 2, 3 at the front: " in capsys.readouterr().out
