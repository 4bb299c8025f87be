# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets lost on purpose in a training script."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sumwire.dlcp.packet_loss import BURST_PACKETS, PacketLoss, from_environment
from sumwire.errors import ConfigError
from torch import nn


def runs_of(lost: np.ndarray) -> list[int]:
    """Lengths of the runs of lost packets."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], lost.astype(np.int8), [0]])))
    return [int(length) for length in edges[1::2] - edges[::2]]


@pytest.mark.parametrize("pattern", ["iid", "burst"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5])
def test_the_share_comes_out(pattern: str, share: float) -> None:
    loss = PacketLoss(share, pattern, seed=3)
    lost = np.concatenate([loss.draw(packets) for packets in (1, 999, 0, 399_000)])
    assert lost.mean() == pytest.approx(share, rel=0.06)
    assert (loss.packets, loss.lost) == (400_000, int(np.count_nonzero(lost)))


def test_bursts_are_bursts_whatever_the_tensors() -> None:
    """Eight packets in the mean, and they go on from one tensor to the next."""
    loss = PacketLoss(0.02, "burst", seed=1)
    lost = np.concatenate([loss.draw(3) for _ in range(100_000)])
    lengths = runs_of(lost)
    assert np.mean(lengths) == pytest.approx(BURST_PACKETS, rel=0.1)
    assert lost.mean() == pytest.approx(0.02, rel=0.1)
    singles = runs_of(PacketLoss(0.02, "iid", seed=1).draw(300_000))
    assert np.mean(singles) < 1.1


def test_draws_repeat_by_seed_and_rank() -> None:
    def drawn(seed: int, rank: int) -> list[bool]:
        found: list[bool] = PacketLoss(0.5, "iid", seed, rank).draw(64).tolist()
        return found

    assert drawn(1, 0) == drawn(1, 0)
    assert drawn(1, 0) != drawn(2, 0) != drawn(1, 1)


def test_lost_packets_are_zeros_of_1024_values() -> None:
    x = torch.ones(5000)
    loss = PacketLoss(0.5, "iid", seed=2)
    assert loss.drop_flat(x) is x
    again = PacketLoss(0.5, "iid", seed=2).draw(5)
    assert 0 < again.sum() < 5
    for packet, lost in enumerate(again):
        assert set(x[packet * 1024 : (packet + 1) * 1024].tolist()) == {0.0 if lost else 1.0}


# Nine packets, the last one cut short; their norms rise and fall.
NORMS = (5.0, 1.0, 7.0, 3.0, 9.0, 2.0, 8.0, 4.0, 6.0)
PLACES = {
    "all": range(9),
    "front": range(3),
    "middle": range(3, 6),
    "back": range(6, 9),
    "small": (1, 3, 5, 7),
    "large": (0, 2, 4, 6, 8),
}


@pytest.mark.parametrize("of", PLACES)
def test_only_packets_of_the_place_are_lost(of: str) -> None:
    x = torch.cat([torch.full((1024,), norm) for norm in NORMS])
    x = x[:-24]
    loss = PacketLoss(0.999, "iid", seed=4, of=of)
    found = loss.drop_flat(x.clone())
    lost = [packet for packet in range(9) if not found[packet * 1024 : (packet + 1) * 1024].any()]
    assert lost == list(PLACES[of])
    # The share is one of those that may be lost.
    assert (loss.packets, loss.lost) == (len(lost), len(lost))


def test_a_models_gradients_travel_as_one_tensor() -> None:
    model = nn.Sequential(nn.Linear(30, 30), nn.Linear(30, 30), nn.Linear(30, 30))
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    model[1].bias.grad = None
    PacketLoss(0.5, "iid", seed=2).drop(model.parameters())
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None])
    lost = PacketLoss(0.5, "iid", seed=2).draw(3)
    expected = torch.from_numpy(np.repeat(~lost, 1024)[: len(flat)].astype(np.float32))
    assert torch.equal(flat, expected) and 0 < lost.sum() < 3


def test_environment() -> None:
    asked = {"SUMWIRE_LOSS": "0.25", "SUMWIRE_LOSS_PATTERN": "burst", "SUMWIRE_LOSS_SEED": "9"}
    loss = from_environment(2, asked)
    assert (loss.share, loss.pattern) == (0.25, "burst")
    assert np.array_equal(loss.draw(100), PacketLoss(0.25, "burst", 9, 2).draw(100))
    nothing = from_environment(environment={})
    x = torch.ones(10_000)
    assert bool(nothing.drop_flat(x).all())


@pytest.mark.parametrize(
    ("environment", "rule"),
    [
        ({"SUMWIRE_LOSS": "1"}, r"share = 1.0: must be in \[0, 1\)"),
        ({"SUMWIRE_LOSS": "-0.1"}, r"must be in \[0, 1\)"),
        ({"SUMWIRE_LOSS": "nan"}, r"must be in \[0, 1\)"),
        ({"SUMWIRE_LOSS": "much"}, "SUMWIRE_LOSS = 'much': must be a number"),
        ({"SUMWIRE_LOSS_SEED": "0.5"}, "SUMWIRE_LOSS_SEED = '0.5': must be a number"),
        ({"SUMWIRE_LOSS_PATTERN": "rain"}, "pattern = 'rain': must be one of iid, burst"),
        ({"SUMWIRE_LOSS_OF": "side"}, "of = 'side': must be one of all, front, middle, back, small, large"),
        ({"SUMWIRE_LOSS": "0.95", "SUMWIRE_LOSS_PATTERN": "burst"}, "cannot lose more than 0.889"),
    ],
)
def test_nonsense_is_refused(environment: dict[str, Any], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        from_environment(environment=environment)
