# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Baselines over a group, without a network: signs in bytes, shares of values, hooks, and dlcp-ring."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import sumwire.multihop
import torch
import torch.distributed as dist
from sumwire import systems
from sumwire.errors import UsageError
from sumwire.systems.baselines import TopK, ef_sign, pack, unpack
from sumwire.systems.hooks import PowerSgdMemory, TimedHook, by_gloo
from torch import Tensor, nn
from torch.testing._internal.distributed.fake_pg import FakeStore


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 1000])
def test_signs_are_packed_as_numpy_does(length: int) -> None:
    plus = torch.rand(length, generator=torch.Generator().manual_seed(length)) < 0.4
    octets = pack(plus)
    np.testing.assert_array_equal(octets.numpy(), np.packbits(plus.numpy()))
    assert torch.equal(unpack(octets, length), plus.to(torch.uint8))


@pytest.mark.parametrize(
    ("k", "length", "count"), [(0.01, 1000, 10), (0.01, 50, 1), (1, 50, 50), (1.0, 1, 1), (0.999, 10, 9), (1e-9, 0, 0)]
)
def test_share_of_values_is_rounded_down_and_one_at_least(k: float, length: int, count: int) -> None:
    assert TopK(cast(Any, None), k).count(length) == count


@pytest.mark.parametrize("k", [0, -0.1, 1.01, float("nan"), True, "0.1"])
def test_share_out_of_range_is_refused(k: Any) -> None:
    with pytest.raises(UsageError, match="above 0 and at most 1"):
        TopK(cast(Any, None), k)


def test_ef_sign_of_values_whose_sum_is_beyond_float32() -> None:
    """Each mean of magnitudes is within it, and so is the mean of the workers'."""

    class Two:
        workers = 2

        def gather(self, message: Tensor) -> list[Tensor]:
            return [message, message]

    x = torch.full((9,), 3e38)
    mean, residual = ef_sign(cast(Any, Two()), x, 0)
    torch.testing.assert_close(mean, x)
    torch.testing.assert_close(residual(), torch.zeros(9), rtol=0, atol=1e33)


class Group:
    """gloo for processors, and another backend for GPUs."""

    def __init__(self, on_gpus: str) -> None:
        self._names = {"cpu": "gloo", "cuda": on_gpus}

    def _get_backend(self, device: torch.device) -> Group:
        self._name = self._names[device.type]
        return self

    def name(self) -> str:
        return self._name


@pytest.mark.parametrize("on_gpus", ["gloo", "nccl"])
def test_gloo_leaves_the_order_open_on_gpus_too(on_gpus: str) -> None:
    group = cast(dist.ProcessGroup, Group(on_gpus))
    assert by_gloo(group, torch.device("cpu"))
    assert by_gloo(group, torch.device("cuda", 0)) == (on_gpus == "gloo")


def test_power_sgd_refuses_scalars_with_a_cure() -> None:
    parameters = [torch.ones(3), torch.tensor(1.0)]
    any_hook = cast(Any, None)
    memory = PowerSgdMemory(cast(Any, None))
    with pytest.raises(UsageError, match=r"parameter of shape \(\): Power-SGD needs at least one dimension: make it"):
        TimedHook(any_hook, None, any_hook, memory=memory).check(parameters)
    TimedHook(any_hook, None, any_hook, memory=memory).check(parameters[:1])
    TimedHook(any_hook, None, any_hook).check(parameters)


class LosingRing:
    """Loses the first value of every tensor, and keeps the tensors."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.stats = SimpleNamespace(payload_bytes=0)
        self.given: list[Tensor] = []
        made.append(self)

    def mean(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.given.append(x.clone())
        mean, kept = x.clone(), torch.zeros_like(x)
        mean[0], kept[0] = 0.0, x[0]
        return mean, kept

    def close(self) -> None:
        pass


made: list[LosingRing] = []


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_lost_nan_is_in_no_residual(one_rank: None, monkeypatch: pytest.MonkeyPatch, bad: float) -> None:
    monkeypatch.setattr(sumwire.multihop, "GroupRing", LosingRing)
    system, model = systems.make("dlcp-ring"), nn.Linear(3, 1, bias=False)
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.0))
    for first in (bad, 1.0, 1.0):
        model.weight.grad = torch.tensor([[first, 2.0, 3.0]])
        optimizer.step()
    system.close()
    assert [given[0].item() for given in made[-1].given[1:]] == [1.0, 2.0], "what is finite comes with the next tensor"
